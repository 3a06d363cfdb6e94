import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ChildProgram } from './child-program.ts';
import { freePort } from './free-port.ts';
import { checkKeyLifetimes, inspectorArguments, type KeyLifetimes } from './key-lifetimes.ts';

export interface RedisServerOptions {
  /** The program: see `findServer`. */
  path: string;
  /** Listen on a unix socket as well. */
  unixSocket?: boolean;
  /** Further arguments of redis-server. */
  args?: string[];
  /** What `stop` expects of the keys that are left. */
  lifetimes?: KeyLifetimes;
}

/** A real Redis on loopback, in a folder of its own under the system's temporary one, that saves nothing. */
export class RedisServer {
  readonly port: number;
  /** Path of the unix socket, whether or not it was asked for. */
  readonly socketPath: string;
  readonly #options: RedisServerOptions;
  readonly #folder: string;
  #program: ChildProgram | undefined;
  #isChecked = false;

  constructor(options: RedisServerOptions, port: number) {
    this.#options = options;
    this.port = port;
    this.#folder = mkdtempSync(join(tmpdir(), 'weir-redis-'));
    this.socketPath = join(this.#folder, 'redis.sock');
  }

  get pid(): number | undefined {
    return this.#program?.process.pid;
  }

  /** Starts it again on the same port after `kill`; resolves once it answers. */
  async start(): Promise<void> {
    const { path, unixSocket = false, args = [] } = this.#options;
    const listen = ['--bind', '127.0.0.1', '--port', String(this.port), '--dir', this.#folder];
    const socket = unixSocket ? ['--unixsocket', this.socketPath] : [];
    const keepNothing = ['--save', '', '--appendonly', 'no'];
    const program = new ChildProgram({
      command: path,
      args: [...listen, ...socket, ...keepNothing, ...inspectorArguments, ...args],
    });
    this.#program = program;
    await program.startsTo('accept connections', () => this.#accepts());
    this.#isChecked = true;
  }

  /** Sends a signal to this one process; resolves when it is gone, unless the signal only stops or continues it. */
  async kill(signal: 'SIGKILL' | 'SIGTERM' | 'SIGSTOP' | 'SIGCONT'): Promise<void> {
    const program = this.#program;
    if (program === undefined || !program.running) return;
    if (signal === 'SIGSTOP') await program.pause();
    else if (signal === 'SIGCONT') program.resume();
    else await program.stop(signal);
  }

  /** Ends it. Rejects when it runs and keys are left that live longer than they may, which is reported once. */
  async stop(): Promise<void> {
    try {
      if (this.#isChecked && this.#program?.running === true) {
        this.#isChecked = false;
        this.#program.resume();
        await checkKeyLifetimes(this.port, this.#options.lifetimes);
      }
    } finally {
      await this.kill('SIGKILL');
      rmSync(this.#folder, { recursive: true, force: true });
    }
  }

  #accepts(): Promise<boolean> {
    if (this.#options.unixSocket && !existsSync(this.socketPath)) return Promise.resolve(false);
    return new Promise((resolve) => {
      const socket = connect(this.port, '127.0.0.1');
      socket.once('connect', () => socket.destroy());
      socket.once('error', () => {});
      socket.once('close', (hadError) => resolve(!hadError));
    });
  }
}

export async function startRedis(options: RedisServerOptions): Promise<RedisServer> {
  const server = new RedisServer(options, await freePort());
  try {
    await server.start();
  } catch (error) {
    await server.stop();
    throw error;
  }
  return server;
}

/** How often the server ran a command, by its `INFO commandstats`. */
export function commandCalls(stats: string, command: string): number {
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
}
