import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type BlockingAnswer, blockingAsk } from './blocking-ask.ts';
import { goOnce, kubectlProgram, programPath } from './find-server.ts';
import { type HttpAnswer, httpAsk } from './http-ask.ts';

/** Who may ask, by the token that is their name; `admin` may do everything, the others what RBAC gives them. */
const users = {
  admin: { user: 'admin', groups: 'system:masters' },
  'control-plane': {
    user: 'system:serviceaccount:weir-system:weir-control-plane',
    groups: 'system:serviceaccounts,system:serviceaccounts:weir-system',
  },
  nobody: { user: 'nobody', groups: '' },
} as const;

export type ApiUser = keyof typeof users;

/** Where the API has the objects of these kinds, before and after the namespace. */
const kinds = {
  ratelimitconfigs: '/apis/ratelimit.weir.dev/v1alpha1',
  ratelimitfleets: '/apis/ratelimit.weir.dev/v1alpha1',
  ratelimitoverrides: '/apis/ratelimit.weir.dev/v1alpha1',
  configmaps: '/api/v1',
  events: '/apis/events.k8s.io/v1',
  leases: '/apis/coordination.k8s.io/v1',
} as const;
export type ReadKind = keyof typeof kinds;

export interface KubectlResult {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** Where a server listens, and the folder with its certificate and key. */
export interface ApiServerPlace {
  url: string;
  folder: string;
}

/** A real kube-apiserver as a suite uses it: its users, kubectl and tokens. An `OwnApiServer` can be stopped, too. */
export class ApiServer {
  /** The suite's own, in that of the server: kubeconfigs and kubectl's caches. */
  readonly folder: string;
  readonly #place: ApiServerPlace;

  constructor(place: ApiServerPlace) {
    this.#place = place;
    this.folder = mkdtempSync(join(place.folder, 'suite-'));
    for (const user of Object.keys(users) as ApiUser[]) {
      writeFileSync(this.kubeconfig(user), this.#kubeconfigText(user));
    }
  }

  get url(): string {
    return this.#place.url;
  }

  /** Path of a kubeconfig file for this user. */
  kubeconfig(user: ApiUser = 'admin'): string {
    return join(this.folder, `${user}.kubeconfig`);
  }

  /** As `kubeconfig`, over a proxy that listens on this port. */
  kubeconfigOver(port: number, user: ApiUser): string {
    const path = join(this.folder, `${user}-${port}.kubeconfig`);
    const text = readFileSync(this.kubeconfig(user), 'utf8');
    writeFileSync(path, text.replaceAll(this.url, `https://127.0.0.1:${port}`));
    return path;
  }

  /** Runs kubectl, with `input` as its standard input and more of an environment. */
  kubectl(
    args: readonly string[],
    options: { input?: string; user?: ApiUser; env?: NodeJS.ProcessEnv } = {},
  ): KubectlResult {
    const { PATH } = process.env;
    const { status, stdout, stderr } = spawnSync(programPath(kubectlProgram), args, {
      env: { PATH, ...goOnce, HOME: this.folder, KUBECONFIG: this.kubeconfig(options.user), ...options.env },
      input: options.input ?? '',
      encoding: 'utf8',
      timeout: 60_000,
    });
    return { status, stdout, stderr };
  }

  /** As `kubectl`, for what has to succeed; returns what it printed. */
  mustKubectl(args: readonly string[], options: { input?: string; user?: ApiUser } = {}): string {
    const { status, stdout, stderr } = this.kubectl(args, options);
    if (status !== 0) throw new Error(`kubectl ${args.join(' ')}: ${stderr}${stdout}`);
    return stdout;
  }

  /**
   * The object, or without a `name` the list of them; undefined where there is none. For tests that look again and again: it
   * takes a hundredth of what kubectl takes, and keeps this thread as long.
   */
  // biome-ignore lint/suspicious/noExplicitAny: what is in it depends on the kind
  read(kind: ReadKind, { name, namespace }: { name?: string; namespace?: string }, query = ''): any {
    const within = namespace === undefined ? '' : `/namespaces/${namespace}`;
    const path = `${kinds[kind]}${within}/${kind}${name === undefined ? '' : `/${name}`}${query}`;
    const { status, body } = this.get(path);
    if (status === 404) return undefined;
    if (status !== 200) throw new Error(`${path}: ${status} ${body}`);
    return JSON.parse(body);
  }

  /** What the server answers to a GET of its admin. As `read`, it keeps this thread. */
  get(path: string): BlockingAnswer {
    return blockingAsk({
      url: `${this.url}${path}`,
      headers: { authorization: `Bearer ${tokenOf('admin')}` },
      ca: readFileSync(certificateFile(this.#place), 'utf8'),
    });
  }

  /** Asks the server to create an object without storing it, as strictly as kubectl does, and without kubectl. */
  tryOut(
    kind: ReadKind,
    object: { metadata: { name: string; namespace: string }; [field: string]: unknown },
  ): Promise<HttpAnswer> {
    const path = `${kinds[kind]}/namespaces/${object.metadata.namespace}/${kind}`;
    return askApiServer(this.#place, `${path}?dryRun=All&fieldValidation=Strict`, { body: object });
  }

  /** As the kubelet puts it into the pods of this service account; another one each time; bound to `pod` where one is named. */
  accountToken(name: string, options: { namespace: string; audience: string; pod?: string }): string {
    const { namespace, audience, pod } = options;
    const bound = pod === undefined ? [] : ['--bound-object-kind=Pod', `--bound-object-name=${pod}`];
    const args = ['create', 'token', name, '-n', namespace, `--audience=${audience}`, ...bound];
    return this.mustKubectl(args).trim();
  }

  /** PEM of the key that tokens of service accounts are signed with. */
  get accountKey(): string {
    return readFileSync(accountKeyFile(this.#place), 'utf8');
  }

  /** Deletes the suite's folder; the server runs on. */
  close(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  #kubeconfigText(user: ApiUser): string {
    return `apiVersion: v1
kind: Config
current-context: test
clusters:
  - name: test
    cluster: { server: '${this.url}', certificate-authority: '${certificateFile(this.#place)}' }
users:
  - name: ${user}
    user: { token: ${tokenOf(user)} }
contexts:
  - name: test
    context: { cluster: test, user: ${user} }
`;
  }
}

/** PEM of the key that tokens of service accounts are signed with. */
export function accountKeyFile({ folder }: ApiServerPlace): string {
  return join(folder, 'service-account.key');
}

/** Tokens, users and groups, as `--token-auth-file` has them. */
export function tokenFileText(): string {
  return Object.entries(users)
    .map(([name, { user, groups }], index) => `${tokenOf(name)},${user},${index + 1},"${groups}"\n`)
    .join('');
}

/** Asks the server without kubectl. */
export async function askApiServer(
  place: ApiServerPlace,
  path: string,
  { user = 'admin', body }: { user?: ApiUser; body?: object } = {},
): Promise<HttpAnswer> {
  const authorization = `Bearer ${tokenOf(user)}`;
  return httpAsk(Number(new URL(place.url).port), path, {
    tls: { ca: readFileSync(certificateFile(place)) },
    headers: { authorization, 'content-type': 'application/json' },
    ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
  });
}

function certificateFile({ folder }: ApiServerPlace): string {
  return join(folder, 'certificates', 'apiserver.crt');
}

function tokenOf(user: string): string {
  return `${user}-token`;
}
