/**
 * Deals out turns of the event loop to streams whose reports wait: one message may have thousands of them, and callers of all
 * methods wait while they are taken in. Addresses come in turn, and so do the streams of one: who reports much waits for himself.
 */
import type { Clock } from '../../process/time/clock.ts';
import { WaitingLine } from '../../process/time/loop-turns.ts';

export interface ReportTaker {
  /** Its address. */
  readonly group: string;
  /** Of reports that wait. */
  readonly waitingBytes: number;
  /** Takes in so many of its reports at most, until that time is over, and gives how many. */
  takeReports(most: number, endMs: number): number;
  /** Too much waits, and it waits with most: it ends. */
  shed(): void;
}

/** Chosen: one that begins may have so many again, so that few messages are in two turns, */
const reportsOfTurn = 128;
/** but takes no longer: an answer on a new connection waits for several turns. */
const turnMs = 2;
/** Chosen: a report of 100 bytes from each of as many buckets as one thread has. */
const mostBytes = 20_000_000;

export class ReportTurns {
  readonly #line = new WaitingLine<ReportTaker>();
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  /** Of this turn. */
  #left = reportsOfTurn;
  /** Of all that wait. */
  #bytes = 0;

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock;
  }

  /** A message of so many bytes waits from now on. It may be taken in before this returns. */
  wait(taker: ReportTaker, bytes: number): void {
    this.#bytes += bytes;
    if (!this.#line.has(taker)) this.#line.add(taker);
    this.#deal();
    while (this.#bytes > mostBytes) {
      const most = this.#line.shed();
      if (most === undefined) return;
      this.#bytes -= most.waitingBytes;
      most.shed();
    }
  }

  leave(taker: ReportTaker): void {
    if (this.#line.remove(taker)) this.#bytes -= taker.waitingBytes;
  }

  #deal(): void {
    while (this.#left > 0) {
      const taker = this.#line.next();
      if (taker === undefined) return;
      // The first of this turn.
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
