/**
 * Bounds on one request, so that no request is too expensive. The decoder skips the parts beyond the bounds and reports how much it
 * skipped (`OmittedParts`). Only the matcher knows whether a rule could apply to the skipped parts.
 */
import { defaultTextBytes, isLongText } from '../../rules/long-text.ts';
import type { OmittedParts, RateLimitRequest } from './messages.ts';

export interface RequestLimits {
  /** REQUEST_MAX_DESCRIPTORS: the maximum number of descriptors in a request. */
  maxDescriptors: number;
  /** REQUEST_MAX_ENTRIES: the maximum number of entries in a descriptor. */
  maxEntries: number;
  /** REQUEST_MAX_TEXT_BYTES: a longer domain, key or value is represented by its beginning and its hash. */
  maxTextBytes: number;
  /** REQUEST_MAX_BYTES: the maximum size of a request. */
  maxBytes: number;
}

/** The default bounds: far above what proxies send, and cheap enough that other callers do not wait for the decision. */
export const defaultRequestLimits: RequestLimits = {
  maxDescriptors: 256,
  maxEntries: 64,
  maxTextBytes: defaultTextBytes,
  maxBytes: 256 * 1024,
};

export const tooLargeAnswers = ['over_limit', 'error'] as const;
/** A value of REQUEST_TOO_LARGE. */
export type TooLargeAnswer = (typeof tooLargeAnswers)[number];

/** The settings that bound a request. */
export type RequestBound =
  | 'REQUEST_MAX_DESCRIPTORS'
  | 'REQUEST_MAX_ENTRIES'
  | 'REQUEST_MAX_BYTES'
  | 'HTTP_MAX_BODY_BYTES';

/** A request beyond a bound. The message names the setting, the bound and the request's number, and contains no text of the caller. */
export class RequestTooLarge extends Error {
  override readonly name = 'RequestTooLarge';
  readonly setting: RequestBound;
  /** The number of decoded descriptors, including those that exceed a bound. */
  readonly descriptors: number;

  constructor(setting: RequestBound, message: string, descriptors = 0) {
    super(message);
    this.setting = setting;
    this.descriptors = descriptors;
  }
}

/** Throws a `RequestTooLarge` for a request of which parts were omitted. */
export function checkWhole(request: RateLimitRequest): void {
  const { leftOut } = request;
  if (leftOut === undefined) return;
  const [crowded] = leftOut.crowded.keys();
  throw leftOut.descriptors > 0 || crowded === undefined
    ? tooManyDescriptors(request, leftOut)
    : tooManyEntries(request, leftOut, crowded);
}

/** Returns the number of texts that are represented by their prefix and hash, or undefined if there are none. */
export function longTextsOf(
  { domain, descriptors }: RateLimitRequest,
  { maxTextBytes }: RequestLimits,
): number | undefined {
  let count = isLongText(domain, maxTextBytes) ? 1 : 0;
  for (const { entries } of descriptors) {
    for (const { key, value } of entries) {
      if (isLongText(key, maxTextBytes)) count += 1;
      if (isLongText(value, maxTextBytes)) count += 1;
    }
  }
  return count || undefined;
}

export function tooManyBytes(bytes: number, { maxBytes }: RequestLimits): RequestTooLarge {
  return new RequestTooLarge(
    'REQUEST_MAX_BYTES',
    `a request may have ${maxBytes} bytes (REQUEST_MAX_BYTES), this one has ${bytes}`,
  );
}

/** Returns the error for a request with too many descriptors. */
export function tooManyDescriptors(
  { descriptors }: Pick<RateLimitRequest, 'descriptors'>,
  { descriptors: left }: OmittedParts,
): RequestTooLarge {
  const max = descriptors.length;
  return new RequestTooLarge(
    'REQUEST_MAX_DESCRIPTORS',
    `a request may have ${max} descriptors (REQUEST_MAX_DESCRIPTORS), this one has ${max + left}`,
    max,
  );
}

/** Returns the error for a request with a descriptor that has too many entries. */
export function tooManyEntries(
  { descriptors }: Pick<RateLimitRequest, 'descriptors'>,
  { crowded, maxEntries }: OmittedParts,
  descriptor: number,
): RequestTooLarge {
  const { entries } = crowded.get(descriptor)!;
  return new RequestTooLarge(
    'REQUEST_MAX_ENTRIES',
    `a descriptor may have ${maxEntries} entries (REQUEST_MAX_ENTRIES), descriptor ${descriptor} has ${entries}`,
    descriptors.length,
  );
}
