/**
 * The two messages of `ShouldRateLimit` as the decision code handles them. The proto files describe the fields. The wire codec
 * (`wire-codec.ts`) reads and writes the messages; the generated messages are for JSON and for tests.
 */
import type { Entry } from '../../rules/model.ts';
import type { KnownEntries } from './wire-reader.ts';

export interface RateLimitRequest {
  domain: string;
  descriptors: Descriptor[];
  /** The hits addend of the request; 0 when absent, which counts as 1. */
  hitsAddend: number;
  /** The number of values that were not UTF-8. U+FFFD replaced their invalid bytes. */
  invalidUtf8Values?: number | undefined;
  /** The number of domains, keys and values beyond REQUEST_MAX_TEXT_BYTES. */
  longTexts?: number | undefined;
  /** The parts beyond the bounds. Undefined: the request is within the bounds. */
  leftOut?: OmittedParts | undefined;
  /** For a request with 0 hits, which only reads: the number of hits that it asks about. The answer is as if they were counted. */
  foreseenHits?: number | undefined;
}

/** The parts of a request that exceed the bounds on numbers. They were not decoded. */
export interface OmittedParts {
  /** The number of descriptors after those that were read. */
  descriptors: number;
  /** The indexes of descriptors with more entries than allowed. At least their first entries are decoded. */
  readonly crowded: Map<number, OversizedDescriptor>;
  /** REQUEST_MAX_ENTRIES. */
  readonly maxEntries: number;
}

/** The number of entries that the descriptor had. */
export interface OversizedDescriptor {
  readonly entries: number;
  /** The entries that do not belong to a marker. */
  readonly unmarked: number;
}

export interface Descriptor {
  entries: readonly Entry[];
  /** The known entries, if an earlier descriptor had the same. They may already have a plan. */
  known?: KnownEntries | undefined;
  /** The known entries before the marker entries, if the marker entries come last. */
  unmarked?: KnownEntries | undefined;
  limit: RequestedLimit | undefined;
  /** The hits addend of the descriptor. Undefined: the request's. Saturates at 2^53 - 1; Infinity stands for anything above 2^63 - 1. */
  hitsAddend: number | undefined;
  isNegativeHits: boolean;
}

/** A limit in the request, which replaces the rule's. `unit` may be any number. */
export interface RequestedLimit {
  requestsPerUnit: number;
  unit: number;
  /** The number of units in its window: any uint32. Undefined: one. */
  unitMultiplier?: number | undefined;
}

export const Code = { UNKNOWN: 0, OK: 1, OVER_LIMIT: 2 } as const;
export type Code = (typeof Code)[keyof typeof Code];

export interface CurrentLimit {
  readonly name: string;
  readonly requestsPerUnit: number;
  /** The unit with the same length as the window, otherwise UNKNOWN. */
  readonly unit: number;
  /** The value of Weir's own headers, if number and unit are not enough: `100, 100;w=300`, with every limit of the rule. */
  readonly policy?: string;
  /** The window of such a limit, for example `5m`. */
  readonly window?: string;
}

export interface Header {
  readonly key: string;
  readonly value: string;
  /** The numbers in the value, if they are known. */
  readonly form?: HeaderForm | undefined;
  readonly first?: number | undefined;
  readonly second?: number | undefined;
}

/** The constant parts, as protocol bytes, of a header whose value ends in one number, or contains two. */
export class HeaderForm {
  readonly key: string;
  readonly #texts: readonly [before: string, between: string];
  /** The field of the key. */
  readonly keyField: Uint8Array;
  readonly before: Uint8Array;
  readonly between: Uint8Array;

  /** Creates a form from ASCII parts. The key has fewer than 128 characters. */
  constructor(key: string, before: string, between = '') {
    this.key = key;
    this.#texts = [before, between];
    this.keyField = Buffer.from(`\n${String.fromCharCode(key.length)}${key}`, 'latin1');
    this.before = Buffer.from(before, 'latin1');
    this.between = Buffer.from(between, 'latin1');
  }

  header(first?: number, second?: number): Header {
    return new FormedHeader(this, first, second);
  }

  value(first: number | undefined, second: number | undefined): string {
    const [before, between] = this.#texts;
    return `${before}${first ?? ''}${second === undefined ? '' : between + second}`;
  }
}

class FormedHeader implements Header {
  readonly form: HeaderForm;
  readonly first: number | undefined;
  readonly second: number | undefined;

  constructor(form: HeaderForm, first: number | undefined, second: number | undefined) {
    this.form = form;
    this.first = first;
    this.second = second;
  }

  get key(): string {
    return this.form.key;
  }

  get value(): string {
    return this.form.value(this.first, this.second);
  }
}

/** A request that cannot be decided, regardless of the counters. The message is for the caller. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';
  /** Whether the limiter may be able to decide the same request a moment later. */
  readonly transient: boolean;

  constructor(message: string, { transient = false } = {}) {
    super(message);
    this.transient = transient;
  }
}
