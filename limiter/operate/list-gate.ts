/** Runs lists of counters one after another. Each reads the store as fast as decisions permit, so many at once would slow them down. */
import { ApiProblem } from '../../process/http/api-route.ts';

/** Chosen: at 150 ms for each, the last one waits about 1.2 s. */
const maxWaiting = 8;
/** After this time the lists that wait now have ended. */
const retryAfterSeconds = 2;

export class ListGate {
  readonly #waiting: (() => void)[] = [];
  #isBusy = false;

  /** Rejects with an `ApiProblem` if too many lists wait, and otherwise as the list does. */
  async pass<T>(list: () => Promise<T>): Promise<T> {
    if (this.#isBusy) await this.#turn();
    this.#isBusy = true;
    try {
      return await list();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#isBusy = false;
      // The gate stays busy, so that lists that arrive meanwhile wait behind the next one.
      else next();
    }
  }

  #turn(): Promise<void> {
    if (this.#waiting.length >= maxWaiting) {
      throw new ApiProblem(
        429,
        `counters are listed one page at a time, and ${maxWaiting} others wait already: try again in ${retryAfterSeconds} s`,
        { retryAfterSeconds },
      );
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    return promise;
  }
}
