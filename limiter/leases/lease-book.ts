/**
 * Leases: hits of a counter that a limiter takes ahead and spends by itself. The counter in Redis is charged with them at
 * once, so all limiters together never admit more than the limit, whatever becomes of one of them.
 *
 * A ledger beside the counter says what each limiter was granted last and has not reported since. Every message to it, sent
 * along with hits or alone, says how many of those were spent, gives back the rest, and may ask for as many as this limiter
 * used in the last second:
 *
 *         used twice in a second            answered                spent, and used again
 *   cold ------------------------> asking ------------> holding ---------------------------> asking
 *                                    |  \                  |  idle for a second, rules changed, the end
 *                      not answered  |   ------ reported <-----'
 *                                    '----> unsure: reported once more before anything else
 *
 * While a message is under way nothing is spent, so that what it reported stays true. When its reply is lost the ledger may hold
 * what it granted, of which nothing was spent: the next message says so, as each says what was spent in all, and gives all of it
 * back. An old message that comes late is known by its number. Pure: time is passed in.
 */
import { ledgerKeyOf } from '../allocate/ledger.ts';
import {
  type LeaseTerms,
  newLeaseTerms,
  newOperation,
  type Operation,
  plainCounter,
} from '../stores/operation.ts';
import type { StoreError } from '../stores/store-error.ts';

/** The last second is counted in so many parts, the present one among them: less than what was used in it, never more. */
const ticksPerSecond = 4;
export const tickMs = 1000 / ticksPerSecond;
/** Chosen: what a sweep looks at and gives back, unless all is to go: callers wait meanwhile. */
const leastLooks = 8_192;
export const returnsPerSweep = 1_024;
const sweepsPerRound = 2 * ticksPerSecond;

/** Chosen: how long a system may go on sending what was written to a connection that was given up. */
const lateMs = 15 * 60_000;

/** A counter that nobody used for so long is forgotten; sooner for want of room, once a second at most. */
const rememberedTicks = 60 * ticksPerSecond;

/** What this limiter knows of one counter. Times are in ticks. */
interface Watched {
  readonly ledgerKey: string | undefined;
  readonly perSecond: boolean;
  /** For which its leases are. Rules with other limits may share the counter. */
  limit: number;
  /** Hits that may be spent without asking. */
  held: number;
  /** Of the last grant what it granted, and how much of that was spent; and what was spent of all grants before. */
  granted: number;
  spent: number;
  spentBefore: number;
  /** The counter after that grant. */
  top: number;
  /** When it was used last, and how many hits in that tick and each of the three before. */
  tick: number;
  used: number;
  used1: number;
  used2: number;
  used3: number;
  /** The message under way. */
  asking: LeaseTerms | undefined;
  /** The most that the ledger may hold by messages of which no answer came. */
  unsure: number;
  /** What it holds is to be given back, not spent. */
  ends: boolean;
  /** The last message was not answered. Until then none is sent; nor after one that was granted nothing. */
  unheard: boolean;
  quietUntil: number;
  /** When the counter's life is over at the latest, in milliseconds. */
  endMs: number;
}

export class LeaseBook {
  readonly #limiter: string;
  readonly #maxCounters: number;
  /** Of a counter with no more than one hit in a second, as most are, only when that was. */
  readonly #watched = new Map<string, Watched | number>();
  /** Those with a message under way, and those that the ledger knows of. */
  readonly #listed = new Map<string, Watched>();
  /** Where the next sweep goes on. */
  #round = this.#listed.entries();
  /** What the last op that was not spent is about. */
  #found: Watched | undefined;
  #cleanedAt = 0;
  #tick = 0;
  /** Until then a message that was not answered may still arrive. */
  #lateUntil = 0;
  #sequence = 0;
  /** Hits, since the start. */
  granted = 0;
  spent = 0;
  returned = 0;
  lostAtMost = 0;
  /** Hits of counters that were not watched, as `maxCounters` others were. */
  unwatched = 0;

  /** `limiter`: its name in ledgers, which no other limiter has, and no other thread. */
  constructor({ limiter, maxCounters }: { limiter: string; maxCounters: number }) {
    this.#limiter = limiter;
    this.#maxCounters = maxCounters;
  }

  get counters(): number {
    return this.#watched.size;
  }

