/**
 * Statuses that wait to be written, under one budget for all: those of objects that a user just changed first, then
 * those that wait longest. An object waits once, with its newest status; while one of its statuses is being written, it
 * has to wait, so that no older one is ever written last.
 */

import type { Clock, Timers } from '../../process/time/clock.ts';
import { TokenBucket } from '../../process/time/token-bucket.ts';
import type { ConfigObject, ConfigStatus } from '../model/config-object.ts';
import type { StatusEntry } from '../replicas/status-pump.ts';

/** Chosen: what may be written at once after a quiet time, as a part of the writes of one second. */
const burstPart = 0.2;

export class StatusQueue {
  readonly #budget: TokenBucket;
  readonly #urgent = new Map<string, StatusEntry>();
  readonly #others = new Map<string, StatusEntry>();
  /** By uid: what is being written. */
  readonly #inFlight = new Map<string, StatusEntry>();
  /** By uid: what was offered while another one was being written. */
  readonly #held = new Map<string, StatusEntry>();

  constructor({ writesPerSecond }: { writesPerSecond: number }) {
    const burst = Math.max(1, Math.floor(writesPerSecond * burstPart));
    this.#budget = new TokenBucket({ burst, perSecond: writesPerSecond });
  }

  /** Without those being written. */
  get size(): number {
    return this.#urgent.size + this.#others.size + this.#held.size;
  }

  /** Takes the place of a status of the same object that waits. */
  offer(object: ConfigObject, status: ConfigStatus): void {
    const { uid } = object;
    const entry = { object, status };
    if (this.#inFlight.has(uid)) {
      this.#held.set(uid, entry);
    } else if (isUsersChange(object)) {
      this.#others.delete(uid);
      this.#urgent.set(uid, entry);
    } else if (this.#urgent.has(uid)) {
      this.#urgent.set(uid, entry);
    } else {
      this.#others.set(uid, entry);
    }
  }

  /** There is nothing to write for the object any more. */
  withdraw(uid: string): void {
    for (const waiting of [this.#urgent, this.#others, this.#held]) waiting.delete(uid);
  }

  /** When this process no longer leads. What is being written is not called back. */
  clear(): void {
    for (const waiting of [this.#urgent, this.#others, this.#held]) waiting.clear();
  }

  /** What to write now; undefined when nothing waits or the budget is used up. Call `done` when it is written or failed. */
  next(nowMs: number): StatusEntry | undefined {
    const waiting = this.#urgent.size > 0 ? this.#urgent : this.#others;
    const [first] = waiting;
    if (first === undefined || !this.#budget.take(nowMs)) return undefined;
    const [uid, entry] = first;
    waiting.delete(uid);
    this.#inFlight.set(uid, entry);
    return entry;
  }

  done(uid: string): void {
    this.#inFlight.delete(uid);
    const held = this.#held.get(uid);
    this.#held.delete(uid);
    if (held !== undefined) this.offer(held.object, held.status);
  }

  /** What is being written for the object. */
  inFlight(uid: string): ConfigStatus | undefined {
    return this.#inFlight.get(uid)?.status;
  }

  /** Milliseconds until `next` has something; undefined when nothing waits but for what is being written. */
  nextDueMs(nowMs: number): number | undefined {
    if (this.#urgent.size + this.#others.size === 0) return undefined;
    return this.#budget.waitMs(nowMs);
  }
}

function isUsersChange({ generation, status }: ConfigObject): boolean {
  return status === undefined || status.observedGeneration < generation;
}

export interface PaceOptions {
  clock: Clock;
  timers: Timers;
  /** How long the first call waits for others to join it. */
  gatherMs: number;
  /** Between the starts of two runs. */
  intervalMs: number;
  run(): void;
}

/** Runs something soon after it was asked for, and never too often: a storm of wishes collapses into few runs. */
export class Pace {
  readonly #options: PaceOptions;
  #lastRunMs = Number.NEGATIVE_INFINITY;
  #callOff: (() => void) | undefined;
  #isClosed = false;

  constructor(options: PaceOptions) {
    this.#options = options;
  }

  ask(): void {
    if (this.#isClosed || this.#callOff !== undefined) return;
    const { clock, timers, gatherMs, intervalMs } = this.#options;
    const sinceMs = clock.monotonicMs() - this.#lastRunMs;
    this.#callOff = timers.after(Math.max(gatherMs, intervalMs - sinceMs), () => this.#run());
  }

  close(): void {
    this.#isClosed = true;
    this.#callOff?.();
    this.#callOff = undefined;
  }

  /** A wish that comes up during the run makes another one. */
  #run(): void {
    this.#callOff = undefined;
    this.#lastRunMs = this.#options.clock.monotonicMs();
    this.#options.run();
  }
}
