import { ApiServer } from './api-server.ts';
import { type ApiServerProcesses, startProcesses } from './api-servers/api-server-processes.ts';

/** Processor time of the servers that this process started, and has stopped. file-cost.ts reads it. */
export interface CountsApiServers {
  apiServerCpuSeconds?: number;
}

/** An API server that one suite or script has for itself, and may stop. */
export class OwnApiServer extends ApiServer {
  readonly #processes: ApiServerProcesses;

  constructor(processes: ApiServerProcesses) {
    super(processes.place);
    this.#processes = processes;
  }

  /** Of etcd's clients. */
  get etcdUrl(): string {
    return this.#processes.etcdUrl;
  }

  get pid(): number {
    return this.#processes.pid;
  }

  get serverRuns(): boolean {
    return this.#processes.serverRuns;
  }

  /** Starts it again on the same port, on the data in etcd. */
  startServer(): Promise<void> {
    return this.#processes.startServer();
  }

  /** Ends the server alone; etcd keeps its data. */
  stopServer(signal: 'SIGTERM' | 'SIGKILL' = 'SIGKILL'): Promise<void> {
    return this.#processes.stopServer(signal);
  }

  async stop(): Promise<void> {
    await this.#processes.stop();
    const counted = globalThis as CountsApiServers;
    counted.apiServerCpuSeconds = (counted.apiServerCpuSeconds ?? 0) + this.#processes.cpuSeconds;
    this.close();
  }
}

/** Starts a server of the caller's own; it takes about five seconds. */
export async function startApiServer(): Promise<OwnApiServer> {
  return new OwnApiServer(await startProcesses());
}
