/** Times of recordings: RFC 3339, or seconds or milliseconds since 1970. */
import { RecordingError } from './recording-error.ts';

const rfc3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)$/;
const decimal = /^\d+(?:\.\d+)?$/;

/** Chosen: numbers from here on are milliseconds. As seconds it is the year 5138, as milliseconds the year 1973. */
const leastMilliseconds = 1e11;

/** Chosen: the year 2200. What is later is in a finer unit, such as the microseconds of many logs. */
const endMs = Date.UTC(2200, 0, 1);

/** Milliseconds since 1970. Throws a RecordingError for what is no time. */
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
    throw new RecordingError(`time ${JSON.stringify(value)} has a day that its month has not`);
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
  // Seconds with a fraction are a little off in binary: half a microsecond brings them back and moves nothing else.
  const ms = value < leastMilliseconds ? value * 1000 + 0.0005 : value;
  if (!(ms >= 0)) throw notATime(written);
  if (ms >= endMs) {
    throw new RecordingError(
      `time ${JSON.stringify(written)} is after the year 2199: numbers are seconds or milliseconds since 1970, not microseconds or nanoseconds`,
    );
  }
  return Math.floor(ms);
}

function notATime(value: unknown): RecordingError {
  return new RecordingError(
    `time ${JSON.stringify(value)} is neither RFC 3339 nor seconds or milliseconds since 1970`,
  );
}
