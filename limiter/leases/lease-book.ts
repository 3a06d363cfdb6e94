/**
 * Leases: hits of a counter that a limiter takes in advance and spends by itself. The counter in Redis is charged with them at
 * once, so all limiters together never admit more than the limit, even if one of them ends.
 *
 * A ledger beside the counter records each limiter's last grant and reports. Every message to it, sent along with hits or alone,
 * reports how many of the granted hits were spent, gives back the rest, and may ask for as many as this limiter used in the last
 * second:
 *
 *         used twice in a second            answered                spent, and used again
 *   cold ------------------------> asking ------------> holding ---------------------------> asking
 *                                    |  \                  |  idle for a second, rules changed, the end
 *                      not answered  |   ------ reported <-----'
 *                                    '----> unsure: reported once more before anything else
 *
 * While a message is in flight nothing is spent, so that its report stays true. If the reply is lost, the ledger may hold a grant
 * of which nothing was spent. The next message gives all of it back, because each message reports the total that was spent. The
 * ledger recognizes an old message that arrives late by its number. Pure: time is passed in.
 */

import {
  type LeaseTerms,
  newLeaseTerms,
  newOperation,
  type Operation,
  plainCounter,
} from '../stores/operation.ts';
import { ledgerKeyOf } from '../stores/store.ts';
import type { StoreError } from '../stores/store-error.ts';

/** The last second is counted in this number of parts, including the current one, so the count may be too low, but never too high. */
const ticksPerSecond = 4;
export const tickMs = 1000 / ticksPerSecond;
/** Chosen: the number of counters that a sweep checks and gives back, unless all leases are to be given back. Callers wait meanwhile. */
const minLooks = 8_192;
export const returnsPerSweep = 1_024;
const sweepsPerRound = 2 * ticksPerSecond;

/** Chosen: how long a system may still send data that was written to a closed connection. */
const lateMs = 15 * 60_000;

/** A counter that was not used for this time is dropped. If there is no room, it may be dropped earlier, at most once a second. */
const rememberedTicks = 60 * ticksPerSecond;

/** The state of one counter in this limiter. Times are in ticks. */
interface Watched {
  readonly ledgerKey: string | undefined;
  readonly perSecond: boolean;
  /** The limit for which it has leases. Rules with other limits may share the counter. */
  limit: number;
  /** Hits that may be spent without a message. */
  held: number;
  /** The hits of the last grant, how many of them were spent, and how many of all earlier grants were spent. */
  granted: number;
  spent: number;
  spentBefore: number;
  /** The value of the counter after that grant. */
  top: number;
  /** The tick of the last use, and the hits in that tick and in each of the three before. */
  tick: number;
  used: number;
  used1: number;
  used2: number;
  used3: number;
  /** The message in flight. */
  asking: LeaseTerms | undefined;
  /** The maximum number of hits that the ledger may hold because of messages without a reply. */
  unsure: number;
  /** Whether the held hits are to be given back instead of spent. */
  ends: boolean;
  /** The last message had no reply. The next one is sent after `quietUntil`, as after an empty grant. */
  isUnanswered: boolean;
  quietUntil: number;
  /** The latest end of the counter's life, in milliseconds. */
  endMs: number;
}

export class LeaseBook {
  readonly #limiter: string;
  readonly #maxCounters: number;
  /** A counter with at most one hit in a second, as most counters have, only stores the tick of that hit. */
  readonly #watched = new Map<string, Watched | number>();
  /** Counters with a message in flight, and counters of which the ledger has a record. */
  readonly #listed = new Map<string, Watched>();
  /** The position at which the next sweep continues. */
  #round = this.#listed.entries();
  /** The counter of the last op that was not spent. */
  #found: Watched | undefined;
  #cleanedAt = 0;
  #tick = 0;
  /** The tick until which a message without a reply may still arrive. */
  #lateUntil = 0;
  #sequence = 0;
  /** Hits since the start. */
  granted = 0;
  spent = 0;
  returned = 0;
  lostAtMost = 0;
  /** Hits of counters that were not watched, because `maxCounters` others were. */
  unwatched = 0;

