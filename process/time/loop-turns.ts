/**
 * Deals out turns of the event loop to the connections of all listeners of a thread. One read can hold thousands of
 * requests, and all that a hundred connections sent at once would keep everybody else waiting: a new connection needs a turn
 * of the loop to be accepted, and another one to be read.
 *
 * What comes is served as it comes, until that took its share of a turn. What is beyond waits: first for the turn of its
 * address, and there for that of its connection, so that who asks much waits for himself. Who asks little goes before all
 * who ask much, but for one of them in each turn of the loop: however many those are, he hardly waits.
 *
 * A listener accepts one connection in a turn of the loop (libuv's `uv__server_io`), in the order in which they came. So
 * while connections come, shares are small, and turns without work follow those with work, for three times as long: else a
 * few peers that keep the process busy would make everybody wait who comes after a thousand others.
 *
 * What a connection sent has to be read before it is known how much it asks, and that may be five times a share. So few are
 * read in a turn, and one alone of those whose address sends what takes long.
 */
import { type Clock, systemClock } from './clock.ts';

export interface TurnTaker {
  /** Whose turns it takes part in. */
  readonly group: string;
  takeTurn(): void;
}

/** For what one waits: to be served, having asked little or much; or to be read, which is done in the next turn of the loop. */
export type TurnKind = 'little' | 'much' | 'read';

/** Those that wait for the same kind of turn. */
export class WaitingLine<Member extends { readonly group: string } = TurnTaker> {
  /** By group, both in the order of their turns. */
  readonly #groups = new Map<string, Set<Member>>();
  size = 0;

  has(taker: Member): boolean {
    return this.#groups.get(taker.group)?.has(taker) === true;
  }

  add(taker: Member): void {
    const group = this.#groups.get(taker.group);
    if (group === undefined) this.#groups.set(taker.group, new Set([taker]));
    else group.add(taker);
    this.size += 1;
  }

  /** Whether it was there. */
  remove(taker: Member): boolean {
    const group = this.#groups.get(taker.group);
    if (group?.delete(taker) !== true) return false;
    this.size -= 1;
    if (group.size === 0) this.#groups.delete(taker.group);
    return true;
  }

  /** By name, each with those that wait, the longest waiting first. */
  groups(): Iterable<readonly [name: string, members: ReadonlySet<Member>]> {
    return this.#groups;
  }

