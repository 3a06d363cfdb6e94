import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { processCpuUs } from '../../../bench/process-cpu.ts';
import { type ApiServerPlace, accountKeyFile, askApiServer, tokenFileText } from '../api-server.ts';
import { ChildProgram } from '../child-program.ts';
import { deleteWithUs } from '../end-with-us.ts';
import { apiServerProgram, etcdProgram, programPath } from '../find-server.ts';
import { freePort } from '../free-port.ts';
import { machineLoad, untilTrue } from '../machine-load.ts';

/** Chosen: both start in 4 s on two idle cores. Multiplied by the machine's load. */
const startTimeoutMs = 60_000;

/** Go collects garbage only above this size, which saves a quarter of the processor time of a server that lives for a suite. */
const fewCollections = { GOGC: 'off', GOMEMLIMIT: '1GiB' };

/** A kube-apiserver and its etcd, both on loopback, in a folder of their own. They end with this process. */
export class ApiServerProcesses {
  readonly #folder = mkdtempSync(join(tmpdir(), 'weir-apiserver-'));
  readonly #endGuard = deleteWithUs(this.#folder);
  #etcd: ChildProgram | undefined;
  #server: ChildProgram | undefined;
  #etcdUrl = '';
  #port = 0;
  /** Of servers that were stopped. */
  #endedCpuSeconds = 0;

  get place(): ApiServerPlace {
    return { url: `https://127.0.0.1:${this.#port}`, folder: this.#folder };
  }

  /** Of etcd's clients. */
  get etcdUrl(): string {
    return this.#etcdUrl;
  }

  get pid(): number {
    if (this.#server === undefined) throw new Error('the API server is not running');
    return this.#server.pid;
  }

  get serverRuns(): boolean {
    return this.#server?.running === true;
  }

  /** Processor time of both so far, without one that ended by itself; 0 where the system has no /proc. */
  get cpuSeconds(): number {
    return this.#endedCpuSeconds + cpuSecondsOf(this.#etcd) + cpuSecondsOf(this.#server);
  }

  async start(): Promise<void> {
    await this.#startEtcd();
    this.#port = await freePort();
    mkdirSync(join(this.#folder, 'certificates'));
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const pem = privateKey.export({ type: 'pkcs1', format: 'pem' });
    writeFileSync(accountKeyFile(this.place), pem);
    writeFileSync(join(this.#folder, 'tokens.csv'), tokenFileText());
    await this.startServer();
  }

  /** Starts kube-apiserver again on the same port, on the data in etcd. */
  async startServer(): Promise<void> {
    const server = new ChildProgram({
      command: programPath(apiServerProgram),
      args: this.#serverArgs(),
      env: { PATH: process.env['PATH'], ...fewCollections },
    });
    this.#server = server;
    const failure = () => new Error(`kube-apiserver did not start:\n${server.output.slice(-4000)}`);
    await untilTrue(
      async () => {
        if (!server.running) throw failure();
        return (await askApiServer(this.place, '/readyz').catch(() => undefined))?.status === 200;
      },
      { timeoutMs: startTimeoutMs, intervalMs: 100, failure },
    );
  }

  /** Ends kube-apiserver alone; etcd keeps its data. */
  async stopServer(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    this.#endedCpuSeconds += cpuSecondsOf(this.#server);
    await this.#server?.stop(signal);
    this.#server = undefined;
  }

  /** Both stand still, and take nothing of a processor, until `resume`. */
  pause(): void {
    this.#signal('SIGSTOP');
  }

  resume(): void {
    this.#signal('SIGCONT');
  }

  #signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    for (const program of [this.#server, this.#etcd]) program?.process.kill(signal);
  }

  async stop(): Promise<void> {
    await this.stopServer('SIGKILL');
    this.#endedCpuSeconds += cpuSecondsOf(this.#etcd);
    await this.#etcd?.stop('SIGKILL');
    rmSync(this.#folder, { recursive: true, force: true });
    this.#endGuard();
  }

  #serverArgs(): string[] {
    const at = (name: string): string => join(this.#folder, name);
    const key = accountKeyFile(this.place);
    return [
      `--etcd-servers=${this.#etcdUrl}`,
      '--bind-address=127.0.0.1',
      '--advertise-address=127.0.0.1',
      `--secure-port=${this.#port}`,
      `--cert-dir=${at('certificates')}`,
      `--token-auth-file=${at('tokens.csv')}`,
      '--authorization-mode=RBAC',
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-key-file=${key}`,
      `--service-account-signing-key-file=${key}`,
      '--service-cluster-ip-range=10.0.0.0/24',
      '--disable-admission-plugins=ServiceAccount',
      '--endpoint-reconciler-type=none',
      '--v=1',
    ];
  }

  async #startEtcd(): Promise<void> {
    const [client, peer] = [await freePort(), await freePort()];
    this.#etcdUrl = `http://127.0.0.1:${client}`;
    const peerUrl = `http://127.0.0.1:${peer}`;
    this.#etcd = new ChildProgram({
      command: programPath(etcdProgram),
      env: { PATH: process.env['PATH'], ...fewCollections },
      args: [
        `--data-dir=${join(this.#folder, 'etcd')}`,
        `--listen-client-urls=${this.#etcdUrl}`,
        `--advertise-client-urls=${this.#etcdUrl}`,
        `--listen-peer-urls=${peerUrl}`,
        `--initial-advertise-peer-urls=${peerUrl}`,
        `--initial-cluster=default=${peerUrl}`,
        '--unsafe-no-fsync',
      ],
    });
    await this.#etcd.printed(/ready to serve client requests/, startTimeoutMs * machineLoad());
  }
}

function cpuSecondsOf(program: ChildProgram | undefined): number {
  try {
    return program?.running === true ? processCpuUs(program.pid) / 1e6 : 0;
  } catch {
    return 0;
  }
}

/** Starts both; where one fails, neither is left. */
export async function startProcesses(): Promise<ApiServerProcesses> {
  const processes = new ApiServerProcesses();
  try {
    await processes.start();
    return processes;
  } catch (error) {
    await processes.stop();
    throw error;
  }
}
