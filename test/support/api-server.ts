import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { parseAllDocuments } from 'yaml';
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
  pods: '/api/v1',
  nodes: '/api/v1',
  secrets: '/api/v1',
  namespaces: '/api/v1',
  serviceaccounts: '/api/v1',
  events: '/apis/events.k8s.io/v1',
  leases: '/apis/coordination.k8s.io/v1',
  roles: '/apis/rbac.authorization.k8s.io/v1',
  clusterroles: '/apis/rbac.authorization.k8s.io/v1',
  rolebindings: '/apis/rbac.authorization.k8s.io/v1',
  customresourcedefinitions: '/apis/apiextensions.k8s.io/v1',
  validatingwebhookconfigurations: '/apis/admissionregistration.k8s.io/v1',
} as const;
export type ReadKind = keyof typeof kinds;

export interface ReadPlace {
  name?: string;
  namespace?: string;
}

interface Asked {
  type?: string;
  body?: object;
  user?: ApiUser;
  /** Another one that the user plays. */
  as?: string | undefined;
}

export interface ResourceRule {
  verbs: string[];
  apiGroups?: string[];
  resources?: string[];
  resourceNames?: string[];
}

interface AppliedObject {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string };
  spec?: unknown;
}

/** Of those that tests apply. */
const clusterKinds = [
  'ClusterRole',
  'ClusterRoleBinding',
  'CustomResourceDefinition',
  'GatewayClass',
  'Namespace',
  'Node',
  'ValidatingWebhookConfiguration',
];

/** Of a document: none, one, or those of a list. */
function objectsOf(
  document: AppliedObject | { kind: 'List'; items: AppliedObject[] } | null,
): AppliedObject[] {
  if (document === null) return [];
  return 'items' in document ? document.items : [document];
}

/** Where the API has this object; in `default` where it names no namespace. */
function pathOf({ apiVersion, kind, metadata: { name, namespace = 'default' } }: AppliedObject): string {
  const group = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const within = clusterKinds.includes(kind) ? '' : `/namespaces/${namespace}`;
  return `${group}${within}/${pluralOf(kind.toLowerCase())}/${name}`;
}

function pluralOf(kind: string): string {
  return /s$/.test(kind) ? `${kind}es` : `${kind.replace(/(?<![aeo])y$/, 'ie')}s`;
}

