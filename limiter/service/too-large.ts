/**
 * How requests beyond the bounds are answered (REQUEST_TOO_LARGE). An error makes most proxies let a request pass, and then who
 * makes his request large enough passes every limit: so the default is the answer of an exceeded limit.
 */
import {
  GrpcCode,
  type GrpcStatus,
  type RequestOrigin,
  retryAfterSeconds,
} from '../../process/grpc/handlers.ts';
import {
  Code,
  type DescriptorStatus,
  type Header,
  HeaderForm,
  type RateLimitResponse,
} from '../decide/messages.ts';
import type { RequestTooLarge, TooLargeAnswer } from '../decide/request-bounds.ts';

export interface TooLargeOptions {
  /** REQUEST_TOO_LARGE. */
  readonly answer: TooLargeAnswer;
  /** SHADOW_MODE: the answer of an exceeded limit is OK. */
  readonly shadowMode: boolean;
  /** A request was beyond a bound. */
  onTooLarge(error: RequestTooLarge, origin: RequestOrigin | undefined): void;
  /** SHADOW_MODE made an OVER_LIMIT an OK. */
  onGlobalShadow(): void;
}

/** Like that of an exceeded limit, without anything of a limit. */
export interface TooLargeResponse extends RateLimitResponse {
  readonly overallCode: typeof Code.OK | typeof Code.OVER_LIMIT;
}

const overStatus: DescriptorStatus = Object.freeze({
  code: Code.OVER_LIMIT,
  currentLimit: undefined,
  limitRemaining: 0,
  durationUntilResetSeconds: undefined,
});
const retryAfter: readonly Header[] = [new HeaderForm('Retry-After', '').header(Number(retryAfterSeconds))];

export class TooLargeRequests {
  readonly #options: TooLargeOptions;

  constructor(options: TooLargeOptions) {
    this.#options = options;
  }

  /** Counted and logged, whatever the answer. */
  note(error: RequestTooLarge, origin: RequestOrigin | undefined): void {
    this.#options.onTooLarge(error, origin);
  }

  /** What its caller gets; once for each request. */
  answer(error: RequestTooLarge, origin: RequestOrigin | undefined): TooLargeResponse | GrpcStatus {
    this.note(error, origin);
    const { answer, shadowMode, onGlobalShadow } = this.#options;
    if (answer === 'error') return tooLargeStatus(error);
    if (shadowMode) onGlobalShadow();
    return {
      overallCode: shadowMode ? Code.OK : Code.OVER_LIMIT,
      statuses: new Array<DescriptorStatus>(error.descriptors).fill(overStatus),
      responseHeadersToAdd: shadowMode ? [] : [...retryAfter],
      requestHeadersToAdd: [],
      dynamicMetadata: undefined,
    };
  }

  /** For a call that tells what was used, whose caller is to learn that not all of it was counted; undefined: SHADOW_MODE makes it OK. */
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
