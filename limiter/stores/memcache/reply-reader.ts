import { StoreError } from '../store-error.ts';

// Splits the replies of memcache's text protocol into lines and values. Pure, and independent of commands. A reply has any number of
// `VALUE <key> <flags> <bytes>` lines, each with its data, and one other line.

export interface ReplyHandler {
  /** `value` is undefined if the data is too long for a number. */
  onValue(key: string, value: string | undefined): void;
  /** Called for any other line, without its end. */
  onLine(line: string): void;
}

/** Chosen: keys have at most 250 bytes, so the longest line of a reply is the text of an error. */
const maxLineBytes = 4096;
/** Longer than any number of 64 bits with its trailing blanks. */
const maxValueBytes = 64;
const lineFeed = 10;
const none = Buffer.alloc(0);

export class MemcacheReplyReader {
  readonly #handler: ReplyHandler;
  #rest: Buffer = none;
  /** The key whose data comes next. */
  #key: string | undefined;
  #valueBytes = 0;
  /** The rest of a long value in bytes, including its line end. */
  #skipBytes = 0;

  constructor(handler: ReplyHandler) {
    this.#handler = handler;
  }

  /** Returns false if the bytes do not follow this protocol, so that later bytes would have no meaning. */
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
  return new StoreError('memcached store is closed', { transient: false, notCounted: true });
}

export function notConnected(): StoreError {
  return new StoreError('memcached is not connected', { transient: true, notCounted: true });
}

/** The error for a command if too many commands already wait for their answers. */
export function tooMuchWaiting(): StoreError {
  return new StoreError('too many commands wait for memcached', { transient: true, notCounted: true });
}

export function timedOut(timeoutMs: number): StoreError {
  return new StoreError(`memcached did not answer within ${timeoutMs} ms`, { transient: true });
}

export function lostConnection(): StoreError {
  return new StoreError('connection to memcached was lost before it answered', { transient: true });
}

/** The error for `SERVER_ERROR out of memory storing object` and similar lines: the connection works, and the command was rejected. */
export function rejectedByServer(line: string): StoreError {
  return new StoreError(`memcached answered: ${line}`, { transient: line.startsWith('SERVER_ERROR') });
}
