/** Lists of counters go one after another: each looks through the store as fast as one may beside decisions, so many at once may not. */
import { ApiProblem } from '../../process/http/api-route.ts';

/** Chosen: with 150 ms for each, the last one waits some 1.2 s. */
const mostWaiting = 8;
/** By then those that wait are through. */
const retryAfterSeconds = 2;

export class ListGate {
  readonly #waiting: (() => void)[] = [];
  #isBusy = false;

  /** Rejects with an `ApiProblem` where too many wait, else as the list does. */
  async pass<T>(list: () => Promise<T>): Promise<T> {
    if (this.#isBusy) await this.#turn();
    this.#isBusy = true;
    try {
      return await list();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#isBusy = false;
      // Anyone who comes meanwhile queues behind it.
      else next();
    }
  }

  #turn(): Promise<void> {
    if (this.#waiting.length >= mostWaiting) {
      throw new ApiProblem(
        429,
        `counters are listed one page at a time, and ${mostWaiting} others wait already: try again in ${retryAfterSeconds} s`,
        { retryAfterSeconds },
      );
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    return promise;
  }
}
