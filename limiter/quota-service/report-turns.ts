/**
 * Gives turns of the event loop to streams whose reports wait. One message may have thousands of reports, and callers of all methods
 * wait while they are processed. Addresses take turns, and so do the streams of one address, so a client with many reports delays only
 * itself.
 */
import type { Clock } from '../../process/time/clock.ts';
import { FairQueue } from '../../process/time/loop-turns.ts';

export interface ReportTaker {
  /** The client's address. */
  readonly group: string;
  /** The bytes of the waiting reports. */
  readonly waitingBytes: number;
  /** Takes in at most this many reports, until the given time, and returns how many. */
  takeReports(max: number, endMs: number): number;
  /** Ends the taker: too much waits, and most of it belongs to this one. */
  shed(): void;
}

/** Chosen: a message that begins may have this many reports again, so that few messages are spread over two turns, */
const reportsOfTurn = 128;
/** but takes no longer than this: an answer on a new connection waits for several turns. */
const turnMs = 2;
/** Chosen: a report of 100 bytes from each of as many buckets as one thread has. */
const maxBytes = 20_000_000;

export class ReportTurns {
  readonly #line = new FairQueue<ReportTaker>();
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  /** The reports left in this turn. */
  #left = reportsOfTurn;
  /** The bytes of all waiting reports. */
  #bytes = 0;

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock;
  }

  /** Adds waiting bytes of a message. The message may be taken in before this returns. */
  wait(taker: ReportTaker, bytes: number): void {
    this.#bytes += bytes;
    if (!this.#line.has(taker)) this.#line.add(taker);
    this.#deal();
    while (this.#bytes > maxBytes) {
      const max = this.#line.shed();
      if (max === undefined) return;
      this.#bytes -= max.waitingBytes;
      max.shed();
    }
  }

  leave(taker: ReportTaker): void {
    if (this.#line.remove(taker)) this.#bytes -= taker.waitingBytes;
  }

  #deal(): void {
    while (this.#left > 0) {
      const taker = this.#line.next();
      if (taker === undefined) return;
      // The first taker of this turn schedules the next turn.
      if (this.#left === reportsOfTurn) setImmediate(this.#nextTurn);
      this.#bytes -= taker.waitingBytes;
      const endMs = this.#clock.monotonicMs() + turnMs;
      this.#left -= Math.max(1, taker.takeReports(reportsOfTurn, endMs));
      if (this.#clock.monotonicMs() >= endMs) this.#left = 0;
      if (taker.waitingBytes === 0) continue;
      this.#bytes += taker.waitingBytes;
      this.#line.add(taker);
    }
  }

  readonly #nextTurn = (): void => {
    this.#left = reportsOfTurn;
    this.#deal();
  };
}
