import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ChildProgram } from './child-program.ts';
import { freePort } from './free-port.ts';

export interface MemcachedServerOptions {
  /** The program: see `findServer`. */
  path: string;
  /** Further arguments of memcached. */
  args?: readonly string[];
  /** Listen on a unix socket, and nowhere else. */
  unixSocket?: boolean;
  /** Whom root's memcached becomes. Defaults to nobody. */
  user?: string;
}

/** A real memcached on loopback. */
export class MemcachedServer {
  readonly port: number;
  readonly socketPath: string;
  readonly #folder: string;
  readonly #options: MemcachedServerOptions;
  #program: ChildProgram | undefined;

  constructor(options: MemcachedServerOptions, port: number) {
    this.#options = options;
    this.port = port;
    this.#folder = mkdtempSync(join(tmpdir(), 'weir-memcached-'));
    this.socketPath = join(this.#folder, 'memcached.sock');
    // Root's memcached becomes another user, who has to get in.
    chmodSync(this.#folder, 0o777);
  }

  get address(): string {
    return this.#options.unixSocket === true ? this.socketPath : `127.0.0.1:${this.port}`;
  }

  /** Starts it, again on the same port after `kill`; resolves once it takes connections. */
  async start(): Promise<void> {
    const { path, args = [], unixSocket, user: name = 'nobody' } = this.#options;
    const listen =
      unixSocket === true ? ['-s', this.socketPath] : ['-l', '127.0.0.1', '-p', String(this.port), '-U', '0'];
    const user = process.getuid?.() === 0 ? ['-u', name] : [];
    const program = new ChildProgram({ command: path, args: [...listen, ...user, '-t', '1', ...args] });
    this.#program = program;
    await program.startsTo('accept connections', () => this.#accepts());
  }

  /** Sends a signal to this one process; resolves when it is gone, unless the signal only stops or continues it. */
  async kill(signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): Promise<void> {
    const program = this.#program;
    if (program === undefined || !program.running) return;
    if (signal === 'SIGSTOP') await program.pause();
    else if (signal === 'SIGCONT') program.resume();
    else await program.stop(signal);
  }

  async stop(): Promise<void> {
    await this.kill('SIGKILL');
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Sends lines as they are, and resolves with everything that is answered up to `end`. */
  async talk(text: string, end: RegExp): Promise<string> {
    const socket = this.#connect();
    let answer = '';
    socket.write(text);
    for await (const chunk of socket) {
      answer += String(chunk);
      if (end.test(answer)) break;
    }
    return answer;
  }

  /** The value of one key as it is stored. */
  async valueOf(key: string): Promise<string | undefined> {
    return /\r\n(.*)\r\nEND/.exec(await this.talk(`get ${key}\r\n`, /END\r\n$/))?.[1];
  }

  /** Seconds that a key has to live. */
  async ttlOf(key: string): Promise<number> {
    return Number(/ t(-?\d+)/.exec(await this.talk(`mg ${key} t\r\n`, /\r\n$/))?.[1]);
  }

  async set(key: string, value: string): Promise<void> {
    await this.talk(`set ${key} 0 0 ${value.length}\r\n${value}\r\n`, /STORED\r\n$/);
  }

  async stat(name: string): Promise<number> {
    return Number(new RegExp(`STAT ${name} (\\d+)`).exec(await this.talk('stats\r\n', /END\r\n$/))?.[1]);
  }

  async flush(): Promise<void> {
    await this.talk('flush_all\r\n', /OK\r\n$/);
  }

  #connect(): Socket {
    return this.#options.unixSocket === true ? connect(this.socketPath) : connect(this.port, '127.0.0.1');
  }

  async #accepts(): Promise<boolean> {
    const socket = this.#connect();
    try {
      await once(socket, 'connect');
      return true;
    } catch {
      return false;
    } finally {
      socket.destroy();
    }
  }
}

export async function startMemcached(options: MemcachedServerOptions): Promise<MemcachedServer> {
  const server = new MemcachedServer(options, await freePort());
  try {
    await server.start();
  } catch (error) {
    await server.stop();
    throw error;
  }
  return server;
}