  *[Symbol.iterator](): Iterator<Member> {
    for (const group of this.#groups.values()) yield* group;
  }

  /** Takes out whose turn it is, among the groups that fit. Undefined: nobody waits. */
  next(fits: (name: string) => boolean = () => true): Member | undefined {
    for (const [name, group] of this.#groups) {
      if (!fits(name)) continue;
      for (const taker of group) {
        this.remove(taker);
        // Its address goes to the end.
        if (this.#groups.delete(name)) this.#groups.set(name, group);
        return taker;
      }
    }
    return undefined;
  }

  /** Takes out the first of the group that has most. Undefined: nobody waits. */
  shed(): Member | undefined {
    let largest: Set<Member> | undefined;
    for (const group of this.#groups.values()) if (group.size > (largest?.size ?? 0)) largest = group;
    const [first] = largest ?? [];
    if (first !== undefined) this.remove(first);
    return first;
  }
}

/** The steps of one turn of the loop. */
interface Steps {
  left: number;
  done: number;
  /** Of the first. */
  beganMs: number;
  reads: number;
  /** Connections come first in this turn. */
  isPassed: boolean;
  /** None of the expensive ones is read. */
  isCheap: boolean;
}

const noSteps = (): Steps => ({ left: 0, done: 0, beganMs: 0, reads: 0, isPassed: false, isCheap: false });

/** Chosen: what a turn of the loop may spend on what comes, and on those that wait. One more may be begun. */
const shareMs = 4;
/** The same while connections come. */
const shareOfComersMs = 1;
/** Chosen: so long connections come first, as many times as what went before took, */
const comersFactor = 3;
/** and no longer than this. */
const mostComersMs = 6;
/** Chosen: so many that wait have a turn in one of the loop, if its share suffices. */
const mostOfTurn = 64;
/** Chosen: so many of those that wait are read in one turn, */
const mostReads = 4;
/** and one of the expensive ones, which come after others until those had so many, */
const cheapReads = 3;
/** and not while connections come, for so many turns. */
const mostTurnsWithoutExpensive = 8;
/** Chosen: so long what an address sends is expensive, after it was. */
const expensiveMs = 250;
/** Chosen: of more addresses that is not remembered. */
const mostExpensive = 1000;
/** Chosen: when none was accepted for so long, no more wait for it. A turn of the loop without work is shorter. */
const quietMs = 2;

interface LoopTurnsOptions {
  clock: Pick<Clock, 'monotonicMs'>;
  /** Calls back in a later turn of the loop, and what `callback` left to do in this one is done before the next. */
  later(callback: () => void): unknown;
}

const system: LoopTurnsOptions = { clock: systemClock, later: setImmediate };

export class LoopTurns {
  readonly #options: LoopTurnsOptions;
  readonly #little = new WaitingLine();
  readonly #much = new WaitingLine();
  readonly #read = new WaitingLine();
  /** When what comes has taken its share, if it is watched. */
  #endMs = Number.NEGATIVE_INFINITY;
  /** The turn of the loop in which the share began lasts. */
  #isWatched = false;
  /** Asked for, and none of them taken. */
  #steps = noSteps();
  /** Since connections came first. */
  #workBeganMs: number | undefined;
  /** One was accepted so lately that more may wait for that. */
  #comingUntilMs = Number.NEGATIVE_INFINITY;
  #hasAccepted = false;
  /** Connections come first until then, while there are any. */
  #acceptUntilMs = Number.NEGATIVE_INFINITY;
  /** Since the last one of the expensive ones, or of all. */
  #cheapReads = 0;
  #turnsWithoutExpensive = 0;
  /** Addresses, and until when what they send is expensive: in the order in which they became so. */
  readonly #expensive = new Map<string, number>();

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
    if (this.#isWatched || nowMs < Math.min(this.#acceptUntilMs, this.#comingUntilMs)) return true;
    this.#isWatched = true;
    this.#endMs = nowMs + (nowMs < this.#comingUntilMs ? shareOfComersMs : shareMs);
    this.#workBeganMs ??= nowMs;
    this.#options.later(this.#turnIsOver);
    return false;
  }

  /** Whether a connection that comes may be read in the next turn without waiting for that. */
  mayBeRead(group: string): boolean {
    return !this.#isExpensive(group) && !this.isSpent();
  }

  /** What the address sends takes long to read. */
  markExpensive(group: string): void {
    this.#expensive.delete(group);
    for (const first of this.#expensive.keys()) {
      if (this.#expensive.size < mostExpensive) break;
      this.#expensive.delete(first);
    }
    this.#expensive.set(group, this.#options.clock.monotonicMs() + expensiveMs);
  }

  /** Whether what came in this turn took twice its share. */
  isOverdrawn(): boolean {
    return this.#isWatched && this.#options.clock.monotonicMs() >= this.#endMs + shareMs;
  }

  /** A connection was accepted: others may wait for that. */
  accepted(): void {
    this.#comingUntilMs = this.#options.clock.monotonicMs() + quietMs;
    this.#hasAccepted = true;
  }

  /**
   * `takeTurn` will be called, once, however often this is called until then: the first time says how much it asks. Who waits
   * to be read may come to wait to be served.
   */
  wait(taker: TurnTaker, kind: TurnKind): void {
    if (this.#little.has(taker) || this.#much.has(taker)) return;
    if (kind !== 'read') {
      this.#read.remove(taker);
      (kind === 'little' ? this.#little : this.#much).add(taker);
    } else if (!this.#read.has(taker)) this.#read.add(taker);
    this.#goOn();
  }

  /** It does not wait any more. */
  leave(taker: TurnTaker): void {
    this.#little.remove(taker);
    this.#much.remove(taker);
    this.#read.remove(taker);
  }

  readonly #turnIsOver = (): void => {
    this.#isWatched = false;
    // With steps to come their last one says it.
    if (this.#steps.left === 0) this.#workIsOver();
  };

  #workIsOver(): void {
    const beganMs = this.#workBeganMs;
    if (beganMs === undefined) return;
    this.#workBeganMs = undefined;
    const nowMs = this.#options.clock.monotonicMs();
    if (this.#comingUntilMs >= beganMs)
      this.#acceptUntilMs = nowMs + Math.min(mostComersMs, comersFactor * (nowMs - beganMs));
  }

  #goOn(): void {
    const steps = this.#steps;
    const most = Math.min(this.#little.size + this.#much.size + this.#read.size, mostOfTurn);
    // Each is a callback of its own: only after it is done what the one before began, and its time known.
    for (; steps.left < most; steps.left += 1) this.#options.later(() => this.#step(steps));
  }

  #step(steps: Steps): void {
    const nowMs = this.#options.clock.monotonicMs();
    if (steps.done === 0) this.#begin(steps, nowMs);
    const taker = steps.isPassed ? undefined : this.#next(steps, nowMs);
    steps.done += 1;
    steps.left -= 1;
    if (taker !== undefined) {
      this.#workBeganMs ??= nowMs;
      taker.takeTurn();
    }
    if (steps.left > 0) return;
    if (!steps.isPassed) this.#workIsOver();
    this.#goOn();
  }

  #begin(steps: Steps, nowMs: number): void {
    this.#steps = noSteps();
    steps.beganMs = nowMs;
    // As long as one waits for that, one is accepted in each turn.
    if (!this.#hasAccepted) this.#acceptUntilMs = Number.NEGATIVE_INFINITY;
    steps.isPassed = nowMs < Math.min(this.#acceptUntilMs, this.#comingUntilMs);
    steps.isCheap = this.#hasAccepted && this.#turnsWithoutExpensive < mostTurnsWithoutExpensive;
    this.#hasAccepted = false;
    if (!steps.isPassed)
      this.#turnsWithoutExpensive =
        steps.isCheap && this.#read.size > 0 ? this.#turnsWithoutExpensive + 1 : 0;
  }

  #next(steps: Steps, nowMs: number): TurnTaker | undefined {
    // Each line has one whatever the others take, and those who are read cost nothing yet.
    const first = [this.#much, this.#little][steps.done]?.next();
    if (first !== undefined) return first;
    const read = this.#nextRead(steps);
    if (read !== undefined) return read;
    const isShareLeft = nowMs - steps.beganMs < (nowMs < this.#comingUntilMs ? shareOfComersMs : shareMs);
    return isShareLeft ? (this.#little.next() ?? this.#much.next()) : undefined;
  }

  #nextRead(steps: Steps): TurnTaker | undefined {
    if (this.#read.size === 0 || steps.reads >= mostReads) return undefined;
    const mayBeExpensive = steps.reads === 0 && !steps.isCheap;
    const isForAll = mayBeExpensive && this.#cheapReads >= cheapReads;
    const cheap = isForAll ? undefined : this.#read.next((group) => !this.#isExpensive(group));
    const taker = cheap ?? (mayBeExpensive ? this.#read.next() : undefined);
    if (taker === undefined) return undefined;
    steps.reads += 1;
    this.#cheapReads = cheap === undefined ? 0 : this.#cheapReads + 1;
    return taker;
  }

  #isExpensive(group: string): boolean {
    const untilMs = this.#expensive.get(group);
    return untilMs !== undefined && this.#options.clock.monotonicMs() < untilMs;
  }
}

/** What has something to write or to send. */
export interface Flushable {
  flush(): void;
}

/**
 * Writes what was gathered once the work that filled it is done, so that the answers of one batch of the store become one
 * write for each connection. Who drives work says when that ends: the reader of a socket after what it read, the store's
 * connection after all replies of one read. What comes of anything else is flushed when this turn of the event loop ends.
 */
export class FlushTurn {
  #waiting: Flushable[] = [];
  #isDriven = false;

  /** What is scheduled from now on waits for `end`, which has to follow at once. */
  readonly begin = (): void => {
    this.#isDriven = true;
  };

  readonly end = (): void => {
    this.#isDriven = false;
    if (this.#waiting.length > 0) this.#flush();
  };

  /** Called at most once by each until it was flushed. */
  readonly schedule = (one: Flushable): void => {
    if (this.#waiting.push(one) === 1 && !this.#isDriven) setImmediate(this.#flush);
  };

  readonly #flush = (): void => {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const one of waiting) one.flush();
  };
}
