/**
 * How requests beyond the bounds are answered (REQUEST_TOO_LARGE). An error makes most proxies let a request pass, and then who
 * makes his request large enough passes every limit: so the default is the answer of an exceeded limit.
 */
import { GrpcCode, type GrpcStatus, type RequestOrigin } from '../../process/grpc/handlers.ts';
import type { RequestTooLarge, TooLargeAnswer } from '../decide/request-bounds.ts';
import { type OverWithoutLimit, overWithoutLimit, type ShadowOptions } from './over-without-limit.ts';

export interface TooLargeOptions extends ShadowOptions {
  /** REQUEST_TOO_LARGE. */
  readonly answer: TooLargeAnswer;
  /** A request was beyond a bound. */
  onTooLarge(error: RequestTooLarge, origin: RequestOrigin | undefined): void;
}

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
  answer(error: RequestTooLarge, origin: RequestOrigin | undefined): OverWithoutLimit | GrpcStatus {
    this.note(error, origin);
    if (this.#options.answer === 'error') return tooLargeStatus(error);
    return overWithoutLimit(this.#options, error.descriptors);
  }

  /** For a call that says what was used, whose caller is to learn that not all of it was counted; undefined: SHADOW_MODE makes it OK. */
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
