import { StoreError } from '../store-error.ts';

// Takes the replies of memcache's text protocol apart: lines, and values between them. Pure; knows no commands. A reply is
// any number of `VALUE <key> <flags> <bytes>` lines, each with its data, and one other line.

export interface ReplyHandler {
  /** `value` is undefined where the data is too long to be a number. */
  onValue(key: string, value: string | undefined): void;
  /** Any other line, without its end. */
  onLine(line: string): void;
}

/** Chosen: keys are 250 bytes, so no line of a reply is longer than an error's text. */
const maxLineBytes = 4096;
/** Longer than any number of 64 bits and the blanks behind it. */
const maxValueBytes = 64;
const lineFeed = 10;
const none = Buffer.alloc(0);

export class ReplyReader {
  readonly #handler: ReplyHandler;
  #rest: Buffer = none;
  /** The key whose data comes next. */
  #key: string | undefined;
  #valueBytes = 0;
  /** Bytes of a long value still to come, its line end included. */
  #skipBytes = 0;

  constructor(handler: ReplyHandler) {
    this.#handler = handler;
  }

  /** False when this is not the protocol: what follows would mean nothing. */
  push(chunk: Buffer): boolean {
    const data = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let at = 0;
    for (;;) {
      if (this.#skipBytes > 0) {
        const skipped = Math.min(this.#skipBytes, data.length - at);
        this.#skipBytes -= skipped;
        at += skipped;
        if (this.#skipBytes > 0) break;
      }
      if (this.#key !== undefined) {
        const end = at + this.#valueBytes;
        if (data.length < end + 2) break;
        if (data.toString('latin1', end, end + 2) !== '\r\n') return false;
        this.#handler.onValue(this.#key, data.toString('latin1', at, end));
        this.#key = undefined;
        at = end + 2;
      }
      const end = data.indexOf(lineFeed, at);
      if (end === -1) break;
      if (!this.#line(data.toString('utf8', at, end))) return false;
      at = end + 1;
    }
    this.#rest = at === data.length ? none : data.subarray(at);
    return this.#rest.length <= maxLineBytes;
  }

  #line(text: string): boolean {
    if (!text.endsWith('\r')) return false;
    const line = text.slice(0, -1);
    if (!line.startsWith('VALUE ')) {
      this.#handler.onLine(line);
      return true;
    }
    const [, key = '', bytes] = /^VALUE ([^ ]+) \d+ (\d{1,10})(?: \d+)?$/.exec(line) ?? [];
    if (bytes === undefined) return false;
    if (Number(bytes) > maxValueBytes) {
      this.#skipBytes = Number(bytes) + 2;
      this.#handler.onValue(key, undefined);
    } else {
      this.#key = key;
      this.#valueBytes = Number(bytes);
    }
    return true;
  }
}

export function closedError(): StoreError {
  return new StoreError('memcache store is closed', { transient: false, notCounted: true });
}

export function notConnected(): StoreError {
  return new StoreError('memcache is not connected', { transient: true, notCounted: true });
}

/** So many commands wait for their answers that one more is not taken. */
export function tooMuchWaiting(): StoreError {
  return new StoreError('too many commands wait for memcache', { transient: true, notCounted: true });
}

export function timedOut(timeoutMs: number): StoreError {
  return new StoreError(`memcache did not answer within ${timeoutMs} ms`, { transient: true });
}

export function lostConnection(): StoreError {
  return new StoreError('connection to memcache was lost before it answered', { transient: true });
}

/** `SERVER_ERROR out of memory storing object` and the like: the connection is good, the command was refused. */
export function refusedByServer(line: string): StoreError {
  return new StoreError(`memcache answered: ${line}`, { transient: line.startsWith('SERVER_ERROR') });
}
