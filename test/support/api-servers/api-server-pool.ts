/**
 * The API servers that suites share: the main process of a run starts one when a suite asks and none is free, so a run has no
 * more of them than suites at a time. A suite holds a server by a connection to a Unix socket. When that ends, because the suite
 * or its process did, the server is cleaned for the next one; where that fails, another server replaces it. Until it has a suite it
 * does not run, as an idle one takes a sixtieth of a processor.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { ApiServerPlace } from '../api-server.ts';
import { deleteWithUs } from '../end-with-us.ts';
import { ApiServerProcesses } from './api-server-processes.ts';
import { SharedApiServer } from './shared-api-server.ts';

/** Names the socket to workers. */
export const poolVariable = 'WEIR_API_SERVERS';

/** What a suite writes to the socket, as a line. */
export interface PoolQuestion {
  suite: string;
  /** Whether our kinds are installed. */
  kinds: boolean;
}

/** What it gets, as a line. */
export type PoolAnswer = { place: ApiServerPlace } | { error: string };

/** What the pool of this process came to; summary-reporter.ts prints it. */
export interface SharesApiServers {
  sharedApiServers?: { servers: number; suites: number; cpuSeconds: number };
}

export class ApiServerPool {
  readonly #folder = mkdtempSync(join(tmpdir(), 'weir-apiservers-'));
  readonly #listener: Server = createServer((socket) => this.#serve(socket));
  /** Clean, or becoming so: whether they do. */
  readonly #free = new Map<SharedApiServer, Promise<boolean>>();
  readonly #running = new Set<ApiServerProcesses>();
  #started = 0;
  #suites = 0;
  #cpuSeconds = 0;
  #closed = false;
  #endGuard = (): void => {};
  readonly #make: () => ApiServerProcesses;

  constructor(make = () => new ApiServerProcesses()) {
    this.#make = make;
  }

  get socketPath(): string {
    return join(this.#folder, 'pool');
  }

  /** How many servers it started, and for how many suites. */
  get counts(): { servers: number; suites: number } {
    return { servers: this.#started, suites: this.#suites };
  }

  /** Processor time of its servers; until `close` without those that run. */
  get cpuSeconds(): number {
    return this.#cpuSeconds;
  }

  async listen(): Promise<void> {
    this.#endGuard = deleteWithUs(this.#folder);
    this.#listener.listen(this.socketPath);
    await once(this.#listener, 'listening');
    this.#listener.unref();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#listener.close();
    await Promise.all([...this.#running].map((processes) => this.#end(processes)));
    rmSync(this.#folder, { recursive: true, force: true });
    this.#endGuard();
  }

  async #serve(socket: Socket): Promise<void> {
    socket.on('error', () => {});
    const ended = new Promise((resolve) => socket.once('close', resolve));
    const answer = (line: PoolAnswer): void => void socket.write(`${JSON.stringify(line)}\n`);
    const [line] = (await once(createInterface(socket), 'line')) as [string];
    const { suite, kinds } = JSON.parse(line) as PoolQuestion;
    this.#suites += 1;
    try {
      const server = await this.#take(kinds);
      server.lastSuite = suite;
      answer({ place: server.processes.place });
      await ended;
      this.#free.set(
        server,
        this.#isReady(server, () => server.rest()),
      );
    } catch (error) {
      answer({ error: String(error) });
    }
  }

  async #take(kinds: boolean): Promise<SharedApiServer> {
    for (;;) {
      const free = [...this.#free.keys()];
      const server = free.find((one) => one.hasKinds === kinds) ?? free[0] ?? (await this.#start());
      const rests = this.#free.get(server) ?? true;
      this.#free.delete(server);
      if ((await rests) && (await this.#isReady(server, () => server.prepare(kinds)))) return server;
    }
  }

  async #start(): Promise<SharedApiServer> {
    this.#started += 1;
    const processes = this.#make();
    this.#running.add(processes);
    try {
      await processes.start();
      return await SharedApiServer.of(processes);
    } catch (error) {
      await this.#end(processes);
      throw error;
    }
  }

  async #isReady(server: SharedApiServer, become: () => Promise<void>): Promise<boolean> {
    try {
      await become();
      return true;
    } catch (error) {
      if (this.#closed) return false;
      console.warn(`The API server after the suite "${server.lastSuite}" is replaced: ${String(error)}`);
      await this.#end(server.processes);
      return false;
    }
  }

  async #end(processes: ApiServerProcesses): Promise<void> {
    if (this.#running.delete(processes)) this.#cpuSeconds += processes.cpuSeconds;
    await processes.stop();
  }
}

/** What vitest calls once a project: the first makes the pool of the run. */
export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env[poolVariable] !== undefined) return undefined;
  const pool = new ApiServerPool();
  await pool.listen();
  process.env[poolVariable] = pool.socketPath;
  return async () => {
    await pool.close();
    const { servers, suites } = pool.counts;
    const { cpuSeconds } = pool;
    (globalThis as SharesApiServers).sharedApiServers = { servers, suites, cpuSeconds };
  };
}
