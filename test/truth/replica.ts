/** One control plane process after the other in one place, each with its way to the API server, which the test can cut. */
import type { ApiServer } from '../support/api-server.ts';
import type { ChildProgram } from '../support/child-program.ts';
import { spawnControlPlane } from '../support/control-plane-process.ts';
import { freePort } from '../support/free-port.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

export const leaseDurationMs = 6_000;

/** Short enough for the test, and long enough that a busy machine changes no leader. */
const leases = {
  LEASE_DURATION: `${leaseDurationMs}ms`,
  LEASE_RENEW_DEADLINE: '4s',
  LEASE_RETRY_PERIOD: '500ms',
};

export interface ReplicaOptions {
  /** What its pods are named after. */
  name: string;
  user: 'control-plane' | 'admin';
  env: Record<string, string>;
}

export class Replica {
  readonly xdsPort: number;
  readonly api: TcpProxy;
  readonly #options: ReplicaOptions;
  readonly #kubeconfig: string;
  #program: ChildProgram | undefined;
  #shouldRun = false;
  #starts = 0;
  /** What all its processes printed but for the present one. */
  #printed = '';
  #readTo = 0;
  startedMs = 0;
  isPaused = false;
  /** From the API server. */
  isCut = false;

  private constructor(
    options: ReplicaOptions,
    parts: { xdsPort: number; api: TcpProxy; kubeconfig: string },
  ) {
    this.#options = options;
    this.xdsPort = parts.xdsPort;
    this.api = parts.api;
    this.#kubeconfig = parts.kubeconfig;
  }

  static async create(server: ApiServer, options: ReplicaOptions): Promise<Replica> {
    const api = await TcpProxy.to(Number(new URL(server.url).port));
    const kubeconfig = server.kubeconfigOver(api.port, options.user);
    return new Replica(options, { xdsPort: await freePort(), api, kubeconfig });
  }

  /** Of the present pod: the Lease names it as its holder. */
  get podName(): string {
    return `${this.#options.name}-${this.#starts}`;
  }

  /** It ended, and nobody ended it. */
  get hasDied(): boolean {
    return this.#shouldRun && !this.isRunning;
  }

  get isRunning(): boolean {
    return this.#program?.running === true;
  }

  /** Whether limiters that are connected to it are heard of. */
  get isWell(): boolean {
    return this.isRunning && !this.isPaused && !this.isCut;
  }

  /** The present process has reported that it leads. */
  get leads(): boolean {
    return this.isRunning && this.#program?.output.includes('"Leading"') === true;
  }

  /** How often it reported that it lost the lead since this was last asked. */
  takeLostLeads(): number {
    const output = this.output;
    const count = output.slice(this.#readTo).split('"No longer leading"').length - 1;
    this.#readTo = output.length;
    return count;
  }

  get output(): string {
    return `${this.#printed}${this.#program?.output ?? ''}`;
  }

  start(nowMs: number): void {
    this.#printed = this.output;
    this.#starts += 1;
    this.startedMs = nowMs;
    this.#shouldRun = true;
    this.#program = spawnControlPlane({
      env: {
        KUBECONFIG: this.#kubeconfig,
        POD_NAME: this.podName,
        XDS_PORT: String(this.xdsPort),
        // What was cut without a word is noticed in time for the test.
        XDS_KEEPALIVE_INTERVAL: '3s',
        XDS_KEEPALIVE_TIMEOUT: '2s',
        ...leases,
        ...this.#options.env,
      },
    });
  }

  async stop(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    this.#shouldRun = false;
    this.resume();
    await this.#program?.stop(signal);
  }

  async pause(): Promise<void> {
    this.isPaused = true;
    await this.#program?.pause();
  }

  resume(): void {
    if (this.isPaused) this.#program?.resume();
    this.isPaused = false;
  }

  async close(): Promise<void> {
    await this.stop('SIGKILL');
    await this.api.close();
  }
}
