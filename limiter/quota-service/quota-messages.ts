/**
 * The two messages of `StreamRateLimitQuotas` on the wire. Reading is bounded while it goes on, because a message of a few megabytes
 * has room for a million buckets. Field meanings: the proto files.
 */
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import type { Entry } from '../../rules/model.ts';
import type { Assignment } from '../allocate/terms.ts';
import { WireReader } from '../decide/wire-reader.ts';

export const quotaPath = '/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas';

/** A client's report of one bucket. Its `time_elapsed` is not read: it is in whole seconds, and the limiter's clock is as good. */
export interface BucketReport {
  /** The id as the client wrote it, for answers; a part of the message. */
  readonly id: Uint8Array;
  readonly allowed: number;
  readonly denied: number;
}

/** Chosen: more than most headers allow for a value. A longer id is denied, because the stream also has other buckets. */
export const longestIdBytes = 8_192;
/** Chosen: a longer id gets no answer, which would be as long and as slow to write. */
export const longestAnsweredBytes = 65_536;

const reader = new WireReader();

/**
 * The reports of one message, which are read one at a time. It keeps the bytes. Throws a `DecodeError` for bytes that are no such
 * message.
 */
export class UsageReports {
  /** The domain; empty if the message has none. */
  readonly domain: string = '';
  /** The number of skipped reports. */
  readonly leftOut: number = 0;
  readonly #bytes: Uint8Array;
  /** The positions of the reports that were not read yet, the next one last. */
  readonly #starts: number[] = [];

