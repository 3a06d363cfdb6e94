/**
 * Redis's protocol, RESP2: writes commands as bytes, and parses replies as they arrive, one byte at a time or many together.
 * https://redis.io/docs/latest/develop/reference/protocol-spec/
 *
 * Also checks what Redis replies: a server that is broken, or is no Redis, must not decide about a request. A reply of another type,
 * length or range than its command gives becomes an error of the store, and STORE_FAILURE_MODE decides.
 */
import { beyondTotal, maxTotal } from '../../folded-run.ts';

/** Receives a command's arguments, one after another. */
export interface Arguments {
  push(argument: string): unknown;
}

// The function that `write` calls, without the search for its encoding.
const utf8Write = Buffer.prototype.utf8Write;

const minus = 0x2d;
const plus = 0x2b;
const colon = 0x3a;
const dollar = 0x24;
const star = 0x2a;
const zero = 0x30;
const carriageReturn = 0x0d;
const lineFeed = 0x0a;

/** Chosen: enough for most calls with the most keys. Larger ones get a buffer of their own. */
const initialBytes = 65_536;
/** The room for `*<count>` before the first argument, which is written once the number of arguments is known. */
const headBytes = 16;
/** The room around an argument: `$`, its length, and two line ends. */
const frameBytes = 16;

/** Writes commands one after another into one buffer: the number of its arguments, then each argument after its length in bytes. */
export class CommandWriter implements Arguments {
  #bytes = Buffer.allocUnsafeSlow(initialBytes);
  #at = headBytes;
  /** The number of arguments of the command that is being written. */
  #count = 0;

  get isEmpty(): boolean {
    return this.#at === headBytes;
  }

