/** The queue of reviews with complete bodies, which are answered one at a time. Addresses take turns. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestMemory } from '../../process/http/http-connection.ts';
import { addressGroup } from '../../process/net/peer.ts';
import { FairQueue } from '../../process/queues/fair-queue.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';

/** Chosen: an API server with more unanswered reviews than this gives up on them before their turn comes. */
const maxWaiting = 64;

/**
 * `turn`: the work was done. `shed`: the review was dropped in favor of others, so its caller needs an answer. `gone`: its caller left.
 */
export type LineEnd = 'turn' | 'shed' | 'gone';

export interface WaitingCall {
  request: IncomingMessage;
  response: ServerResponse;
  memory: RequestMemory;
}

interface QueuedReview {
  readonly group: string;
  end(end: LineEnd): void;
}

export class ReviewLine {
  readonly #clock: Clock;
  readonly #timers: Timers;
  readonly #waiting = new FairQueue<QueuedReview>();
  #isBusy = false;

  constructor({ clock, timers }: { clock: Clock; timers: Timers }) {
    this.#clock = clock;
    this.#timers = timers;
  }

  /** Does the work when its turn comes, and then pauses for as long as the work took, so that limiters are served meanwhile. */
  async take(call: WaitingCall, bufferedBytes: number, work: () => Promise<void>): Promise<LineEnd> {
    const end = await this.#wait(call, bufferedBytes);
    if (end !== 'turn') return end;
    const startMs = this.#clock.monotonicMs();
    try {
      await work();
    } finally {
      this.#timers.after(this.#clock.monotonicMs() - startMs, () => {
        this.#isBusy = false;
        this.#next();
      });
    }
    return end;
  }

  #wait({ request, response, memory }: WaitingCall, bufferedBytes: number): Promise<LineEnd> {
    return new Promise((resolve) => {
      const leave = (): void => entry.end('gone');
      const entry: QueuedReview = {
        group: addressGroup(request.socket.remoteAddress),
        end: (end) => {
          this.#waiting.remove(entry);
          response.off('close', leave);
          memory.giveUp = undefined;
          memory.hold(0);
          resolve(end);
        },
      };
      if (response.destroyed) return resolve('gone');
      response.once('close', leave);
      this.#waiting.add(entry);
      memory.giveUp = () => entry.end('shed');
      // Holding this memory may end another review, or this one.
      memory.hold(bufferedBytes);
      if (this.#waiting.size > maxWaiting) this.#waiting.shed()?.end('shed');
      this.#next();
    });
  }

  #next(): void {
    if (this.#isBusy) return;
    const next = this.#waiting.next();
    if (next === undefined) return;
    this.#isBusy = true;
    next.end('turn');
  }
}
