/** The answer to a request beyond the rate of its caller (`on_excess: over_limit`). Nothing of the request was read or is counted. */
import type { Code } from '../decide/messages.ts';
import { encodeRateLimitResponse } from '../decide/wire-codec.ts';
import { overWithoutLimit, type ShadowOptions } from './over-without-limit.ts';

export class Excess {
  readonly #options: ShadowOptions;

  constructor(options: ShadowOptions) {
    this.#options = options;
  }

  /** Called once for each request. SHADOW_MODE lets it pass, as it does where a limit is exceeded. */
  code(): Code {
    return overWithoutLimit(this.#options, 0).overallCode;
  }

  /** The same as a message. It has no statuses, because nothing of the descriptors is known. */
  message(): Uint8Array {
    return encodeRateLimitResponse(overWithoutLimit(this.#options, 0));
  }
}
