/** Answers OVER_LIMIT to requests that exceed no limit, but a bound or the rate of their caller. */
import {
  GrpcCode,
  type GrpcStatus,
  type RequestOrigin,
  retryAfterSeconds,
} from '../../process/grpc/handlers.ts';
import { Code, type Header, HeaderForm } from '../decide/messages.ts';
import type { RequestTooLarge, TooLargeAnswer } from '../decide/request-bounds.ts';
import type { DescriptorStatus, RateLimitResponse } from '../decide/response-message.ts';
import { encodeRateLimitResponse } from '../decide/wire-codec.ts';

export interface ShadowModeOptions {
  /** SHADOW_MODE: the answer is OK instead. */
  readonly shadowMode: boolean;
  /** SHADOW_MODE turned OVER_LIMIT into OK. */
  onGlobalShadow(): void;
}

export interface OverWithoutLimit extends RateLimitResponse {
  readonly overallCode: typeof Code.OK | typeof Code.OVER_LIMIT;
}

const overStatus: DescriptorStatus = Object.freeze({
  code: Code.OVER_LIMIT,
  currentLimit: undefined,
  limitRemaining: 0,
  durationUntilResetSeconds: undefined,
});
const retryAfter: readonly Header[] = [new HeaderForm('Retry-After', '').header(Number(retryAfterSeconds))];

/** Call it once for each request. `descriptors`: the number of known descriptors. Each of them gets a status. */
export function overWithoutLimit(
  { shadowMode, onGlobalShadow }: ShadowModeOptions,
  descriptors: number,
): OverWithoutLimit {
  if (shadowMode) onGlobalShadow();
  return {
    overallCode: shadowMode ? Code.OK : Code.OVER_LIMIT,
    statuses: new Array<DescriptorStatus>(descriptors).fill(overStatus),
    responseHeadersToAdd: shadowMode ? [] : [...retryAfter],
    requestHeadersToAdd: [],
    dynamicMetadata: undefined,
  };
}

/** The answer to a request beyond the rate of its caller (`on_excess: over_limit`). The request is neither read nor counted. */
export class ExcessResponses {
  readonly #options: ShadowModeOptions;

  constructor(options: ShadowModeOptions) {
    this.#options = options;
  }

  /** Called once for each request, also for one that exceeds a limit and is not counted. SHADOW_MODE lets it pass. */
  code(): Code {
    return overWithoutLimit(this.#options, 0).overallCode;
  }

  /** Returns the same answer as an encoded message. It has no statuses, because the descriptors are unknown. */
  message(): Uint8Array {
    return encodeRateLimitResponse(overWithoutLimit(this.#options, 0));
  }
}

export interface TooLargeOptions extends ShadowModeOptions {
  /** REQUEST_TOO_LARGE. */
  readonly answer: TooLargeAnswer;
  /** A request exceeded a bound. */
  onTooLarge(error: RequestTooLarge, origin: RequestOrigin | undefined): void;
}

/**
 * Answers requests beyond the bounds (REQUEST_TOO_LARGE). Most proxies let a request pass if they get an error, so a client could
 * evade every limit with a large request. Therefore the default is OVER_LIMIT.
 */
export class TooLargeRequests {
  readonly #options: TooLargeOptions;

  constructor(options: TooLargeOptions) {
    this.#options = options;
  }

  /** Counts and logs the request. */
  note(error: RequestTooLarge, origin: RequestOrigin | undefined): void {
    this.#options.onTooLarge(error, origin);
  }

  /** Returns the answer to the caller. Call it once for each request. */
  answer(error: RequestTooLarge, origin: RequestOrigin | undefined): OverWithoutLimit | GrpcStatus {
    this.note(error, origin);
    if (this.#options.answer === 'error') return tooLargeStatus(error);
    return overWithoutLimit(this.#options, error.descriptors);
  }

  /**
   * Returns the error for a call that reports usage, because not all of it was counted. Returns undefined if SHADOW_MODE turns the answer
   * into OK.
   */
  unreported(error: RequestTooLarge, origin: RequestOrigin | undefined): GrpcStatus | undefined {
    this.note(error, origin);
    const { answer, shadowMode, onGlobalShadow } = this.#options;
    if (answer === 'error' || !shadowMode) return tooLargeStatus(error);
    onGlobalShadow();
    return undefined;
  }
}

export function tooLargeStatus({ message }: RequestTooLarge): GrpcStatus {
  return { code: GrpcCode.INVALID_ARGUMENT, message };
}
