import type { ApiError } from './api-error.ts';

/** We chose it: a server that just came up refuses for a moment what it will grant. */
const attemptsUntilSettled = 3;

/**
 * What is said of failures in a row. An outage is told once, when it begins; once more when it turned into a refusal
 * that waiting does not end (401, 403, 404) and that came several times in a row.
 */
export class WatchOutage {
  #told: string | undefined;
  #refusal: string | undefined;
  #refusals = 0;

  /** Returns whether `reason` is to be told. */
  failed(error: ApiError, reason: string): boolean {
    const isRefusal = error.status === 401 || error.status === 403 || error.status === 404;
    this.#refusals = isRefusal && reason === this.#refusal ? this.#refusals + 1 : 1;
    this.#refusal = isRefusal ? reason : undefined;
    const isFirst = this.#told === undefined;
    const isOther = isRefusal && reason !== this.#told && this.#refusals >= attemptsUntilSettled;
    if (isFirst || isOther) this.#told = reason;
    return isFirst || isOther;
  }

  /** Returns whether there was an outage that was told. */
  recovered(): boolean {
    const wasTold = this.#told !== undefined;
    this.#told = undefined;
    this.#refusal = undefined;
    this.#refusals = 0;
    return wasTold;
  }
}
