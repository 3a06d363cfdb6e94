/**
 * Distributes turns of the event loop among the connections of all listeners of a thread. One read can contain thousands of requests,
 * and the requests that a hundred connections sent at once would delay all other callers: a new connection needs a turn of the loop to
 * be accepted, and another one to be read.
 *
 * Input is served as it arrives, until it has used up its share of a turn. The rest waits: first for the turn of its address, and within
 * it for the turn of its connection, so that a caller with many requests delays only itself. Callers with few requests go before all
 * callers with many, except for one of the latter in each turn of the loop, so they hardly wait.
 *
 * A listener accepts one connection in a turn of the loop (libuv's `uv__server_io`), in the order of arrival. So while connections
 * arrive, shares are small, and turns without work follow those with work, for three times as long. Otherwise a few peers that keep the
 * process busy would delay every connection that waits behind a thousand others.
 *
 * The input of a connection must be read before its cost is known, which may be five times a share. So few connections are read in a
 * turn, and at most one whose address has sent expensive input.
 */

import { type Clock, systemClock } from '../time/clock.ts';
import { FairQueue } from './fair-queue.ts';

export interface TurnTaker {
  /** The address whose turns it shares. */
  readonly group: string;
  takeTurn(): void;
}

/** The reason for waiting: to be served, after few or many requests; or to be read, which happens in the next turn of the loop. */
export type TurnKind = 'little' | 'much' | 'read';

/** The steps of one turn of the loop. */
interface Steps {
  left: number;
  done: number;
  /** The time of the first step. */
  beganMs: number;
  reads: number;
  /** New connections go first in this turn. */
  isPassed: boolean;
  /** Expensive connections are not read. */
  isCheap: boolean;
}

const noSteps = (): Steps => ({ left: 0, done: 0, beganMs: 0, reads: 0, isPassed: false, isCheap: false });

/** Chosen: the time that a turn of the loop may spend on input, and on waiting members. One more may be started. */
const shareMs = 4;
/** The same while connections arrive. */
const shareOfComersMs = 1;
/** Chosen: new connections go first for this many times the duration of the work before. */
const comersFactor = 3;
/** Chosen: the maximum time for which new connections go first. */
const maxComersMs = 6;
/** Chosen: the waiting members that have a turn in one turn of the loop, if the share suffices. */
const maxOfTurn = 64;
/** Chosen: the waiting members that are read in one turn. */
const maxReads = 4;
/** Chosen: an expensive member is read after this number of others. */
const cheapReads = 3;
/** Chosen: while connections arrive, this number of turns read no expensive member. */
const maxTurnsWithoutExpensive = 8;
/** Chosen: after expensive input, the time for which all input of the address counts as expensive. */
const expensiveMs = 250;
/** Chosen: the number of addresses for which that is remembered. */
const maxExpensive = 1000;
/** Chosen: if no connection was accepted for this time, no more are waiting. A turn of the loop without work is shorter. */
const quietMs = 2;

interface LoopTurnsOptions {
  clock: Pick<Clock, 'monotonicMs'>;
  /** Calls back in a later turn of the loop. Work that `callback` left for its own turn is done before the next callback. */
  later(callback: () => void): unknown;
}

const system: LoopTurnsOptions = { clock: systemClock, later: setImmediate };

export class LoopTurns {
  readonly #options: LoopTurnsOptions;
  readonly #little = new FairQueue<TurnTaker>();
  readonly #much = new FairQueue<TurnTaker>();
  readonly #read = new FairQueue<TurnTaker>();
  /** The time at which input has used up its share, if it is watched. */
  #endMs = Number.NEGATIVE_INFINITY;
  /** Whether the turn of the loop in which the share began is still running. */
  #isWatched = false;
  /** Scheduled steps of which none has run yet. */
  #steps = noSteps();
  /** The time since new connections last went first. */
  #workBeganMs: number | undefined;
  /** The time until which more connections may wait, because one was accepted shortly before. */
  #comingUntilMs = Number.NEGATIVE_INFINITY;
  #hasAccepted = false;
  /** The time until which new connections go first, if there are any. */
  #acceptUntilMs = Number.NEGATIVE_INFINITY;
  /** Reads since the last expensive one. */
  #cheapReads = 0;
  /** Turns since the last expensive read. */
  #turnsWithoutExpensive = 0;
  /** Addresses, with the time until which their input is expensive, in the order in which it became so. */
  readonly #expensive = new Map<string, number>();

  constructor(options: LoopTurnsOptions = system) {
    this.#options = options;
  }

  /**
   * Whether input has used up its share of this turn, so that further input has to wait. A share begins at the first call and watches
   * its turn of the loop. Input in a later turn may use the rest of the share, and then one more, so that rare input, the usual case,
   * schedules a callback only once in a share. `nowMs`: the current time, if it is known.
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

  /** Whether a new connection may be read in the next turn of the loop without waiting for its turn. */
  mayBeRead(group: string): boolean {
    return !this.#isExpensive(group) && !this.isSpent();
  }