  /** Skips everything after `maxReports` reports. */
  constructor(bytes: Uint8Array, maxReports: number) {
    this.#bytes = bytes;
    reader.reset(bytes);
    while (reader.position < bytes.length) {
      const field = reader.fieldNumber();
      if (field === 1) this.domain = reader.string();
      else {
        if (field === 2 && this.#starts.length === maxReports) this.leftOut += 1;
        else if (field === 2) this.#starts.push(reader.position);
        reader.skip(field, 0);
      }
    }
    this.#starts.reverse();
    reader.reset();
  }

  get byteLength(): number {
    return this.#bytes.length;
  }

  /** Returns the next report; undefined if none is left. */
  next(): BucketReport | undefined {
    const start = this.#starts.pop();
    if (start === undefined) return undefined;
    reader.reset(this.#bytes);
    reader.position = start;
    return readReport(this.#bytes, reader.messageEnd());
  }
}

function readReport(bytes: Uint8Array, end: number): BucketReport {
  let id = bytes.subarray(0, 0);
  let [allowed, denied] = [0, 0];
  while (reader.position < end) {
    const field = reader.fieldNumber();
    if (field === 1) {
      const length = reader.passText();
      id = bytes.subarray(reader.position - length, reader.position);
    } else if (field === 3) allowed = reader.uint64();
    else if (field === 4) denied = reader.uint64();
    else reader.skip(field, 1);
  }
  return { id, allowed, denied };
}

/** Returns the entries of an id, sorted by their keys. Throws a `DecodeError`. */
export function entriesOf(id: Uint8Array): Entry[] {
  const entries = new Map<string, string>();
  reader.reset(id);
  while (reader.position < id.length) readEntry(entries);
  return byKey(entries);
}

/** Reads an entry of the map. The last value of a key counts. */
function readEntry(entries: Map<string, string>): void {
  const field = reader.fieldNumber();
  if (field !== 1) {
    reader.skip(field, 2);
    return;
  }
  const end = reader.messageEnd();
  let [key, value] = ['', ''];
  while (reader.position < end) {
    const part = reader.fieldNumber();
    if (part === 1) key = reader.repairedString();
    else if (part === 2) value = reader.repairedString();
    else reader.skip(part, 3);
  }
  entries.set(key, value);
}

function byKey(entries: ReadonlyMap<string, string>): Entry[] {
  const all = Array.from(entries, ([key, value]) => ({ key, value }));
  return all.length > 1 ? all.sort((a, b) => (a.key < b.key ? -1 : 1)) : all;
}

/** Returns the id of entries, as `entriesOf` reads it. It may differ from the bytes of the message that they were read from. */
export function idOf(entries: readonly Entry[]): Uint8Array {
  const writer = new BinaryWriter();
  for (const { key, value } of entries) {
    writer.tag(1, WireType.LengthDelimited).fork();
    writer.tag(1, WireType.LengthDelimited).string(key);
    writer.tag(2, WireType.LengthDelimited).string(value).join();
  }
  return writer.finish();
}

/** Returns the id of entries as text, one character per byte. */
export function textOf(entries: readonly Entry[]): string {
  return latin1Slice.call(idOf(entries));
}

const latin1Slice = Buffer.prototype.latin1Slice;

/** An instruction to a client about a bucket. An assignment has the allocator's terms. */
export type QuotaOrder =
  | { readonly kind: 'allow' | 'deny'; readonly ttlSeconds: number }
  | { readonly kind: 'assign'; readonly assignment: Assignment }
  | { readonly kind: 'abandon' };

/** Chosen: room for one or two buckets. */
const firstRoomBytes = 256;
/** More bytes than an assignment takes, with all tags and lengths around it, including those of its bucket's id. */
const maxAroundIdBytes = 64;

/**
 * Writes one response. Clients execute the actions of a bucket in their order. There are thousands of buckets per second, so it
 * writes bytes and creates no objects. The length of each message within an assignment is one byte.
 */
export class QuotaResponseWriter {
  #bytes = noBytes;
  #end = 0;
  /** The size of the last response: the next one is likely as long. */
  #room = firstRoomBytes;

  get isEmpty(): boolean {
    return this.#end === 0;
  }

  /** Adds an action. `id`: its bytes, one character each. */
  add(id: string, order: QuotaOrder): void {
    if (order.kind === 'abandon') this.#action(id, 0x1a, 0);
    else if (order.kind !== 'assign') this.#blanket(id, blanketRules[order.kind], order.ttlSeconds);
    else {
      const { tokens, perFill, fillSeconds, ttlSeconds, isFresh } = order.assignment;
      // The limiter never sends a bucket without tokens: the next one would begin without a number of them.
      if (isFresh || tokens === 0) this.#blanket(id, blanketRules.deny, ttlSeconds);
      if (tokens > 0) {
        const [fills, interval] = [1 + varintBytes(perFill), 1 + varintBytes(fillSeconds)];
        const bucketBytes = 1 + varintBytes(tokens) + 2 + fills + 2 + interval;
        this.#assignment(id, ttlSeconds, 2 + bucketBytes);
        this.#message(0x1a, bucketBytes);
        this.#number(0x08, tokens);
        this.#message(0x12, fills);
        this.#number(0x08, perFill);
        this.#message(0x1a, interval);
        this.#number(0x08, fillSeconds);
      }
    }
  }

  /** Returns the response. The next one begins empty. */
  finish(): Uint8Array {
    const bytes = this.#bytes.subarray(0, this.#end);
    this.#bytes = noBytes;
    this.#room = Math.max(firstRoomBytes, this.#end);
    this.#end = 0;
    return bytes;
  }

  #blanket(id: string, rule: number, ttlSeconds: number): void {
    this.#assignment(id, ttlSeconds, 2);
    this.#number(0x08, rule);
  }

  /** Writes a QuotaAssignmentAction, up to the content of its RateLimitStrategy, which has `strategyBytes`. */
  #assignment(id: string, ttlSeconds: number, strategyBytes: number): void {
    const ttlBytes = 1 + varintBytes(ttlSeconds);
    this.#action(id, 0x12, 2 + ttlBytes + 2 + strategyBytes);
    this.#message(0x12, ttlBytes);
    this.#number(0x08, ttlSeconds);
    this.#message(0x1a, strategyBytes);
  }

  /** Writes a BucketAction, up to the content of its second field. */
  #action(id: string, tag: number, length: number): void {
    const bytes = 1 + varintBytes(id.length) + id.length + 2 + length;
    const needed = this.#end + id.length + maxAroundIdBytes;
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(this.#room, 2 * needed));
      larger.set(this.#bytes.subarray(0, this.#end));
      this.#bytes = larger;
    }
    this.#number(0x0a, bytes);
    this.#number(0x0a, id.length);
    this.#end += this.#bytes.write(id, this.#end, 'latin1');
    this.#message(tag, length);
  }

  #message(tag: number, length: number): void {
    this.#bytes[this.#end++] = tag;
    this.#bytes[this.#end++] = length;
  }

  #number(tag: number, value: number): void {
    this.#bytes[this.#end++] = tag;
    let rest = value;
    for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) this.#bytes[this.#end++] = (rest % 0x80) | 0x80;
    this.#bytes[this.#end++] = rest;
  }
}

const noBytes = Buffer.alloc(0);

/** The values of RateLimitStrategy.BlanketRule. */
const blanketRules = { allow: 0, deny: 1 } as const;

function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes += 1;
  return bytes;
}
