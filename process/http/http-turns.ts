/**
 * Deals out turns of the event loop to the connections of an HTTP listener. One read can hold thousands of requests, and
 * all of them at once would keep everybody else waiting, callers of other listeners too.
 *
 * While nobody waits, requests are served as they come, until they took their share of a turn. Those beyond wait: first for
 * the turn of their address, and there for that of their connection, so that who asks much waits for himself.
 */

export interface TurnTaker {
  /** Whose turns it takes part in. */
  readonly group: string;
  takeTurn(): void;
}

/** Chosen: what a turn of the loop may spend on requests that come, and on those that wait. One more may be begun. */
const shareMs = 4;
/** Chosen: so many that wait are served in one turn, if its share suffices. */
const mostOfTurn = 8;

export interface HttpTurnsOptions {
  nowMs(): number;
  /** Calls back in a later turn of the loop, and what `callback` left to do in this one is done before the next. */
  later(callback: () => void): void;
}

const system: HttpTurnsOptions = {
  nowMs: () => performance.now(),
  later: (callback) => void setImmediate(callback),
};

export class HttpTurns {
  readonly #options: HttpTurnsOptions;
  /** By group, both in the order of their turns. */
  readonly #waiting = new Map<string, Set<TurnTaker>>();
  #waitingCount = 0;
  /** When the first of what comes in this turn came; undefined when nothing has. */
  #beganMs: number | undefined;
  /** Callbacks that are still to come for those that wait. */
  #due = 0;
  #stepsBeganMs: number | undefined;

  constructor(options: HttpTurnsOptions = system) {
    this.#options = options;
  }

  /** Whether a request may be served as it comes; else it has to wait. */
  mayGoAtOnce(): boolean {
    return this.#waitingCount === 0 && !this.isSpent();
  }

  /** Whether what came in this turn, since it was first asked about, took its share. */
  isSpent(): boolean {
    const nowMs = this.#options.nowMs();
    if (this.#beganMs !== undefined) return nowMs - this.#beganMs >= shareMs;
    this.#beganMs = nowMs;
    this.#options.later(() => {
      this.#beganMs = undefined;
    });
    return false;
  }

  /** `takeTurn` will be called, once, however often this is called until then. */
  wait(taker: TurnTaker): void {
    let group = this.#waiting.get(taker.group);
    if (group === undefined) {
      group = new Set();
      this.#waiting.set(taker.group, group);
    }
    const before = group.size;
    group.add(taker);
    this.#waitingCount += group.size - before;
    this.#goOn();
  }

  /** It does not wait any more. */
  leave(taker: TurnTaker): void {
    const group = this.#waiting.get(taker.group);
    if (group?.delete(taker) !== true) return;
    this.#waitingCount -= 1;
    if (group.size === 0) this.#waiting.delete(taker.group);
  }

  #goOn(): void {
    if (this.#due > 0) return;
    this.#due = Math.min(this.#waitingCount, mostOfTurn);
    this.#stepsBeganMs = undefined;
    // Each is a callback of its own: only after it is done what the one before began, and its time known.
    for (let i = this.#due; i > 0; i--) this.#options.later(() => this.#step());
  }

  #step(): void {
    const nowMs = this.#options.nowMs();
    this.#stepsBeganMs ??= nowMs;
    if (nowMs - this.#stepsBeganMs < shareMs) this.#takeNext();
    this.#due -= 1;
    this.#goOn();
  }

  #takeNext(): void {
    const [entry] = this.#waiting;
    if (entry === undefined) return;
    const [name, group] = entry;
    const [taker] = group as Iterable<TurnTaker>;
    if (taker === undefined) return;
    this.leave(taker);
    // Its address goes to the end.
    if (this.#waiting.delete(name)) this.#waiting.set(name, group);
    taker.takeTurn();
  }
}
