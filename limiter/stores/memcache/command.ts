/** Commands of the text protocol. Their keys are legal (`isLegalKey`), so none can end or extend its command. */
import type { StoreError } from '../store-error.ts';
import { rejectedByServer } from './reply-reader.ts';

export interface MemcacheCommand {
  /** The text with its line end. */
  readonly text: string;
  /** Called for a value of the reply, only after a `get`. */
  onValue(key: string, value: string | undefined): boolean;
  /** Called for the reply's last line. Returns false if it is not an answer to this command: the connection is then out of step. */
  onLine(line: string): boolean;
  /** Called if there is no reply. The command may have been carried out nevertheless. */
  onError(error: StoreError): void;
}

/** A command with a reply of one line. */
export class LineCommand implements MemcacheCommand {
  readonly text: string;
  readonly #isReply: RegExp;
  readonly #done: (reply: string | StoreError) => void;

  constructor(text: string, isReply: RegExp, done: (reply: string | StoreError) => void) {
    this.text = text;
    this.#isReply = isReply;
    this.#done = done;
  }

  onValue(): boolean {
    return false;
  }

  onLine(line: string): boolean {
    const isRejection = isServerRejection(line);
    if (!isRejection && !this.#isReply.test(line)) return false;
    this.#done(isRejection ? rejectedByServer(line) : line);
    return true;
  }

  onError(error: StoreError): void {
    this.#done(error);
  }
}

/** `done` receives the new total as text, or NOT_FOUND. `hits` is at most 2^53 - 1. */
export function changeCommand(
  verb: 'incr' | 'decr',
  key: string,
  hits: number,
  done: (reply: string | StoreError) => void,
): MemcacheCommand {
  return new LineCommand(`${verb} ${key} ${hits}\r\n`, /^(?:\d+|NOT_FOUND)$/, done);
}

/** `done` receives STORED or NOT_STORED. `expiry` is in seconds from now, or since 1970 if it is above 30 days. */
export function addCommand(
  key: string,
  hits: number,
  expiry: number,
  done: (reply: string | StoreError) => void,
): MemcacheCommand {
  const value = String(hits);
  const text = `add ${key} 0 ${expiry} ${value.length}\r\n${value}\r\n`;
  return new LineCommand(text, /^(?:STORED|NOT_STORED)$/, done);
}

export function versionCommand(done: (reply: string | StoreError) => void): MemcacheCommand {
  return new LineCommand('version\r\n', /^VERSION /, done);
}

/** A `get` of several keys. It reports each value that was found, then calls `done` once. */
export class GetCommand implements MemcacheCommand {
  readonly text: string;
  readonly #keys: readonly string[];
  readonly #found: (key: string, value: string | undefined) => void;
  readonly #done: (error: StoreError | undefined) => void;
  /** The number of values that the reply may still have. */
  #left: number;
  /** The index after the key of the last value, because a node answers in the order of the keys. */
  #next = 0;
  /** Whether a proxy answers in another order. */
  #asked: ReadonlySet<string> | undefined;

  constructor(
    keys: readonly string[],
    found: (key: string, value: string | undefined) => void,
    done: (error: StoreError | undefined) => void,
  ) {
    this.text = `get ${keys.join(' ')}\r\n`;
    this.#keys = keys;
    this.#left = keys.length;
    this.#found = found;
    this.#done = done;
  }

  /** Rejects unknown keys and more values than keys, so that a node cannot fill the memory. */
  onValue(key: string, value: string | undefined): boolean {
    if (this.#left === 0 || !this.#isAsked(key)) return false;
    this.#left -= 1;
    this.#found(key, value);
    return true;
  }

  #isAsked(key: string): boolean {
    const at = this.#keys.indexOf(key, this.#next);
    if (at !== -1) {
      this.#next = at + 1;
      return true;
    }
    this.#asked ??= new Set(this.#keys);
    return this.#asked.has(key);
  }

  onLine(line: string): boolean {
    if (line !== 'END' && !isServerRejection(line)) return false;
    this.#done(line === 'END' ? undefined : rejectedByServer(line));
    return true;
  }

  onError(error: StoreError): void {
    this.#done(error);
  }
}

function isServerRejection(line: string): boolean {
  return line.startsWith('SERVER_ERROR') || line.startsWith('CLIENT_ERROR');
}

interface SentCommand {
  readonly command: MemcacheCommand;
  readonly sentMs: number;
}

/** Commands in the order of their replies, and their bytes. */
export class CommandQueue {
  #waiting: (SentCommand | undefined)[] = [];
  #head = 0;
  #bytes = 0;

  get size(): number {
    return this.#waiting.length - this.#head;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get first(): MemcacheCommand | undefined {
    return this.#waiting[this.#head]?.command;
  }

  /** The time since which the first command has waited. */
  get firstMs(): number | undefined {
    return this.#waiting[this.#head]?.sentMs;
  }

  push(command: MemcacheCommand, sentMs: number): void {
    this.#waiting.push({ command, sentMs });
    this.#bytes += command.text.length;
  }

  shift(): void {
    const first = this.first;
    if (first === undefined) return;
    this.#bytes -= first.text.length;
    this.#waiting[this.#head] = undefined;
    this.#head += 1;
    if (this.#head < 1024 && this.#head < this.#waiting.length) return;
    this.#waiting = this.#waiting.slice(this.#head);
    this.#head = 0;
  }

  /** The text of all commands, as sent. */
  text(): string {
    return this.#waiting
      .slice(this.#head)
      .map((one) => one?.command.text)
      .join('');
  }

  /** Empties the queue and reports every command. */
  fail(error: StoreError): void {
    const failed = this.#waiting.slice(this.#head);
    this.#waiting = [];
    this.#head = 0;
    this.#bytes = 0;
    for (const one of failed) one?.command.onError(error);
  }
}
