/**
 * Answers requests beyond the bounds (REQUEST_TOO_LARGE). Most proxies let a request pass if they get an error, so a client could
 * evade every limit with a large request. Therefore the default is OVER_LIMIT.
 */
import { GrpcCode, type GrpcStatus, type RequestOrigin } from '../../process/grpc/handlers.ts';
import type { RequestTooLarge, TooLargeAnswer } from '../decide/request-bounds.ts';
import { type OverWithoutLimit, overWithoutLimit, type ShadowOptions } from './over-without-limit.ts';

export interface TooLargeOptions extends ShadowOptions {
  /** REQUEST_TOO_LARGE. */
  readonly answer: TooLargeAnswer;
  /** A request exceeded a bound. */
  onTooLarge(error: RequestTooLarge, origin: RequestOrigin | undefined): void;
}

export class TooLargeRequests {
  readonly #options: TooLargeOptions;

  constructor(options: TooLargeOptions) {
    this.#options = options;
  }

  /** Counts and logs the request, whatever the answer. */
  note(error: RequestTooLarge, origin: RequestOrigin | undefined): void {
    this.#options.onTooLarge(error, origin);
  }

  /** The answer to its caller. Called once for each request. */
  answer(error: RequestTooLarge, origin: RequestOrigin | undefined): OverWithoutLimit | GrpcStatus {
    this.note(error, origin);
    if (this.#options.answer === 'error') return tooLargeStatus(error);
    return overWithoutLimit(this.#options, error.descriptors);
  }

  /** The error for a call that reports usage, because not all of it was counted. Undefined if SHADOW_MODE turns the answer into OK. */
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