  /** Marks an address whose input takes long to read. */
  markExpensive(group: string): void {
    this.#expensive.delete(group);
    for (const first of this.#expensive.keys()) {
      if (this.#expensive.size < maxExpensive) break;
      this.#expensive.delete(first);
    }
    this.#expensive.set(group, this.#options.clock.monotonicMs() + expensiveMs);
  }

  /** Whether any member waits, so that input of others may be unread, too. */
  get hasWaiting(): boolean {
    return this.#little.size + this.#much.size + this.#read.size > 0;
  }

  /** Whether input has used twice its share of this turn. */
  isOverdrawn(): boolean {
    return this.#isWatched && this.#options.clock.monotonicMs() >= this.#endMs + shareMs;
  }

  /** Called when a connection was accepted: others may be waiting. */
  accepted(): void {
    this.#comingUntilMs = this.#options.clock.monotonicMs() + quietMs;
    this.#hasAccepted = true;
  }

  /**
   * Schedules one call of `takeTurn`, however often this is called before. The first call decides between few and many requests. A
   * member that waits to be read may change to waiting to be served.
   */
  wait(taker: TurnTaker, kind: TurnKind): void {
    if (this.#little.has(taker) || this.#much.has(taker)) return;
    if (kind !== 'read') {
      this.#read.remove(taker);
      (kind === 'little' ? this.#little : this.#much).add(taker);
    } else if (!this.#read.has(taker)) this.#read.add(taker);
    this.#goOn();
  }

  /** Ends the wait of a member. */
  leave(taker: TurnTaker): void {
    this.#little.remove(taker);
    this.#much.remove(taker);
    this.#read.remove(taker);
  }

  readonly #turnIsOver = (): void => {
    this.#isWatched = false;
    // If steps are scheduled, the last one does this.
    if (this.#steps.left === 0) this.#workIsOver();
  };

  #workIsOver(): void {
    const beganMs = this.#workBeganMs;
    if (beganMs === undefined) return;
    this.#workBeganMs = undefined;
    const nowMs = this.#options.clock.monotonicMs();
    if (this.#comingUntilMs >= beganMs)
      this.#acceptUntilMs = nowMs + Math.min(maxComersMs, comersFactor * (nowMs - beganMs));
  }

  #goOn(): void {
    const steps = this.#steps;
    const max = Math.min(this.#little.size + this.#much.size + this.#read.size, maxOfTurn);
    // Each step is a separate callback, so that the work started by the one before is done, and its duration known.
    for (; steps.left < max; steps.left += 1) this.#options.later(() => this.#step(steps));
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
    // As long as connections wait to be accepted, one is accepted in each turn.
    if (!this.#hasAccepted) this.#acceptUntilMs = Number.NEGATIVE_INFINITY;
    steps.isPassed = nowMs < Math.min(this.#acceptUntilMs, this.#comingUntilMs);
    steps.isCheap = this.#hasAccepted && this.#turnsWithoutExpensive < maxTurnsWithoutExpensive;
    this.#hasAccepted = false;
    if (!steps.isPassed)
      this.#turnsWithoutExpensive =
        steps.isCheap && this.#read.size > 0 ? this.#turnsWithoutExpensive + 1 : 0;
  }

  #next(steps: Steps, nowMs: number): TurnTaker | undefined {
    // Each line gets one turn, however much the others take. Reading costs nothing yet.
    const first = [this.#much, this.#little][steps.done]?.next();
    if (first !== undefined) return first;
    const read = this.#nextRead(steps);
    if (read !== undefined) return read;
    const isShareLeft = nowMs - steps.beganMs < (nowMs < this.#comingUntilMs ? shareOfComersMs : shareMs);
    return isShareLeft ? (this.#little.next() ?? this.#much.next()) : undefined;
  }

  #nextRead(steps: Steps): TurnTaker | undefined {
    if (this.#read.size === 0 || steps.reads >= maxReads) return undefined;
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

/** An object with output to write or to send. */
export interface Flushable {
  flush(): void;
}

/**
 * Writes gathered output when the work that produced it is done, so that the answers of one batch of the store become one write for each
 * connection. The code that drives the work marks its end: the reader of a socket after each read, and the store's connection after all
 * replies of one read. Other output is flushed at the end of this turn of the event loop.
 */
export class FlushTurn {
  #waiting: Flushable[] = [];
  #isDriven = false;

  /** Makes objects scheduled from now on wait for `end`, which must follow synchronously. */
  readonly begin = (): void => {
    this.#isDriven = true;
  };

  readonly end = (): void => {
    this.#isDriven = false;
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    for (const one of waiting) one.flush();
  };

  /** Called at most once by each object until it is flushed. */
  readonly schedule = (one: Flushable): void => {
    if (this.#waiting.length > 0) {
      this.#waiting.push(one);
      return;
    }
    // Most turns have one. A list that begins with it reserves no further room.
    this.#waiting = [one];
    if (!this.#isDriven) setImmediate(this.end);
  };
}
