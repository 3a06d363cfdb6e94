/**
 * Deals out turns of the event loop to the connections of all listeners of a thread. One read can hold thousands of
 * requests, and all that a hundred connections sent at once would keep everybody else waiting: a new connection needs a turn
 * of the loop to be accepted, and another one to be read.
 *
 * What comes is served as it comes, until that took its share of a turn. What is beyond waits: first for the turn of its
 * address, and there for that of its connection, so that who asks much waits for himself. Who asks little goes before all
 * who ask much, but for one of them in each turn of the loop: however many those are, he hardly waits.
 */
import { type Clock, systemClock } from './clock.ts';

export interface TurnTaker {
  /** Whose turns it takes part in. */
  readonly group: string;
  takeTurn(): void;
}

/** Those that wait for the same kind of turn. */
class WaitingLine {
  /** By group, both in the order of their turns. */
  readonly #groups = new Map<string, Set<TurnTaker>>();
  size = 0;

  has(taker: TurnTaker): boolean {
    return this.#groups.get(taker.group)?.has(taker) === true;
  }

  add(taker: TurnTaker): void {
    const group = this.#groups.get(taker.group);
    if (group === undefined) this.#groups.set(taker.group, new Set([taker]));
    else group.add(taker);
    this.size += 1;
  }

  remove(taker: TurnTaker): void {
    const group = this.#groups.get(taker.group);
    if (group?.delete(taker) !== true) return;
    this.size -= 1;
    if (group.size === 0) this.#groups.delete(taker.group);
  }

  /** Takes out whose turn it is. Undefined: nobody waits. */
  next(): TurnTaker | undefined {
    for (const [name, group] of this.#groups) {
      for (const taker of group) {
        this.remove(taker);
        // Its address goes to the end.
        if (this.#groups.delete(name)) this.#groups.set(name, group);
        return taker;
      }
    }
    return undefined;
  }
}

/** The steps of one turn of the loop. */
interface Steps {
  left: number;
  done: number;
  /** Of the first. */
  beganMs: number;
}

const noSteps = (): Steps => ({ left: 0, done: 0, beganMs: 0 });

/** Chosen: what a turn of the loop may spend on what comes, and on those that wait. One more may be begun. */
const shareMs = 4;
/** Chosen: so many that wait have a turn in one of the loop, if its share suffices. */
const mostOfTurn = 64;

interface LoopTurnsOptions {
  clock: Pick<Clock, 'monotonicMs'>;
  /** Calls back in a later turn of the loop, and what `callback` left to do in this one is done before the next. */
  later(callback: () => void): void;
}

const system: LoopTurnsOptions = {
  clock: systemClock,
  later: (callback) => void setImmediate(callback),
};

export class LoopTurns {
  readonly #options: LoopTurnsOptions;
  readonly #little = new WaitingLine();
  readonly #much = new WaitingLine();
  /** When what comes has taken its share, if it is watched. */
  #endMs = Number.NEGATIVE_INFINITY;
  /** The turn of the loop in which the share began lasts. */
  #isWatched = false;
  /** Asked for, and none of them taken. */
  #steps = noSteps();

  constructor(options: LoopTurnsOptions = system) {
    this.#options = options;
  }

  /**
   * Whether what came in this turn took its share: what comes now has to wait. What begins in the middle of a share that
   * another turn of the loop left may take that and one more: so what comes seldom, as usual, asks nothing of the loop but
   * once in a share. `nowMs` of the clock, where it is known.
   */
  isSpent(nowMs: number = this.#options.clock.monotonicMs()): boolean {
    if (nowMs < this.#endMs) return false;
    if (this.#isWatched) return true;
    this.#isWatched = true;
    this.#endMs = nowMs + shareMs;
    this.#options.later(this.#turnIsOver);
    return false;
  }

  /** `takeTurn` will be called, once, however often this is called until then: the first time says how much it asks. */
  wait(taker: TurnTaker, howMuch: 'little' | 'much'): void {
    if (this.#little.has(taker) || this.#much.has(taker)) return;
    (howMuch === 'little' ? this.#little : this.#much).add(taker);
    this.#goOn();
  }

  /** It does not wait any more. */
  leave(taker: TurnTaker): void {
    this.#little.remove(taker);
    this.#much.remove(taker);
  }

  readonly #turnIsOver = (): void => {
    this.#isWatched = false;
  };

  #goOn(): void {
    const steps = this.#steps;
    const most = Math.min(this.#little.size + this.#much.size, mostOfTurn);
    // Each is a callback of its own: only after it is done what the one before began, and its time known.
    for (; steps.left < most; steps.left += 1) this.#options.later(() => this.#step(steps));
  }

  #step(steps: Steps): void {
    const nowMs = this.#options.clock.monotonicMs();
    if (steps.done === 0) {
      steps.beganMs = nowMs;
      this.#steps = noSteps();
    }
    // Each line has one whatever the other takes.
    const due = [this.#much, this.#little][steps.done];
    const isShareLeft = nowMs - steps.beganMs < shareMs;
    const taker = due?.next() ?? (isShareLeft ? (this.#little.next() ?? this.#much.next()) : undefined);
    steps.done += 1;
    steps.left -= 1;
    taker?.takeTurn();
    if (steps.left === 0) this.#goOn();
  }
}
