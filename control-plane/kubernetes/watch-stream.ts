/** The answer to a watch over HTTP: a line of JSON for each event. */
import type { Readable } from 'node:stream';
import type { WatchStream } from './api.ts';
import { type ApiError, unreachable, unreadable } from './api-error.ts';

/** Cuts the answer of a watch into lines of JSON. A line may come in many pieces, and a piece may hold many lines. */
export class WatchLines {
  readonly #maxBytes: number;
  #pieces: Buffer[] = [];
  #bytes = 0;

  /** `maxBytes` of one line defaults to 64 MiB: far above what etcd takes, far below what would end the process. */
  constructor(maxBytes = 64 * 1024 * 1024) {
    this.#maxBytes = maxBytes;
  }

  /** The values of the lines that `chunk` completes. Throws a SyntaxError or a RangeError. */
  *push(chunk: Buffer): Generator<unknown> {
    let start = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      this.#add(chunk.subarray(start, end));
      start = end + 1;
      const line = Buffer.concat(this.#pieces).toString('utf8');
      this.#pieces = [];
      this.#bytes = 0;
      if (line.trim() !== '') yield JSON.parse(line);
    }
    if (start < chunk.length) this.#add(chunk.subarray(start));
  }

  #add(piece: Buffer): void {
    this.#bytes += piece.length;
    if (this.#bytes > this.#maxBytes) throw new RangeError(`a line holds more than ${this.#maxBytes} bytes`);
    this.#pieces.push(piece);
  }
}

/** For messages: who answers, and what was asked. */
interface Asked {
  server: string;
  request: string;
}

export class HttpWatchStream implements WatchStream {
  readonly #stream: Readable;
  readonly #asked: Asked;

  constructor(stream: Readable, asked: Asked) {
    this.#stream = stream;
    this.#asked = asked;
  }

  follow(receive: (values: readonly unknown[]) => void): Promise<ApiError | undefined> {
    const lines = new WatchLines();
    return new Promise((resolve) => {
      let end: { error: ApiError | undefined } | undefined;
      this.#stream.on('data', (chunk: Buffer) => {
        if (this.#stream.destroyed) return;
        const { values, error } = this.#read(lines, chunk);
        receive(values);
        if (error === undefined) return;
        end ??= { error };
        this.#stream.destroy();
      });
      this.#stream.once('end', () => {
        end ??= { error: undefined };
      });
      this.#stream.on('error', (error) => {
        end ??= { error: unreachable(this.#asked.server, error) };
      });
      this.#stream.once('close', () => resolve(end?.error));
    });
  }

  end(): void {
    this.#stream.destroy();
  }

  /** Returns the lines that a piece of the answer completes, up to the first one that is not JSON. */
  #read(lines: WatchLines, chunk: Buffer): { values: unknown[]; error: ApiError | undefined } {
    const values: unknown[] = [];
    try {
      for (const value of lines.push(chunk)) values.push(value);
      return { values, error: undefined };
    } catch (error) {
      const text = error instanceof RangeError ? error.message : 'an event is not JSON';
      return { values, error: unreadable(`${this.#asked.request}: ${text}`, error) };
    }
  }
}