  /** Writes a whole command. */
  command(words: readonly string[]): void {
    if (this.#at + frameBytes > this.#bytes.length) this.#grow(frameBytes);
    this.#line(star, words.length);
    for (const word of words) this.push(word);
    this.#count = 0;
  }

  /** Writes the next argument of the only command in the buffer. `take` ends it. */
  push(argument: string): void {
    const { length } = argument;
    this.#count += 1;
    // A character takes at most three bytes of UTF-8.
    const max = 3 * length + frameBytes;
    if (this.#at + max > this.#bytes.length) this.#grow(max);
    if (length >= 1_000) {
      this.#pushOther(argument);
      return;
    }
    const bytes = this.#bytes;
    let at = this.#at;
    bytes[at++] = dollar;
    if (length >= 10) {
      if (length >= 100) bytes[at++] = zero + ((length / 100) | 0);
      bytes[at++] = zero + (((length / 10) | 0) % 10);
    }
    bytes[at] = zero + (length % 10);
    bytes[at + 1] = carriageReturn;
    bytes[at + 2] = lineFeed;
    at += 3;
    let isAscii = true;
    if (length >= 10) isAscii = utf8Write.call(bytes, argument, at, 3 * length) === length;
    else {
      // Most are a number of a few digits, for which the call above would cost more.
      for (let i = 0; i < length; i += 1) {
        const code = argument.charCodeAt(i);
        if (code > 0x7f) isAscii = false;
        bytes[at + i] = code;
      }
    }
    if (!isAscii) {
      this.#pushOther(argument);
      return;
    }
    bytes[at + length] = carriageReturn;
    bytes[at + length + 1] = lineFeed;
    this.#at = at + length + 2;
  }

  /** Returns the written bytes, or undefined if there are none. Later commands overwrite them unless `keep` is called first. */
  take(): Buffer | undefined {
    if (this.#at === headBytes) return undefined;
    let start = headBytes;
    if (this.#count > 0) {
      const head = `*${this.#count}\r\n`;
      start -= head.length;
      this.#bytes.write(head, start, 'latin1');
    }
    const taken = this.#bytes.subarray(start, this.#at);
    this.#at = headBytes;
    this.#count = 0;
    if (this.#bytes.length > initialBytes) this.keep();
    return taken;
  }

  /** Hands the taken bytes over to the caller. */
  keep(): void {
    this.#bytes = Buffer.allocUnsafeSlow(initialBytes);
  }

  /** Writes an argument that is long or not ASCII. */
  #pushOther(argument: string): void {
    this.#line(dollar, Buffer.byteLength(argument));
    this.#at += this.#bytes.write(argument, this.#at);
    this.#lineEnd();
  }

  #line(type: number, number: number): void {
    this.#bytes[this.#at++] = type;
    this.#at += this.#bytes.write(String(number), this.#at, 'latin1');
    this.#lineEnd();
  }

  #lineEnd(): void {
    this.#bytes[this.#at++] = carriageReturn;
    this.#bytes[this.#at++] = lineFeed;
  }

  #grow(more: number): void {
    const larger = Buffer.allocUnsafeSlow(2 * (this.#at + more));
    larger.set(this.#bytes.subarray(0, this.#at));
    this.#bytes = larger;
  }
}

/** An error that Redis answered. Its first word is the kind of error. */
export class ReplyError extends Error {
  override readonly name = 'ReplyError';
}

/**
 * A reply: a number, exact up to 2^53; text (a status); bytes; null for a missing value; an error; a list of these. Undefined for
 * more bytes than any command asks for.
 */
export type Reply = number | string | Buffer | null | ReplyError | undefined | Reply[];

/** Chosen: the maximum number of bytes of a value. Longer values are skipped, because a key of another application may hold anything. */
const maxBulkBytes = 1024 * 1024;
/** Chosen: the maximum length of a line. Redis's longest errors repeat a part of a command. */
const maxLineBytes = 64 * 1024;
/**
 * Chosen: the maximum number of bytes that a reply may hold, with this number of bytes for each of its values. The reply to CLUSTER SLOTS
 * is the largest.
 */
const maxReplyBytes = 64 * 1024 * 1024;
const bytesPerValue = 64;
/** Chosen: the maximum nesting of lists. CLUSTER SLOTS has four levels. */
const maxDepth = 8;
/** The length of -2^63. */
const maxNumberLength = 20;

/** A list whose values are incomplete. */
interface OpenList {
  /** Most replies have one list. A list that is created with its first item reserves no space for further items. */
  values: Reply[];
  left: number;
  readonly outer: OpenList | undefined;
  readonly depth: number;
}

/** Passes on each reply as soon as it is complete. It reads each byte once, regardless of how the bytes arrive. */
export class RespReader {
  readonly #onReply: (reply: Reply) => void;
  /** The first byte of the current line; 0 between two lines. */
  #type = 0;
  #number = 0;
  /** The characters of the current number, including its sign. */
  #length = 0;
  #isNegative = false;
  /** The text of the current status or error, one character per byte. */
  #text = '';
  /** Whether the carriage return of the current line was read. */
  #isEnding = false;
  /** The number of missing bytes of the current value, including its line end; 0 if there is no such value. */
  #bulkLeft = 0;
  /** The buffer of the current value, or undefined if the value is skipped. */
  #bulk: Buffer | undefined;
  #list: OpenList | undefined;
  #replyBytes = 0;

  constructor(onReply: (reply: Reply) => void) {
    this.#onReply = onReply;
  }

  /** Reads bytes. Returns false if they do not follow the protocol, or exceed what a reply may hold. Later bytes would be meaningless. */
  push(bytes: Buffer, length: number): boolean {
    let at = 0;
    while (at < length) {
      if (this.#bulkLeft > 0) {
        at = this.#readBulk(bytes, at, length);
      } else if (this.#type === 0) {
        this.#type = bytes[at++]!;
      } else if (this.#type === plus || this.#type === minus) {
        at = this.#readText(bytes, at, length);
      } else if (this.#type === colon || this.#type === dollar || this.#type === star) {
        at = this.#readNumber(bytes, at, length);
      } else {
        return false;
      }
      if (at < 0) return false;
    }
    return true;
  }

  /** These methods return the position of the next byte, or -1 if the bytes are not a reply. */
  #readNumber(bytes: Buffer, start: number, length: number): number {
    let number = this.#number;
    for (let at = start; at < length; at += 1) {
      const byte = bytes[at]!;
      const digit = byte - zero;
      if (this.#isEnding) {
        this.#number = number;
        return byte === lineFeed && this.#endNumber() ? at + 1 : -1;
      }
      if (digit >= 0 && digit <= 9) number = number * 10 + digit;
      else if (byte === minus && this.#length === 0) this.#isNegative = true;
      else if (byte === carriageReturn && this.#length > (this.#isNegative ? 1 : 0)) this.#isEnding = true;
      else return -1;
      this.#length += 1;
      if (this.#length > maxNumberLength + 1) return -1;
    }
    this.#number = number;
    return length;
  }

  #endNumber(): boolean {
    const type = this.#type;
    const number = this.#isNegative ? -this.#number : this.#number;
    this.#type = 0;
    this.#number = 0;
    this.#length = 0;
    this.#isNegative = false;
    this.#isEnding = false;
    if (type === colon) return this.#take(number);
    if (number < 0) return number === -1 && this.#take(null);
    if (type === dollar) {
      this.#bulkLeft = number + 2;
      if (number <= maxBulkBytes) {
        this.#bulk = Buffer.allocUnsafe(number);
        this.#replyBytes += number;
      }
      return true;
    }
    if (number === 0) return this.#take([]);
    const outer = this.#list;
    const depth = outer === undefined ? 1 : outer.depth + 1;
    this.#list = { values: [], left: number, outer, depth };
    return depth <= maxDepth;
  }

  #readText(bytes: Buffer, start: number, length: number): number {
    if (this.#isEnding) {
      if (bytes[start] !== lineFeed) return -1;
      const isError = this.#type === minus;
      const text = Buffer.from(this.#text, 'latin1').toString();
      this.#type = 0;
      this.#text = '';
      this.#isEnding = false;
      return this.#take(isError ? new ReplyError(text) : text) ? start + 1 : -1;
    }
    let end = start;
    while (end < length && bytes[end] !== carriageReturn) end += 1;
    this.#text += bytes.toString('latin1', start, end);
    if (this.#text.length > maxLineBytes) return -1;
    if (end === length) return end;
    this.#isEnding = true;
    return end + 1;
  }

  #readBulk(bytes: Buffer, start: number, length: number): number {
    const bulk = this.#bulk;
    const data = this.#bulkLeft - 2;
    let at = start;
    if (data > 0) {
      at = Math.min(length, start + data);
      bulk?.set(bytes.subarray(start, at), bulk.length - data);
      this.#bulkLeft -= at - start;
    }
    for (; at < length && this.#bulkLeft > 0; at += 1) {
      if (bytes[at] !== (this.#bulkLeft === 2 ? carriageReturn : lineFeed)) return -1;
      this.#bulkLeft -= 1;
    }
    if (this.#bulkLeft > 0) return at;
    this.#bulk = undefined;
    return this.#take(bulk) ? at : -1;
  }

  /** Adds a complete value, and completes the lists that end with it. */
  #take(value: Reply): boolean {
    this.#replyBytes += bytesPerValue;
    if (this.#replyBytes > maxReplyBytes) return false;
    let whole = value;
    for (let list = this.#list; list !== undefined; list = list.outer) {
      if (list.values.length === 0) list.values = [whole];
      else list.values.push(whole);
      list.left -= 1;
      if (list.left > 0) {
        this.#list = list;
        return true;
      }
      whole = list.values;
    }
    this.#list = undefined;
    this.#replyBytes = 0;
    this.#onReply(whole);
    return true;
  }
}

/** A reply that the command never gives. Its message names the command and the form of the reply, and contains none of its text. */
export class UnexpectedReply extends Error {
  override readonly name = 'UnexpectedReply';

  constructor(command: string, reply: unknown) {
    super(`Redis gave an answer of an unexpected form to ${command}: ${formOf(reply)}`);
  }
}

/** Returns the type and length of a reply. Numbers are shown. Texts are not, because they may contain keys of callers. */
function formOf(reply: unknown): string {
  if (typeof reply === 'number') return `the number ${reply}`;
  if (typeof reply === 'string') return `a status of ${reply.length} characters`;
  if (reply instanceof Buffer) return `a text of ${reply.length} bytes`;
  if (reply instanceof ReplyError) return 'an error in place of a value';
  if (Array.isArray(reply))
    return reply.length === 1 ? `a list of ${formOf(reply[0])}` : `a list of ${reply.length} values`;
  return reply === null ? 'nothing' : 'more than a value may hold';
}

/**
 * Reads a total of a script's reply. Returns undefined if it is not a total, such as the error of one key. Above 2^52, the scripts write
 * it as text. It may be below 0 after other commands took hits back.
 */
export function replyNumber(reply: unknown): number | undefined {
  if (typeof reply === 'number') return reply >= -beyondTotal && reply <= beyondTotal ? reply : undefined;
  return reply instanceof Buffer ? numberOfText(reply) : undefined;
}

function numberOfText(reply: Buffer): number | undefined {
  if (reply.length > 17) return undefined;
  const text = reply.toString('latin1');
  if (!/^-?\d{1,16}$/.test(text)) return undefined;
  const number = Number(text);
  return number >= -beyondTotal && number <= beyondTotal ? number : undefined;
}

/** Returns why an item of a script's reply has no value: Redis's error for that key, or a reply that the script never gives. */
export function keyError(reply: unknown): Error {
  return reply instanceof ReplyError ? reply : new UnexpectedReply('EVALSHA', reply);
}

/** Whether it is an amount or a count: 0 to 2^53 - 1. */
export function isCount(reply: unknown): reply is number {
  return typeof reply === 'number' && reply >= 0 && reply <= maxTotal;
}

/** Chosen: Redis did not exist before 2000-01-01, and no script reports times above 2^52 microseconds, which is in the year 2112. */
const earliestMicros = 946_684_800_000_000;
const latestMicros = 2 ** 52;

/** Whether it is a time by Redis's TIME, in microseconds since the epoch. */
export function isTimeMicros(reply: unknown): reply is number {
  return typeof reply === 'number' && reply >= earliestMicros && reply <= latestMicros;
}

/** Reads the reply to a command that gives an integer: by default a total of up to 2^63, whose last digits are lost. */
export function integerReply(command: string, reply: unknown, min = -beyondTotal, max = 1e19): number {
  if (typeof reply === 'number' && reply >= min && reply <= max) return reply;
  throw new UnexpectedReply(command, reply);
}

/** Reads the reply to a command that gives a text, or null for a missing value. */
export function textReply(command: string, reply: unknown): string | undefined {
  if (reply === null) return undefined;
  if (reply instanceof Buffer) return reply.toString();
  throw new UnexpectedReply(command, reply);
}

/** Reads the reply to SET with NX: whether it set the key. */
export function hasSet(reply: unknown): boolean {
  if (reply === 'OK') return true;
  if (reply === null) return false;
  throw new UnexpectedReply('SET', reply);
}

/** Reads the reply to a command that gives a list of texts, in groups of `multipleOf`. */
export function textsReply(command: string, reply: unknown, multipleOf = 1): string[] {
  if (!Array.isArray(reply) || reply.length % multipleOf !== 0) throw new UnexpectedReply(command, reply);
  return reply.map((one: unknown) => {
    if (one instanceof Buffer) return one.toString();
    throw new UnexpectedReply(command, [one]);
  });
}