function placeOf(kind: ReadKind, { name, namespace }: ReadPlace): string {
  const within = namespace === undefined ? '' : `/namespaces/${namespace}`;
  return `${kinds[kind]}${within}/${kind}${name === undefined ? '' : `/${name}`}`;
}

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
  #clientsPort: number | undefined;

  constructor(place: ApiServerPlace) {
    this.#place = place;
    this.folder = mkdtempSync(join(place.folder, 'suite-'));
    for (const user of Object.keys(users) as ApiUser[]) {
      writeFileSync(this.#ownKubeconfig(user), this.#kubeconfigText(user));
    }
  }

  get url(): string {
    return this.#place.url;
  }

  /** Path of a kubeconfig file for this user. */
  kubeconfig(user: ApiUser = 'admin'): string {
    return this.#clientsPort === undefined
      ? this.#ownKubeconfig(user)
      : this.kubeconfigOver(this.#clientsPort, user);
  }

  #ownKubeconfig(user: ApiUser = 'admin'): string {
    return join(this.folder, `${user}.kubeconfig`);
  }

  /** From now on who asks for a kubeconfig gets one over a proxy that listens on this port. kubectl and this object do without. */
  reachOver(port: number): void {
    this.#clientsPort = port;
  }

  /** As `kubeconfig`, over a proxy that listens on this port. */
  kubeconfigOver(port: number, user: ApiUser): string {
    const path = join(this.folder, `${user}-${port}.kubeconfig`);
    const direct = readFileSync(this.#ownKubeconfig(user), 'utf8');
    writeFileSync(path, direct.replaceAll(this.url, `https://127.0.0.1:${port}`));
    return path;
  }

  /** Runs kubectl, with `input` as its standard input and more of an environment. */
  kubectl(
    args: readonly string[],
    options: { input?: string; user?: ApiUser; env?: NodeJS.ProcessEnv } = {},
  ): KubectlResult {
    const { PATH } = process.env;
    const { status, stdout, stderr } = spawnSync(programPath(kubectlProgram), args, {
      env: {
        PATH,
        ...goOnce,
        HOME: this.folder,
        KUBECONFIG: this.#ownKubeconfig(options.user),
        ...options.env,
      },
      input: options.input ?? '',
      encoding: 'utf8',
      timeout: 60_000,
    });
    return { status, stdout, stderr };
  }

  /** As `kubectl`, while this thread goes on: for what asks a webhook of this process. */
  async kubectlBeside(
    args: readonly string[],
    { input = '' }: { input?: string } = {},
  ): Promise<KubectlResult> {
    const { PATH } = process.env;
    const env = { PATH, ...goOnce, HOME: this.folder, KUBECONFIG: this.#ownKubeconfig() };
    const kubectl = spawn(programPath(kubectlProgram), args, { env, timeout: 60_000 });
    kubectl.stdin.end(input);
    const [stdout, stderr, [status]] = await Promise.all([
      text(kubectl.stdout),
      text(kubectl.stderr),
      once(kubectl, 'close') as Promise<[number | null]>,
    ]);
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
  read(kind: ReadKind, where: ReadPlace, query = ''): any {
    const path = `${placeOf(kind, where)}${query}`;
    const { status, body } = this.get(path);
    if (status === 404) return undefined;
    if (status !== 200) throw new Error(`${path}: ${status} ${body}`);
    return JSON.parse(body);
  }

  /** The names of the objects in this place, in order. `labels` selects some of them. */
  names(kind: ReadKind, where: ReadPlace = {}, labels = ''): string[] {
    const list = this.read(kind, where, labels && `?labelSelector=${encodeURIComponent(labels)}`);
    return (list.items as AppliedObject[]).map(({ metadata }) => metadata.name).sort();
  }

  /** What the server answers to a GET of its admin. As `read`, it keeps this thread. */
  get(path: string): BlockingAnswer {
    return this.#ask(path);
  }

  /**
   * Applies objects, in YAML or JSON, as `kubectl apply --server-side --force-conflicts` does, and as strictly. As `read`, it
   * keeps this thread and takes little: for what a test needs, not for what it is about.
   */
  apply(manifests: string): void {
    for (const object of parseAllDocuments(manifests).flatMap((document) => objectsOf(document.toJS()))) {
      const { status, body } = this.#applied(object);
      if (status >= 300) throw new Error(`${object.kind} ${object.metadata.name}: ${status} ${body}`);
    }
  }

  /** What the server would say to `apply`, which stores nothing then. */
  tryApply(object: AppliedObject): BlockingAnswer {
    return this.#applied(object, '&dryRun=All');
  }

  #applied(object: AppliedObject, more = ''): BlockingAnswer {
    const path = `${pathOf(object)}?fieldManager=test&force=true&fieldValidation=Strict${more}`;
    return this.#ask(path, { method: 'PATCH', type: 'application/apply-patch+yaml', body: object });
  }

  /** As `apply`, the objects of these files. */
  applyFiles(...files: readonly string[]): void {
    for (const file of files) this.apply(readFileSync(file, 'utf8'));
  }

  /** As `kubectl delete -f`. */
  deleteAll(manifests: string): void {
    for (const object of parseAllDocuments(manifests).flatMap((document) => objectsOf(document.toJS())))
      this.#must('DELETE', pathOf(object));
  }

  createNamespace(name: string): void {
    this.apply(JSON.stringify({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } }));
  }

  createServiceAccount(name: string, namespace: string): void {
    this.apply(JSON.stringify({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace } }));
  }

  /** As `kubectl auth can-i` answers `get leases.coordination.k8s.io/one --subresource=status -n default`, or with `-A`, or `get /openapi/v3`. */
  can(user: ApiUser, question: string): boolean {
    const [verb, target = '', ...flags] = question.split(' ');
    const [kind = '', name] = target.split('/');
    const [resource, ...group] = kind.split('.');
    const flag = (pattern: RegExp): string | undefined => pattern.exec(flags.join(' '))?.[1];
    const resourceAttributes = {
      verb,
      resource,
      group: group.join('.'),
      ...(name !== undefined && { name }),
      subresource: flag(/--subresource=(\S+)/),
      namespace: flags.includes('-A') ? undefined : (flag(/-n (\S+)/) ?? 'default'),
    };
    const spec = target.startsWith('/')
      ? { nonResourceAttributes: { verb, path: target } }
      : { resourceAttributes };
    return this.#review(user, 'SelfSubjectAccessReview', spec).status.allowed;
  }

  /** As `kubectl auth can-i --list --as`. */
  rightsOf(user: string, namespace: string): ResourceRule[] {
    const { status } = this.#review('admin', 'SelfSubjectRulesReview', { namespace }, user);
    return status.resourceRules;
  }

  // biome-ignore lint/suspicious/noExplicitAny: the status depends on the kind
  #review(user: ApiUser, kind: string, spec: object, as?: string): any {
    const version = 'authorization.k8s.io/v1';
    const body = { apiVersion: version, kind, spec };
    const path = `/apis/${version}/${kind.toLowerCase()}s`;
    return JSON.parse(this.#must('POST', path, { type: 'application/json', body, user, as }).body);
  }

  /** As `kubectl patch --type=merge`: `null` deletes a member. */
  patch(kind: ReadKind, where: ReadPlace, change: object): void {
    this.#must('PATCH', placeOf(kind, where), { type: 'application/merge-patch+json', body: change });
  }

  /** As `kubectl label --overwrite`: `null` removes a label. */
  label(kind: ReadKind, where: ReadPlace, labels: Record<string, string | null>): void {
    this.patch(kind, where, { metadata: { labels } });
  }

  /** Throws where there is no such object; without a `name` all of the namespace that the query selects. */
  delete(kind: ReadKind, where: ReadPlace, query = ''): void {
    this.#must('DELETE', `${placeOf(kind, where)}${query}`);
  }

  #must(method: string, path: string, sent?: Asked): BlockingAnswer {
    const answer = this.#ask(path, { method, ...sent });
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.body}`);
    return answer;
  }

  #ask(path: string, asked: Asked & { method?: string } = {}): BlockingAnswer {
    const { method, type, body, user = 'admin', as } = asked;
    return blockingAsk({
      url: `${this.url}${path}`,
      headers: {
        authorization: `Bearer ${tokenOf(user)}`,
        ...(type !== undefined && { 'content-type': type }),
        ...(as !== undefined && { 'impersonate-user': as }),
      },
      ca: readFileSync(certificateFile(this.#place), 'utf8'),
      ...(method !== undefined && { method }),
      ...(body !== undefined && { body: JSON.stringify(body) }),
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
    const bound = pod !== undefined && { boundObjectRef: { apiVersion: 'v1', kind: 'Pod', name: pod } };
    const path = `${placeOf('serviceaccounts', { name, namespace })}/token`;
    const spec = { audiences: [audience], ...bound };
    const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec };
    const { body } = this.#must('POST', path, { type: 'application/json', body: request });
    return (JSON.parse(body) as { status: { token: string } }).status.token;
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
