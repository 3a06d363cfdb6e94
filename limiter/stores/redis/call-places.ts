/**
 * Bounds the calls that are under way to one Redis at a time. One connection carries them all, so what is a pool of
 * connections elsewhere is a number of places here: a call that finds none waits, in order, and what arrives meanwhile
 * is gathered into the calls behind it.
 */
import type { Timers } from '../../../process/timers.ts';

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
  refuse(call: Call, waitedMs: number): void;
}

interface Waiting<Call> {
  call: Call;
  callOff: () => void;
}

export class CallPlaces<Call> {
  readonly #options: CallPlacesOptions<Call>;
  /** Oldest first. */
  readonly #waiting = new Set<Waiting<Call>>();
  #taken = 0;

  constructor(options: CallPlacesOptions<Call>) {
    this.#options = options;
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
      this.#options.refuse(waiting.call, 0);
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
