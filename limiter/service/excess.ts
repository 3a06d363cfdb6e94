/**
 * The answer of a limit that is exceeded, for a request beyond the rate of its caller (`on_excess: over_limit`). Nothing of the
 * request was read, no rule refuses it, and nothing is counted.
 */
import { retryAfterSeconds } from '../../process/grpc/handlers.ts';
import { Code, type Header, HeaderForm, type RateLimitResponse } from '../decide/messages.ts';
import { encodeRateLimitResponse } from '../decide/wire-codec.ts';

export interface ExcessOptions {
  /** SHADOW_MODE. */
  readonly shadowMode: boolean;
  /** SHADOW_MODE let one pass. */
  onGlobalShadow(): void;
}

const retryAfter: Header = new HeaderForm('Retry-After', '').header(Number(retryAfterSeconds));

export class Excess {
  readonly #options: ExcessOptions;

  constructor(options: ExcessOptions) {
    this.#options = options;
  }

  /** Called once for each request. SHADOW_MODE lets it pass, as it does where a limit is exceeded. */
  code(): Code {
    const { shadowMode, onGlobalShadow } = this.#options;
    if (!shadowMode) return Code.OVER_LIMIT;
    onGlobalShadow();
    return Code.OK;
  }

  /** The same as a message. It has no statuses, because nothing of the descriptors is known. */
  message(): Uint8Array {
    const overallCode = this.code();
    const response: RateLimitResponse = {
      overallCode,
      statuses: [],
      responseHeadersToAdd: overallCode === Code.OVER_LIMIT ? [retryAfter] : [],
      requestHeadersToAdd: [],
      dynamicMetadata: undefined,
    };
    return encodeRateLimitResponse(response);
  }
}
