/**
 * The two messages of `StreamRateLimitQuotas` on the wire. Reading is bounded while it goes on, because a message of a few megabytes
 * has room for a million buckets. Field meanings: the proto files.
 */
import type { Entry } from '../../rules/model.ts';
import type { GrantedBucket } from '../allocate/terms.ts';
import { WireReader } from '../decide/wire-reader.ts';
import { WireWriter } from '../decide/wire-writer.ts';

export const quotaPath = '/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas';

/** A client's report of one bucket. Its `time_elapsed` is not read: it is in whole seconds, and the limiter's clock is as good. */
export interface BucketReport {
  /** The id as the client wrote it, one character per byte. */
  readonly id: string;
  readonly allowed: number;
  readonly denied: number;
}

/** Chosen: the most hits of one report, so that no number of a client is infinite. */
const maxHits = 0xffff_ffff;
/** Chosen: more than most headers allow for a value. A longer id is denied, because the stream also has other buckets. */
export const longestIdBytes = 8_192;
/** Chosen: a longer id gets no answer, which would be as long and as slow to write. */
export const longestAnsweredBytes = 65_536;

const reader = new WireReader();
const writer = new WireWriter();

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
  let id = '';
  let [allowed, denied] = [0, 0];
  while (reader.position < end) {
    const field = reader.fieldNumber();
    if (field === 1) {
      const length = reader.passText();
      id = latin1Slice.call(bytes, reader.position - length, reader.position);
    } else if (field === 3) allowed = Math.min(reader.uint64(), maxHits);
    else if (field === 4) denied = Math.min(reader.uint64(), maxHits);
    else reader.skip(field, 1);
  }
  return { id, allowed, denied };
}

/** Returns the entries of an id, sorted by their keys. Throws a `DecodeError`. */
export function entriesOf(id: string): Entry[] {
  const entries = new Map<string, string>();
  const bytes = Buffer.from(id, 'latin1');
  reader.reset(bytes);
  while (reader.position < bytes.length) readEntry(entries);
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

/**
 * Returns the id of entries as text, one character per byte. It may differ from the bytes of the message that the entries were read from.
 */
export function textOf(entries: readonly Entry[]): string {
  writer.begin();
  for (let n = entries.length - 1; n >= 0; n -= 1) {
    const { key, value } = entries[n]!;
    const end = writer.mark();
    writer.stringField(0x12, value);
    writer.stringField(0x0a, key);
    writer.messageField(0x0a, end);
  }
  return latin1Slice.call(writer.finish());
}

const latin1Slice = Buffer.prototype.latin1Slice;

/** An instruction to a client about a bucket. */
export interface QuotaOrder {
  /** The id of the bucket, as `textOf` returns it. */
  readonly id: string;
  /** What the client does with requests from now on, or `abandon`: it forgets the bucket. */
  readonly strategy: 'allow' | 'deny' | 'abandon' | GrantedBucket;
}

/** Returns one response. Clients execute the actions of a bucket in their order. */
export function responseOf(orders: readonly QuotaOrder[], ttlSeconds: number): Uint8Array {
  writer.begin();
  // The message is written from its end to its beginning.
  for (let n = orders.length - 1; n >= 0; n -= 1) {
    const { id, strategy } = orders[n]!;
    const bucket = typeof strategy === 'object' ? strategy : undefined;
    // A bucket without tokens is never sent: the next one would begin without a number of them.
    if (bucket === undefined || bucket.tokens > 0) writeAction(id, strategy, ttlSeconds);
    if (bucket !== undefined && (bucket.isFresh || bucket.tokens === 0)) writeAction(id, 'deny', ttlSeconds);
  }
  return writer.finish();
}

/** Writes a BucketAction. All messages in it that contain the strategy end with it. */
function writeAction(id: string, strategy: QuotaOrder['strategy'], ttlSeconds: number): void {
  const end = writer.mark();
  if (typeof strategy === 'object') {
    // Envoy compares only the nanoseconds of two intervals, and then ignores them: equal ones leave its bucket unchanged.
    writer.varintField(0x10, strategy.fillSeconds);
    writeNumber(0x1a, strategy.fillSeconds, end);
    writeNumber(0x12, strategy.perFill);
    writer.varintField(0x08, strategy.tokens);
    writer.messageField(0x1a, end);
  } else if (strategy !== 'abandon') writer.varintField(0x08, strategy === 'allow' ? 0 : 1);
  writer.messageField(0x1a, end);
  if (strategy !== 'abandon') {
    writeNumber(0x12, ttlSeconds);
    writer.messageField(0x12, end);
  }
  const idEnd = writer.mark();
  writer.latin1(id);
  writer.messageField(0x0a, idEnd);
  writer.messageField(0x0a, end);
}

/** Writes a message whose first field is a number: a Duration, or a UInt32Value. `end`: the mark before its other fields. */
function writeNumber(tag: number, value: number, end = writer.mark()): void {
  writer.varintField(0x08, value);
  writer.messageField(tag, end);
}
