import type { Readable } from 'node:stream';
import type { Timers } from '../../process/time/clock.ts';
import { type ApiError, unreachable, unreadable, watchError } from './api-error.ts';
import { type ProgressEvent, parseWatchEvent } from './watch-resource.ts';

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

export interface WatchStreamOptions {
  /** The answer to a watch. */
  stream: Readable;
  timers: Timers;
  /** Silence that ends the watch in order: nothing may have happened, or the other side may be gone without a word. */
  idleTimeoutMs: number;
  /** For messages: who answers, and what was asked. */
  server: string;
  request: string;
  /** In order: those that came together. Not called without any. */
  receive(events: readonly ProgressEvent[]): void;
}

/** Settles when the watch has ended and its connection is given back: undefined in order, else why. Never rejects. */
export function readWatch(options: WatchStreamOptions): Promise<ApiError | undefined> {
  const { stream, timers, idleTimeoutMs, server } = options;
  const lines = new WatchLines();
  return new Promise((resolve) => {
    let end: { error: ApiError | undefined } | undefined;
    const finish = (error: ApiError | undefined) => {
      end ??= { error };
      stream.destroy();
    };
    const waitForMore = () => timers.after(idleTimeoutMs, () => finish(undefined));
    let callOff = waitForMore();
    stream.on('data', (chunk: Buffer) => {
      callOff();
      if (end !== undefined) return;
      callOff = waitForMore();
      const { events, error } = parse(lines, chunk, options.request);
      if (events.length > 0) options.receive(events);
      if (error !== undefined) finish(error);
    });
    stream.once('end', () => finish(undefined));
    stream.on('error', (error) => finish(unreachable(server, error)));
    stream.once('close', () => {
      callOff();
      resolve(end?.error);
    });
  });
}

/** What a piece of the answer completes, up to the first thing that ends the watch. */
function parse(
  lines: WatchLines,
  chunk: Buffer,
  request: string,
): { events: ProgressEvent[]; error: ApiError | undefined } {
  const events: ProgressEvent[] = [];
  try {
    for (const value of lines.push(chunk)) {
      const event = parseWatchEvent(value);
      if (event === undefined) return { events, error: unreadable(`${request}: an event of unknown form`) };
      if (event.type === 'ERROR') return { events, error: watchError(event.status, request) };
      events.push(event);
    }
    return { events, error: undefined };
  } catch (error) {
    const text = error instanceof RangeError ? error.message : 'an event is not JSON';
    return { events, error: unreadable(`${request}: ${text}`, error) };
  }
}
