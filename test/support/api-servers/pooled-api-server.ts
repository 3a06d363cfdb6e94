import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { ApiServer, type ApiServerPlace } from '../api-server.ts';
import { eventually } from '../eventually.ts';
import { type PoolAnswer, type PoolQuestion, poolVariable } from './api-server-pool.ts';
import { programsConnectedTo } from './connected-programs.ts';

/** Chosen: a program that has ended may have connections for a moment. */
const patience = { timeoutMs: 2_000 };

/** A server of the run's pool, for one suite alone until `release`. */
export class PooledApiServer extends ApiServer {
  readonly #socket: Socket;
  readonly #port: number;

  private constructor(place: ApiServerPlace, socket: Socket) {
    super(place);
    this.#socket = socket;
    this.#port = Number(new URL(place.url).port);
  }

  /** Waits until one is clean or started, with our kinds or without. */
  static async take(question: PoolQuestion, path = process.env[poolVariable]): Promise<PooledApiServer> {
    if (path === undefined)
      throw new Error(
        'this vitest project lacks the globalSetup test/support/api-servers/api-server-pool.ts',
      );
    const socket = connect(path);
    await once(socket, 'connect');
    const lines = createInterface(socket);
    const answered = Promise.race([
      once(lines, 'line') as Promise<[string]>,
      once(lines, 'close').then(() => {
        throw new Error('the run has ended');
      }),
    ]);
    socket.write(`${JSON.stringify(question)}\n`);
    const answer = JSON.parse((await answered)[0]) as PoolAnswer;
    if ('place' in answer) return new PooledApiServer(answer.place, socket);
    socket.destroy();
    throw new Error(answer.error);
  }

  /** Gives it to other suites. Throws when a program of this suite still runs on it, which would disturb the next one. */
  async release(): Promise<void> {
    try {
      await eventually(() => {
        const programs = programsConnectedTo(this.#port);
        if (programs.length > 0)
          throw new Error(`the suite left programs on the API server: ${programs.join('; ')}`);
      }, patience);
    } finally {
      this.#socket.destroy();
      this.close();
    }
  }
}