  /** `limiter`: its name in ledgers, unique to this thread of this limiter. */
  constructor({ limiter, maxCounters }: { limiter: string; maxCounters: number }) {
    this.#limiter = limiter;
    this.#maxCounters = maxCounters;
  }

  get counters(): number {
    return this.#watched.size;
  }

  /** The number of hits that are or may be held, including those of messages without a reply. */
  get outstanding(): number {
    let outstanding = 0;
    for (const one of this.#listed.values()) outstanding += outstandingOf(one);
    return outstanding;
  }

  /** The number of counters with a message in flight or with leases to give back. */
  get unsettled(): number {
    let unsettled = 0;
    for (const one of this.#listed.values()) if (one.asking !== undefined || isListed(one)) unsettled += 1;
    return unsettled;
  }

  /** Answers the op if the held hits cover it. The op must add at least one hit. */
  spend(op: Operation): boolean {
    const found = this.#watched.get(op.key);
    if (typeof found !== 'object') {
      this.#found = this.#watch(op, found);
      return false;
    }
    const { hits } = op;
    if (found.tick !== this.#tick) moveTo(found, this.#tick);
    found.used += hits;
    if (found.held < hits || found.limit !== op.counter.capacity) {
      this.#found = found;
      return false;
    }
    const held = found.held - hits;
    found.held = held;
    found.spent += hits;
    this.spent += hits;
    op.applied = hits;
    op.after = found.top - held;
    op.leased = held;
    op.fromLease = true;
    return true;
  }

  /** Whether a message may accompany an op that was just not spent. For most ops, this needs no clock. */
  mayAsk(op: Operation): boolean {
    if (op.verb === 'refund') return true;
    const one = this.#found;
    return one !== undefined && this.#maySend(one, op) && wanted(one, op) >= 2;
  }

  /**
   * Returns the message to send with such an op, or with a refund. Returns undefined if there is nothing to report. A refund never takes
   * hits that any limiter has leased.
   */
  ask(op: Operation, nowMs: number): LeaseTerms | undefined {
    this.moveTo(nowMs);
    const { counter, verb } = op;
    let one = this.#found;
    if (verb === 'refund') {
      const found = this.#watched.get(op.key);
      one = typeof found === 'object' ? found : undefined;
    }
    if (one !== undefined && this.#maySend(one, op)) {
      if (one.tick !== this.#tick) moveTo(one, this.#tick);
      const want = wanted(one, op);
      if (want >= 2 || (verb === 'refund' && isListed(one))) {
        one.limit = counter.capacity;
        one.endMs = Math.max(one.endMs, nowMs + op.ttlSeconds * 1000);
        this.#listed.set(op.key, one);
        return this.#message(one, want >= 2 ? want : 0, counter.maxLease);
      }
    }
    const ledgerKey = verb === 'refund' ? (one?.ledgerKey ?? ledgerKeyOf(op.key)) : undefined;
    return ledgerKey === undefined ? undefined : newLeaseTerms({ ledgerKey, limiter: this.#limiter });
  }

  #maySend({ asking, quietUntil, ledgerKey, held, limit }: Watched, op: Operation): boolean {
    const isQuiet = asking !== undefined || quietUntil > this.#tick || ledgerKey === undefined;
    return !isQuiet && (held === 0 || limit === op.counter.capacity);
  }

  /** Handles the result of a message. If a message is known to be lost, or another one has followed, its result was handled before. */
  answered(key: string, ask: LeaseTerms, error: StoreError | undefined): void {
    const one = this.#listed.get(key);
    if (one === undefined || one.asking !== ask) return;
    one.asking = undefined;
    const unspent = one.granted - one.spent;
    if (error === undefined && ask.granted >= 0) {
      this.returned += unspent;
      this.granted += ask.granted;
      one.granted = ask.granted;
      one.spentBefore += one.spent;
      one.spent = 0;
      one.held = one.ends ? 0 : ask.granted;
      one.top = ask.top;
      one.unsure = 0;
      one.isUnanswered = false;
      if (ask.granted === 0) one.quietUntil = this.#tick + 1;
      return;
    }
    one.isUnanswered = true;
    one.quietUntil = this.#tick + (ask.want > 0 ? 1 : ticksPerSecond);
    if (error === undefined || error.notCounted) {
      // The message did not reach the ledger.
      one.held = one.ends || one.unsure > 0 ? 0 : unspent;
    } else {
      one.unsure = Math.max(one.unsure, unspent, ask.want);
      this.#lateUntil = this.#tick + lateMs / tickMs;
    }
  }

  /** Ends all leases: they are no longer spent, and the next sweep gives them back. */
  endAll(): void {
    for (const one of this.#listed.values()) end(one);
  }

  /**
   * Called when the counter and its ledger were reset. Grants of the old ledger are neither spent nor returned to the new one. A message
   * in flight may have reached either ledger; the next one gives back hits of which only the new ledger can have a record.
   */
  cancel(key: string): void {
    const one = this.#listed.get(key);
    if (one !== undefined) end(one);
  }

  /**
   * Called once a tick. Returns the messages that give back leases that were idle for a second. If there are many leases, some wait for
   * the next sweeps, unless `isLast`.
   */
  sweep(nowMs: number, isLast = false): Operation[] {
    this.moveTo(nowMs);
    const messages: Operation[] = [];
    if (this.#tick - this.#cleanedAt >= rememberedTicks) this.#forget(rememberedTicks);
    if (isLast) this.#round = this.#listed.entries();
    let looks = Math.max(minLooks, Math.ceil(this.#listed.size / sweepsPerRound));
    for (const [key, one] of this.#round) {
      const message = this.#dueOf(key, one, nowMs);
      if (message !== undefined) messages.push(message);
      looks -= 1;
      if (!isLast && (looks === 0 || messages.length === returnsPerSweep)) return messages;
    }
    this.#round = this.#listed.entries();
    return messages;
  }

  /** Returns the message that is due for a counter now. */
  #dueOf(key: string, one: Watched, nowMs: number): Operation | undefined {
    if (one.asking !== undefined) return undefined;
    if (!isListed(one)) {
      one.ends = false;
      this.#listed.delete(key);
      return undefined;
    }
    const isIdle = this.#tick - one.tick > ticksPerSecond;
    if (!isIdle && !one.ends && one.unsure === 0) return undefined;
    if (nowMs >= one.endMs) this.#giveUp(key, one);
    else if (one.quietUntil <= this.#tick) return this.#returnOf(key, one, nowMs);
    return undefined;
  }

  /** Ends the book. Nothing is given back any more. */
  close(): void {
    this.lostAtMost += this.outstanding;
    this.#listed.clear();
    this.#watched.clear();
  }

  /** Hits from now on count in this tick. A clock that is read late makes hits look older, never younger. */
  moveTo(nowMs: number): void {
    this.#tick = Math.max(this.#tick, Math.floor(nowMs / tickMs));
  }

  /** Watches a counter after a first use, or after a pause; `usedAt` is the tick of the use before. */
  #watch(op: Operation, usedAt: number | undefined): Watched | undefined {
    const tick = this.#tick;
    const ago = usedAt === undefined ? ticksPerSecond : tick - usedAt;
    if (usedAt === undefined && !this.#hasRoom()) {
      this.unwatched += op.hits;
      return undefined;
    }
    if (ago >= ticksPerSecond && op.hits === 1) {
      this.#watched.set(op.key, tick);
      return undefined;
    }
    const one: Watched = {
      ledgerKey: ledgerKeyOf(op.key),
      perSecond: op.counter.perSecond,
      limit: op.counter.capacity,
      held: 0,
      granted: 0,
      spent: 0,
      spentBefore: 0,
      top: 0,
      tick,
      used: op.hits + (ago === 0 ? 1 : 0),
      used1: ago === 1 ? 1 : 0,
      used2: ago === 2 ? 1 : 0,
      used3: ago === 3 ? 1 : 0,
      asking: undefined,
      unsure: 0,
      ends: false,
      isUnanswered: false,
      quietUntil: 0,
      endMs: 0,
    };
    this.#watched.set(op.key, one);
    return one;
  }

  #hasRoom(): boolean {
    if (this.#watched.size < this.#maxCounters) return true;
    if (this.#tick - this.#cleanedAt >= ticksPerSecond) this.#forget(ticksPerSecond);
    return this.#watched.size < this.#maxCounters;
  }

  /** Forgets counters that have been idle for longer. */
  #forget(ticks: number): void {
    this.#cleanedAt = this.#tick;
    for (const [key, one] of this.#watched) {
      const usedAt = typeof one === 'object' ? one.tick : one;
      if (this.#tick - usedAt > ticks && !this.#listed.has(key)) this.#watched.delete(key);
    }
  }

  #message(one: Watched, want: number, max: number): LeaseTerms {
    this.#sequence += 1;
    const ask = newLeaseTerms({
      ledgerKey: one.ledgerKey!,
      limiter: this.#limiter,
      sequence: this.#sequence,
      spent: one.spentBefore + one.spent,
      want,
      max,
      limit: one.limit,
      forgets: this.#tick >= this.#lateUntil,
    });
    one.held = 0;
    // Hits that were to be given back are not spent, even if the message is lost.
    if (one.ends) one.unsure = Math.max(one.unsure, one.granted - one.spent);
    one.ends = false;
    one.asking = ask;
    return ask;
  }

  #returnOf(key: string, one: Watched, nowMs: number): Operation {
    const { perSecond, limit: capacity, endMs } = one;
    const ttlSeconds = Math.max(1, Math.ceil((endMs - nowMs) / 1000));
    const message = newOperation(plainCounter(key, { perSecond, capacity }), key, 'add', 0, ttlSeconds);
    message.lease = this.#message(one, 0, 0);
    return message;
  }

  #giveUp(key: string, one: Watched): void {
    if (one.isUnanswered) this.lostAtMost += outstandingOf(one);
    else this.returned += one.granted - one.spent;
    this.#listed.delete(key);
    this.#watched.delete(key);
  }
}

/** Ends the leases of a counter: they are no longer spent, and the next sweep gives them back. */
function end(one: Watched): void {
  one.held = 0;
  one.quietUntil = 0;
  one.ends = one.asking !== undefined || isListed(one);
}

/** Returns the hits of the last second, up to the maximum that may be leased. */
function wanted(one: Watched, op: Operation): number {
  return Math.min(one.used + one.used1 + one.used2 + one.used3, op.counter.maxLease);
}

/** Returns the maximum number of hits that the ledger may still charge to this limiter. */
function outstandingOf({ granted, spent, unsure }: Watched): number {
  return Math.max(granted - spent, unsure);
}

/** Whether the ledger has a record of this limiter, as far as is known here. */
function isListed({ granted, unsure }: Watched): boolean {
  return granted > 0 || unsure > 0;
}

function moveTo(one: Watched, tick: number): void {
  const passed = tick - one.tick;
  one.used3 = passed === 1 ? one.used2 : passed === 2 ? one.used1 : passed === 3 ? one.used : 0;
  one.used2 = passed === 1 ? one.used1 : passed === 2 ? one.used : 0;
  one.used1 = passed === 1 ? one.used : 0;
  one.used = 0;
  one.tick = tick;
}
