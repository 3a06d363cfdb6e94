import { spawnSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { get } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ChildProgram } from './child-program.ts';
import { apiServerProgram, etcdProgram, findServer, kubectlProgram } from './find-server.ts';
import { freePort } from './free-port.ts';

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

export interface KubectlResult {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** A real kube-apiserver on a real etcd, both on loopback, in a folder of their own. */
export class ApiServer {
  readonly folder = mkdtempSync(join(tmpdir(), 'weir-apiserver-'));
  #etcd: ChildProgram | undefined;
  #server: ChildProgram | undefined;
  #etcdUrl = '';
  #port = 0;

  get url(): string {
    return `https://127.0.0.1:${this.#port}`;
  }

  /** Of etcd's clients. */
  get etcdUrl(): string {
    return this.#etcdUrl;
  }

  get pid(): number {
    if (this.#server === undefined) throw new Error('the API server is not running');
    return this.#server.pid;
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

  async start(): Promise<void> {
    await this.#startEtcd();
    this.#port = await freePort();
    this.#writeCredentials();
    await this.startServer();
  }

  /** Starts it again on the same port, on what etcd holds. */
  async startServer(): Promise<void> {
    const at = (name: string): string => join(this.folder, name);
    const server = new ChildProgram({
      command: path(apiServerProgram),
      args: [
        `--etcd-servers=${this.#etcdUrl}`,
        '--bind-address=127.0.0.1',
        '--advertise-address=127.0.0.1',
        `--secure-port=${this.#port}`,
        `--cert-dir=${at('certificates')}`,
        `--token-auth-file=${at('tokens.csv')}`,
        '--authorization-mode=RBAC',
        '--service-account-issuer=https://kubernetes.default.svc',
        `--service-account-key-file=${at('service-account.key')}`,
        `--service-account-signing-key-file=${at('service-account.key')}`,
        '--service-cluster-ip-range=10.0.0.0/24',
        '--disable-admission-plugins=ServiceAccount',
        '--endpoint-reconciler-type=none',
        '--v=1',
      ],
    });
    this.#server = server;
    for (let attempt = 0; !(await this.#isReady()); attempt++) {
      if (!server.running || attempt > 1200) {
        throw new Error(`kube-apiserver did not start:\n${server.output.slice(-4000)}`);
      }
      await sleep(50);
    }
  }

  get serverRuns(): boolean {
    return this.#server?.running === true;
  }

  /** Ends the server alone; etcd keeps what there is. */
  async stopServer(signal: 'SIGTERM' | 'SIGKILL' = 'SIGKILL'): Promise<void> {
    await this.#server?.stop(signal);
    this.#server = undefined;
  }

  async stop(): Promise<void> {
    await this.stopServer();
    await this.#etcd?.stop('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Runs kubectl, with `input` as its standard input and more of an environment. */
  kubectl(
    args: readonly string[],
    options: { input?: string; user?: ApiUser; env?: NodeJS.ProcessEnv } = {},
  ): KubectlResult {
    const { PATH } = process.env;
    const { status, stdout, stderr } = spawnSync(path(kubectlProgram), args, {
      env: { PATH, HOME: this.folder, KUBECONFIG: this.kubeconfig(options.user), ...options.env },
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

  /** As the kubelet puts it into the pods of this service account; another one each time; bound to `pod` where one is named. */
  accountToken(name: string, options: { namespace: string; audience: string; pod?: string }): string {
    const { namespace, audience, pod } = options;
    const bound = pod === undefined ? [] : ['--bound-object-kind=Pod', `--bound-object-name=${pod}`];
    const args = ['create', 'token', name, '-n', namespace, `--audience=${audience}`, ...bound];
    return this.mustKubectl(args).trim();
  }

  /** PEM of the key that tokens of service accounts are signed with. */
  get accountKey(): string {
    return readFileSync(join(this.folder, 'service-account.key'), 'utf8');
  }

  async #startEtcd(): Promise<void> {
    const [client, peer] = [await freePort(), await freePort()];
    this.#etcdUrl = `http://127.0.0.1:${client}`;
    const peerUrl = `http://127.0.0.1:${peer}`;
    this.#etcd = new ChildProgram({
      command: path(etcdProgram),
      args: [
        `--data-dir=${join(this.folder, 'etcd')}`,
        `--listen-client-urls=${this.#etcdUrl}`,
        `--advertise-client-urls=${this.#etcdUrl}`,
        `--listen-peer-urls=${peerUrl}`,
        `--initial-advertise-peer-urls=${peerUrl}`,
        `--initial-cluster=default=${peerUrl}`,
        '--unsafe-no-fsync',
      ],
    });
    await this.#etcd.printed(/ready to serve client requests/);
  }

  #writeCredentials(): void {
    mkdirSync(join(this.folder, 'certificates'));
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const pem = privateKey.export({ type: 'pkcs1', format: 'pem' });
    writeFileSync(join(this.folder, 'service-account.key'), pem);
    const tokens = Object.entries(users).map(([token, { user, groups }], index) => {
      return `${token}-token,${user},${index + 1},"${groups}"\n`;
    });
    writeFileSync(join(this.folder, 'tokens.csv'), tokens.join(''));
    for (const user of Object.keys(users) as ApiUser[]) {
      writeFileSync(this.kubeconfig(user), this.#kubeconfigText(user));
    }
  }

  #kubeconfigText(user: ApiUser): string {
    return `apiVersion: v1
kind: Config
current-context: test
clusters:
  - name: test
    cluster: { server: '${this.url}', certificate-authority: '${this.#certificatePath()}' }
users:
  - name: ${user}
    user: { token: ${user}-token }
contexts:
  - name: test
    context: { cluster: test, user: ${user} }
`;
  }

  #certificatePath(): string {
    return join(this.folder, 'certificates', 'apiserver.crt');
  }

  #isReady(): Promise<boolean> {
    return new Promise((resolve) => {
      try {
        const ca = readFileSync(this.#certificatePath());
        const headers = { authorization: 'Bearer admin-token' };
        const request = get(`${this.url}/readyz`, { ca, headers, agent: false }, (response) => {
          response.resume();
          resolve(response.statusCode === 200);
        });
        request.on('error', () => resolve(false));
      } catch {
        resolve(false);
      }
    });
  }
}

/** Starts a server of the test's own; it takes about five seconds. */
export async function startApiServer(): Promise<ApiServer> {
  const server = new ApiServer();
  try {
    await server.start();
    return server;
  } catch (error) {
    await server.stop();
    throw error;
  }
}

function path(program: Parameters<typeof findServer>[0]): string {
  const found = findServer(program);
  if ('missing' in found) throw new Error(found.missing);
  return found.path;
}
