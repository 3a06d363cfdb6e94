/**
 * Bounds what waits in memory for the network: a response is copied for its stream when its turn has come, and is
 * free again when the transport took all of it. Who does not read loses its hold on the bound after a moment, so that
 * nobody waits for the slow; that nobody is slow for ever is up to the stream.
 */
import type { Timers } from '../../process/time/clock.ts';

export interface Sender {
  /** Of what it would send now; 0 when nothing is due any more. */
  dueBytes(): number;
  /** Its turn; calls `taken` when the transport took everything, or not at all where the stream is gone. */
  send(taken: () => void): void;
}

export interface SendTurnsOptions {
  timers: Timers;
  /** One response may go beyond it alone. */
  maxBytes: number;
  /** How long a response counts that is not taken. */
  patienceMs: number;
}

export class SendTurns {
  readonly #options: SendTurnsOptions;
  /** In the order in which they asked. */
  readonly #waiting = new Set<Sender>();
  #heldBytes = 0;
  #isRunning = false;

  constructor(options: SendTurnsOptions) {
    this.#options = options;
  }

  /** Asking again before the turn changes nothing. */
  ask(sender: Sender): void {
    this.#waiting.add(sender);
    this.#run();
  }

  #run(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    try {
      for (const sender of this.#waiting) {
        const bytes = sender.dueBytes();
        if (this.#heldBytes > 0 && this.#heldBytes + bytes > this.#options.maxBytes) break;
        this.#waiting.delete(sender);
        if (bytes > 0) sender.send(this.#hold(bytes));
      }
    } finally {
      this.#isRunning = false;
    }
  }

  /** Returns what lets go of them, once. */
  #hold(bytes: number): () => void {
    let isHeld = true;
    const release = (): void => {
      if (!isHeld) return;
      isHeld = false;
      callOff();
      this.#heldBytes -= bytes;
      this.#run();
    };
    this.#heldBytes += bytes;
    const callOff = this.#options.timers.after(this.#options.patienceMs, release);
    return release;
  }
}
