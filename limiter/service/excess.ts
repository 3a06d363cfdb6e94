/** The answer to a request beyond the rate of its caller (`on_excess: over_limit`). The request is neither read nor counted. */
import type { Code } from '../decide/messages.ts';
import { encodeRateLimitResponse } from '../decide/wire-codec.ts';
import { overWithoutLimit, type ShadowOptions } from './over-without-limit.ts';

export class Excess {
  readonly #options: ShadowOptions;

  constructor(options: ShadowOptions) {
    this.#options = options;
  }

  /** Called once for each request. SHADOW_MODE lets it pass, as if it exceeded a limit. */
  code(): Code {
    return overWithoutLimit(this.#options, 0).overallCode;
  }

  /** The same as a message. It has no statuses, because the descriptors are unknown. */
  message(): Uint8Array {
    return encodeRateLimitResponse(overWithoutLimit(this.#options, 0));
  }
}