  /** Hits that are held, or may be: those of messages without an answer among them. */
  get outstanding(): number {
    let outstanding = 0;
    for (const one of this.#listed.values()) outstanding += outstandingOf(one);
    return outstanding;
  }

  /** Messages under way, and leases to be given back. */
  get unsettled(): number {
    let unsettled = 0;
    for (const one of this.#listed.values()) if (one.asking !== undefined || isListed(one)) unsettled += 1;
    return unsettled;
  }

  /** Answers the op where what is held covers it: hits that are added, and more than none. */
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

  /** Whether there is anything to report along with an op that was just not spent; the clock need not be read for most. */
  mayAsk(op: Operation): boolean {
    if (op.verb === 'refund') return true;
    const one = this.#found;
    return one !== undefined && this.#maySend(one, op) && wanted(one, op) >= 2;
  }

  /**
   * The message to go along with such an op, or with one that takes back: undefined where there is nothing to report. Hits that
   * are taken back stop at what is leased, no matter who holds it.
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
        return this.#message(one, want >= 2 ? want : 0, counter.leaseMost);
      }
    }
    const ledgerKey = verb === 'refund' ? (one?.ledgerKey ?? ledgerKeyOf(op.key)) : undefined;
    return ledgerKey === undefined ? undefined : newLeaseTerms({ ledgerKey, limiter: this.#limiter });
  }

  #maySend({ asking, quietUntil, ledgerKey, held, limit }: Watched, op: Operation): boolean {
    const isQuiet = asking !== undefined || quietUntil > this.#tick || ledgerKey === undefined;
    return !isQuiet && (held === 0 || limit === op.counter.capacity);
  }

  /** What became of a message. One that is known to be lost, or that another one followed, has been reported before. */
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
      one.unheard = false;
      if (ask.granted === 0) one.quietUntil = this.#tick + 1;
      return;
    }
    one.unheard = true;
    one.quietUntil = this.#tick + (ask.want > 0 ? 1 : ticksPerSecond);
    if (error === undefined || error.notCounted) {
      // The ledger did not hear of it.
      one.held = one.ends || one.unsure > 0 ? 0 : unspent;
    } else {
      one.unsure = Math.max(one.unsure, unspent, ask.want);
      this.#lateUntil = this.#tick + lateMs / tickMs;
    }
  }

  /** Ends all leases: they are no longer spent, and go back with the next sweep. */
  endAll(): void {
    for (const one of this.#listed.values()) end(one);
  }

  /**
   * The counter was reset, its ledger with it: what it granted is not spent on the one that follows, nor given back to it. A message
   * that was under way may have reached either; the next one gives back what only the new ledger can know of.
   */
  cancel(key: string): void {
    const one = this.#listed.get(key);
    if (one !== undefined) end(one);
  }

  /**
   * Once a tick: the messages that give back leases that are idle for a second. Of many leases it leaves some to the next sweeps;
   * none where `isLast`.
   */
  sweep(nowMs: number, isLast = false): Operation[] {
    this.moveTo(nowMs);
    const messages: Operation[] = [];
    if (this.#tick - this.#cleanedAt >= rememberedTicks) this.#forget(rememberedTicks);
    if (isLast) this.#round = this.#listed.entries();
    let looks = Math.max(leastLooks, Math.ceil(this.#listed.size / sweepsPerRound));
    for (const [key, one] of this.#round) {
      const message = this.#dueOf(key, one, nowMs);
      if (message !== undefined) messages.push(message);
      looks -= 1;
      if (!isLast && (looks === 0 || messages.length === returnsPerSweep)) return messages;
    }
    this.#round = this.#listed.entries();
    return messages;
  }

  /** What is to be notified of a counter now. */
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

  /** Nothing goes back any more. */
  close(): void {
    this.lostAtMost += this.outstanding;
    this.#listed.clear();
    this.#watched.clear();
  }

  /** What is used from now on is used in this tick. A clock that is read late counts hits as older, never as younger. */
  moveTo(nowMs: number): void {
    this.#tick = Math.max(this.#tick, Math.floor(nowMs / tickMs));
  }

  /** After a first use, or the first one for a while; `usedAt` is when the one before was. */
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
      unheard: false,
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

  /** Those that are idle for longer. */
  #forget(ticks: number): void {
    this.#cleanedAt = this.#tick;
    for (const [key, one] of this.#watched) {
      const usedAt = typeof one === 'object' ? one.tick : one;
      if (this.#tick - usedAt > ticks && !this.#listed.has(key)) this.#watched.delete(key);
    }
  }

  #message(one: Watched, want: number, most: number): LeaseTerms {
    this.#sequence += 1;
    const ask = newLeaseTerms({
      ledgerKey: one.ledgerKey!,
      limiter: this.#limiter,
      sequence: this.#sequence,
      spent: one.spentBefore + one.spent,
      want,
      most,
      limit: one.limit,
      forgets: this.#tick >= this.#lateUntil,
    });
    one.held = 0;
    // What was to end is not spent even if nobody hears of it.
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
    if (one.unheard) this.lostAtMost += outstandingOf(one);
    else this.returned += one.granted - one.spent;
    this.#listed.delete(key);
    this.#watched.delete(key);
  }
}

/** It is no longer spent, and goes back with the next sweep. */
function end(one: Watched): void {
  one.held = 0;
  one.quietUntil = 0;
  one.ends = one.asking !== undefined || isListed(one);
}

/** What was used of it in the last second, as far as it may be leased. */
function wanted(one: Watched, op: Operation): number {
  return Math.min(one.used + one.used1 + one.used2 + one.used3, op.counter.leaseMost);
}

/** What the ledger may still charge to this limiter. */
function outstandingOf({ granted, spent, unsure }: Watched): number {
  return Math.max(granted - spent, unsure);
}

/** The ledger knows something of this limiter, as far as that is known here. */
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
