import type { Descriptor, RateLimitRequest } from '../limiter/decide/messages.ts';
import { type Entry, isObject, maxUint32, Unit } from '../rules/model.ts';

/** The reason why a line of a recording cannot be replayed. */
export class RecordingError extends Error {
  override readonly name = 'RecordingError';
}

/** A line that could not be replayed. */
export interface BadLine {
  /** The line number, from 1. */
  line: number;
  reason: string;
}

/** The number of bad lines exceeds the allowed number. */
export class TooManyBadLines extends Error {
  override readonly name = 'TooManyBadLines';
}

/** Chosen: enough to see the problem. */
const maxListed = 10;

/** Lines that could not be replayed. All are counted, and the first ones are stored. */
export class BadLines {
  readonly first: BadLine[] = [];
  count = 0;
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  /** Adds a line. Throws TooManyBadLines at the first line beyond the allowed number. */
  add(line: number, reason: string): void {
    this.count++;
    if (this.first.length < maxListed) this.first.push({ line, reason });
    if (this.count > this.#max)
      throw new TooManyBadLines(`more than ${this.#max} lines could not be replayed`);
  }
}

const rfc3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)$/;
const decimal = /^\d+(?:\.\d+)?$/;

/** Chosen: numbers from this value on are milliseconds. In seconds it is the year 5138, in milliseconds the year 1973. */
const minMilliseconds = 1e11;

/** Chosen: the year 2200. A later number is in a finer unit, such as the microseconds of many logs. */
const endMs = Date.UTC(2200, 0, 1);

/** Reads RFC 3339, or seconds or milliseconds since 1970, into milliseconds. Throws a RecordingError if the value is not a time. */
export function readRecordedTime(value: unknown): number {
  if (typeof value === 'number') return fromNumber(value, value);
  if (typeof value !== 'string') {
    throw new RecordingError(value === undefined ? 'time is missing' : 'time is neither text nor number');
  }
  if (decimal.test(value)) return fromNumber(Number(value), value);
  const date = rfc3339.exec(value);
  const ms = date === null ? Number.NaN : Date.parse(value);
  if (date === null || Number.isNaN(ms)) throw notATime(value);
  if (!isDayOfMonth(Number(date[1]), Number(date[2]), Number(date[3]))) {
    throw new RecordingError(`time ${JSON.stringify(value)} has a day that its month does not have`);
  }
  if (ms < 0) throw new RecordingError(`time ${JSON.stringify(value)} is before 1970`);
  if (ms >= endMs) throw new RecordingError(`time ${JSON.stringify(value)} is after the year 2199`);
  return ms;
}

/** A Date takes the 30th of February for the second of March. */
function isDayOfMonth(year: number, month: number, day: number): boolean {
  return day <= new Date(Date.UTC(year, month, 0)).getUTCDate();
}

function fromNumber(value: number, written: unknown): number {
  // Seconds with a fraction are slightly inexact in binary. Half a microsecond corrects them and changes nothing else.
  const ms = value < minMilliseconds ? value * 1000 + 0.0005 : value;
  if (!(ms >= 0)) throw notATime(written);
  if (ms >= endMs) {
    throw new RecordingError(
      `time ${typeof written === 'number' ? written : JSON.stringify(written)} is after the year 2199: numbers are seconds or milliseconds since 1970, not microseconds or nanoseconds`,
    );
  }
  return Math.floor(ms);
}

function notATime(value: unknown): RecordingError {
  return new RecordingError(
    `time ${JSON.stringify(value)} is neither RFC 3339 nor seconds or milliseconds since 1970`,
  );
}

/**
 * One line of a recording. The long form of a descriptor is that of `/json`. The short form, a list of pairs, is what an access
 * log of Envoy can write. A list of objects of one key each is that of `/v1/check`. Other fields are ignored, so that a line may
 * contain more.
 */
export interface RecordedRequest {
  timeMs: number;
  request: RateLimitRequest;
}

type Fields = Record<string, unknown>;

/** The maximum size of one request. A limiter rejects larger requests before it counts them. */
export interface RecordedBounds {
  maxDescriptors: number;
  maxEntries: number;
}

const unbounded: RecordedBounds = {
  maxDescriptors: Number.POSITIVE_INFINITY,
  maxEntries: Number.POSITIVE_INFINITY,
};

/**
 * Reads a line. Undefined if it has no descriptor, because a proxy then sends no request. Throws a RecordingError if the line is
 * not a request.
 */
export function readRecordedRequest(line: string, bounds = unbounded): RecordedRequest | undefined {
  const fields = parseObject(line);
  const timeMs = readRecordedTime(fields['time']);
  const domain = fields['domain'];
  if (typeof domain !== 'string' || domain === '') throw new RecordingError('domain is missing');
  const list = fields['descriptors'];
  if (!Array.isArray(list)) throw new RecordingError('descriptors is not a list');
  rejectMore(list, 'descriptors', bounds.maxDescriptors);
  const descriptors: Descriptor[] = [];
  for (let index = 0; index < list.length; index++) {
    const descriptor = readDescriptor(list[index], index);
    if (descriptor === undefined) continue;
    const where = `descriptors[${index}]`;
    rejectMore(descriptor.entries, where, bounds.maxEntries);
    descriptors.push(descriptor);
  }
  if (descriptors.length === 0) return undefined;
  // In `/v1/check`, 0 asks without counting.
  const hits = fields['hits'];
  if (typeof hits === 'number' && Number.isSafeInteger(hits) && hits >= 0)
    for (const descriptor of descriptors) descriptor.hitsAddend ??= hits;
  const hitsAddend = readHits(field(fields, 'hitsAddend', 'hits_addend'), 'hitsAddend') ?? 0;
  if (hitsAddend > maxUint32) throw new RecordingError(`hitsAddend is at most ${maxUint32}`);
  return { timeMs, request: { domain, descriptors, hitsAddend } };
}

