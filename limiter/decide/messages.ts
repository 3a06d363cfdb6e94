/**
 * The two messages of `ShouldRateLimit` as the decision code handles them. Field meanings: the proto files.
 * The wire codec (`wire-codec.ts`) reads and writes them; the generated messages are for JSON and for tests.
 */
import type { Entry, JsonObject } from '../../rules/model.ts';
import type { KnownEntries } from './wire-reader.ts';

export interface RateLimitRequest {
  domain: string;
  descriptors: Descriptor[];
  /** 0 when absent: counts as 1. */
  hitsAddend: number;
  /** Values of entries that were no UTF-8, whose bad bytes were replaced by U+FFFD. */
  mendedValues?: number | undefined;
}

export interface Descriptor {
  entries: readonly Entry[];
  /** Set where the same entries came before, and may be planned for already. */
  known?: KnownEntries | undefined;
  limit: RequestedLimit | undefined;
  /** Undefined: the request's. Saturates at 2^53 - 1; Infinity stands for anything above 2^63 - 1. */
  hitsAddend: number | undefined;
  isNegativeHits: boolean;
}

/** A limit in the request, which takes the place of the rule's. `unit` may be any number. */
export interface RequestedLimit {
  requestsPerUnit: number;
  unit: number;
  /** How many units its window has: any uint32. Undefined: one. */
  unitMultiplier?: number | undefined;
}

export const Code = { UNKNOWN: 0, OK: 1, OVER_LIMIT: 2 } as const;
export type Code = (typeof Code)[keyof typeof Code];

export interface RateLimitResponse {
  overallCode: Code;
  statuses: DescriptorStatus[];
  responseHeadersToAdd: Header[];
  requestHeadersToAdd: Header[];
  dynamicMetadata: JsonObject | undefined;
}

export interface CurrentLimit {
  readonly name: string;
  readonly requestsPerUnit: number;
  /** The unit that the window has the length of, else UNKNOWN. */
  readonly unit: number;
  /** Where number and unit do not say all, our own headers do: `100, 100;w=300`, with every limit of the rule. */
  readonly policy?: string;
  /** The window then, `5m`. */
  readonly window?: string;
}

export interface DescriptorStatus {
  code: Code;
  currentLimit: CurrentLimit | undefined;
  /** uint32. */
  limitRemaining: number;
  durationUntilResetSeconds: number | undefined;
}

export interface Header {
  key: string;
  value: string;
}

/** A request that cannot be decided, whatever the counters say; the message is for the caller. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';
}
