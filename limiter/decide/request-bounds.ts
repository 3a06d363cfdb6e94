/**
 * Bounds on one request, so that none costs more than it should. The decoder skips the parts beyond the bounds and reports how much
 * it skipped (`OmittedParts`). Only the matcher knows whether a rule could apply to them.
 */
import { countLongTexts, defaultTextBytes, isLongText } from '../../rules/long-text.ts';
import type { OmittedParts, RateLimitRequest } from './messages.ts';
import { decodeRateLimitRequest } from './wire-codec.ts';

export interface RequestLimits {
  /** REQUEST_MAX_DESCRIPTORS: the most descriptors of a request. */
  maxDescriptors: number;
  /** REQUEST_MAX_ENTRIES: the most entries of one descriptor. */
  maxEntries: number;
  /** REQUEST_MAX_TEXT_BYTES: a longer domain, key or value is counted by its beginning and its hash. */
  maxTextBytes: number;
  /** REQUEST_MAX_BYTES: the most bytes of a request. */
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
  /** The number of decoded descriptors, within the bounds or not. */
  readonly descriptors: number;

  constructor(setting: RequestBound, message: string, descriptors = 0) {
    super(message);
    this.setting = setting;
    this.descriptors = descriptors;
  }
}

export class RequestBounds {
  readonly limits: RequestLimits;

  constructor(limits: RequestLimits) {
    this.limits = limits;
  }

  /**
   * Decodes the part within the bounds; `leftOut` describes the rest. Throws a `RequestTooLarge`, without reading anything, if the
   * request has too many bytes, or a `DecodeError`.
   */
  decode(bytes: Uint8Array): RateLimitRequest {
    if (bytes.length > this.limits.maxBytes) throw this.tooManyBytes(bytes.length);
    const request = decodeRateLimitRequest(bytes, this.limits);
    // U+FFFD takes three bytes and may stand for one.
    const mostTextBytes = request.invalidUtf8Values === undefined ? bytes.length : 3 * bytes.length;
    if (mostTextBytes > this.limits.maxTextBytes) request.longTexts = this.#longTextsOf(request);
    return request;
  }

  /** Decodes a whole request, for callers that get an error for any excess: throws a `RequestTooLarge` for that, too. */
  decodeWhole(bytes: Uint8Array): RateLimitRequest {
    const request = this.decode(bytes);
    this.checkWhole(request);
    return request;
  }

  checkWhole(request: RateLimitRequest): void {
    const { leftOut } = request;
    if (leftOut === undefined) return;
    const [crowded] = leftOut.crowded.keys();
    throw leftOut.descriptors > 0 || crowded === undefined
      ? tooManyDescriptors(request, leftOut)
      : tooManyEntries(request, leftOut, crowded);
  }

  tooManyBytes(bytes: number): RequestTooLarge {
    const { maxBytes } = this.limits;
    return new RequestTooLarge(
      'REQUEST_MAX_BYTES',
      `a request may have ${maxBytes} bytes (REQUEST_MAX_BYTES), this one has ${bytes}`,
    );
  }

  #longTextsOf({ domain, descriptors }: RateLimitRequest): number | undefined {
    const { maxTextBytes } = this.limits;
    let count = isLongText(domain, maxTextBytes) ? 1 : 0;
    for (const { entries } of descriptors) count += countLongTexts(entries, maxTextBytes);
    return count || undefined;
  }
}

/** Returns the error for a request whose descriptors were partly left out. */
export function tooManyDescriptors(
  { descriptors }: Pick<RateLimitRequest, 'descriptors'>,
  { descriptors: left }: OmittedParts,
): RequestTooLarge {
  const most = descriptors.length;
  return new RequestTooLarge(
    'REQUEST_MAX_DESCRIPTORS',
    `a request may have ${most} descriptors (REQUEST_MAX_DESCRIPTORS), this one has ${most + left}`,
    most,
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