function rejectMore(list: readonly unknown[], where: string, max: number): void {
  if (list.length <= max) return;
  throw new RecordingError(`${where} has ${list.length} elements, and a limiter rejects more than ${max}`);
}

const form = 'docs/replay.md#the-recording describes the lines';

function parseObject(line: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw new RecordingError(`is not JSON: ${form}`);
  }
  if (!isObject(value)) throw new RecordingError(`is not a JSON object: ${form}`);
  return value;
}

/** Returns undefined if an entry has no value, because Envoy omits a descriptor whose header is missing. */
function readDescriptor(value: unknown, index: number): Descriptor | undefined {
  const where = `descriptors[${index}]`;
  if (Array.isArray(value)) {
    const entries = readEntries(value, where);
    if (entries === undefined) return undefined;
    return { entries, limit: undefined, hitsAddend: undefined, isNegativeHits: false };
  }
  if (!isObject(value)) throw new RecordingError(`${where} is neither a list of pairs nor an object`);
  const list = value['entries'];
  if (!Array.isArray(list)) throw new RecordingError(`${where}.entries is not a list`);
  const entries = readEntries(list, `${where}.entries`);
  if (entries === undefined) return undefined;
  return {
    entries,
    limit: readLimit(value['limit'], `${where}.limit`),
    hitsAddend: readHits(field(value, 'hitsAddend', 'hits_addend'), `${where}.hitsAddend`),
    isNegativeHits: field(value, 'isNegativeHits', 'is_negative_hits') === true,
  };
}

function readEntries(list: readonly unknown[], where: string): Entry[] | undefined {
  if (list.length === 0) throw new RecordingError(`${where} has no entry`);
  const entries: Entry[] = [];
  let isWhole = true;
  for (let index = 0; index < list.length; index++) {
    const [key, value] = keyAndValue(list[index], where, index);
    if (typeof key !== 'string') throw new RecordingError(`${where}[${index}] has no key`);
    if (value === null) isWhole = false;
    else entries.push({ key, value: valueText(value, where, index) });
  }
  return isWhole ? entries : undefined;
}

function keyAndValue(entry: unknown, where: string, index: number): readonly [unknown, unknown] {
  if (Array.isArray(entry) && entry.length === 2) return [entry[0], entry[1]];
  if (isObject(entry)) {
    const [first, ...more] = Object.entries(entry);
    // This is the form of a request to `/v1/check`.
    if (first !== undefined && more.length === 0 && first[0] !== 'key' && first[0] !== 'value') return first;
    // In proto3 JSON, an empty text may be omitted.
    return [entry['key'], 'value' in entry ? entry['value'] : ''];
  }
  throw new RecordingError(`${where}[${index}] is neither [key, value] nor an object with key and value`);
}

/** An access log of Envoy writes a status as a number. */
function valueText(value: unknown, where: string, index: number): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  throw new RecordingError(`the value of ${where}[${index}] is not text`);
}

function readLimit(value: unknown, where: string): Descriptor['limit'] {
  if (value === undefined || value === null) return undefined;
  if (!isObject(value)) throw new RecordingError(`${where} is not an object`);
  const requestsPerUnit = readHits(field(value, 'requestsPerUnit', 'requests_per_unit'), where) ?? 0;
  if (requestsPerUnit > maxUint32) throw new RecordingError(`${where} allows at most ${maxUint32} requests`);
  const written = value['unit'];
  const unit =
    typeof written === 'string' && Object.hasOwn(Unit, written)
      ? Unit[written as keyof typeof Unit]
      : written;
  if (typeof unit !== 'number') throw new RecordingError(`${where}.unit is not a unit such as "MINUTE"`);
  const unitMultiplier = readHits(field(value, 'unitMultiplier', 'unit_multiplier'), where);
  return unitMultiplier === undefined ? { requestsPerUnit, unit } : { requestsPerUnit, unit, unitMultiplier };
}

/** Reads whole numbers, which proto3 JSON writes as text from 64 bits on. It saturates them as the decoder of requests does. */
function readHits(value: unknown, where: string): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0) return saturated(BigInt(value));
  if (typeof value === 'string' && /^\d{1,20}$/.test(value)) return saturated(BigInt(value));
  throw new RecordingError(`${where} is not a whole number of hits`);
}

function saturated(hits: bigint): number {
  if (hits > 0x7fff_ffff_ffff_ffffn) return Number.POSITIVE_INFINITY;
  return hits > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(hits);
}

function field(fields: Fields, name: string, protoName: string): unknown {
  return fields[name] ?? fields[protoName];
}
