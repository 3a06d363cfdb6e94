/**
 * Bounds the calls that are under way to one Redis at a time. One connection carries them all, so what is a pool of
 * connections elsewhere is a number of places here: a call that finds none waits, in order, and what arrives meanwhile
 * is gathered into the calls behind it.
 */
import type { Timers } from '../../../process/time/clock.ts';
import type { StoreError } from '../counter-store.ts';
import type { PlainCounting } from './plain-counting.ts';
import type { RedisErrors } from './redis-error.ts';
import type { RedisScript } from './scripts.ts';

/** What becomes of a call that has waited long enough: it goes out beyond the bound, it fails, or it waits on. */
export type WhenPoolIsEmpty = 'CREATE' | 'ERROR' | 'WAIT';

export interface CallBounds {
  /** Calls under way at a time. At least 1. */
  places: number;
  whenEmpty: WhenPoolIsEmpty;
  /** With CREATE and ERROR. */
  waitMs: number;
}

/** Of the Go service without any settings. */
export const usualCallBounds: CallBounds = { places: 10, whenEmpty: 'CREATE', waitMs: 1_000 };

export interface CallPlacesOptions<Call> extends CallBounds {
  /** With WAIT, and for the others at most: then a call fails. */
  timeoutMs: number;
  timers: Timers;
  /** The call has a place until `free`. */
  go(call: Call): void;
  /** `waitedMs` is undefined when the places are being closed. */
  refuse(call: Call, waitedMs: number | undefined): void;
}

interface Waiting<Call> {
  call: Call;
  callOff: () => void;
}

/** Values of `ratelimit.redis_pool.calls_active`, `calls_waiting` and `calls_refused`. */
export type CallCounts = Readonly<Record<'active' | 'waiting' | 'refused', number>>;

export class CallPlaces<Call> {
  readonly #options: CallPlacesOptions<Call>;
  /** Oldest first. */
  readonly #waiting = new Set<Waiting<Call>>();
  #taken = 0;
  #refused = 0;

  constructor(options: CallPlacesOptions<Call>) {
    this.#options = options;
  }

  /** Calls under way, those beyond the bound too. */
  get active(): number {
    return this.#taken;
  }

  /** Calls that found no place in time, since the start. */
  get refused(): number {
    return this.#refused;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  take(call: Call): void {
    if (this.#taken >= this.#options.places) {
      this.#wait(call);
      return;
    }
    this.#taken += 1;
    this.#options.go(call);
  }

  /** Once for each `go`. */
  free(): void {
    this.#taken -= 1;
    if (this.#waiting.size === 0 || this.#taken >= this.#options.places) return;
    for (const oldest of this.#waiting) {
      this.#leave(oldest);
      this.take(oldest.call);
      return;
    }
  }

  /** Refuses what waits. */
  close(): void {
    for (const waiting of [...this.#waiting]) {
      this.#leave(waiting);
      this.#options.refuse(waiting.call, undefined);
    }
  }

  #wait(call: Call): void {
    const { whenEmpty, waitMs, timeoutMs, timers } = this.#options;
    const mostMs = whenEmpty === 'WAIT' ? timeoutMs : Math.min(waitMs, timeoutMs);
    const waiting: Waiting<Call> = { call, callOff: () => {} };
    waiting.callOff = timers.after(mostMs, () => {
      this.#waiting.delete(waiting);
      if (whenEmpty === 'CREATE') {
        this.#taken += 1;
        this.#options.go(call);
      } else {
        this.#refused += 1;
        this.#options.refuse(call, mostMs);
      }
    });
    this.#waiting.add(waiting);
  }

  #leave(waiting: Waiting<Call>): void {
    waiting.callOff();
    this.#waiting.delete(waiting);
  }
}

/** More would hold up Redis's other users: it does nothing else while a script runs. */
export const maxKeysPerCall = 512;

/** One `submit`, until every call that carries a part of it is answered. */
export interface PendingRequest {
  callsLeft: number;
  done: () => void;
}

/** What goes out in one script call. */
export interface Batch {
  readonly script: RedisScript;
  /** Asked right before it is sent: answers the ops whose callers gave up, and drops them. False when none is left. */
  leaveOutAbandoned(): boolean;
  /** Arguments after the script itself: the number of keys, the keys, the rest. */
  toArgs(): string[];
  /** Writes the answers; false when the reply is not what the script gives, and nothing was written. */
  answer(reply: unknown, errors: RedisErrors): boolean;
  fail(error: StoreError): void;
  /** Counts and answers without a script. Never rejects. */
  countPlainly(plain: PlainCounting): Promise<void>;
  readonly requests: readonly PendingRequest[];
}

/** Tells those requests that wait for nothing else any more: all of them, even when one throws, which is thrown then. */
export function settle(batch: Batch): void {
  let thrown: { error: unknown } | undefined;
  for (const request of batch.requests) {
    request.callsLeft -= 1;
    if (request.callsLeft > 0) continue;
    try {
      request.done();
    } catch (error) {
      thrown ??= { error };
    }
  }
  if (thrown !== undefined) throw thrown.error;
}

/** A number of a script's reply; undefined for the error of one key. Beyond 2^52 the scripts write it as text. */
export function replyNumber(reply: unknown): number | undefined {
  if (typeof reply === 'number') return reply;
  return reply instanceof Buffer ? Number(reply.toString('latin1')) : undefined;
}
