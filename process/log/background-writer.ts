/** Writes the log to a file descriptor without keeping the main thread waiting. */
import { write, writeSync } from 'node:fs';
import { type Timers, unrefTimers } from '../time/clock.ts';

export interface BackgroundWriterOptions {
  readonly fd: number;
  /** The text that waits in memory while the descriptor takes nothing. Further lines are dropped. */
  readonly maxWaiting: number;
  readonly timers?: Timers;
  /** The two functions of `node:fs`. */
  readonly write?: (fd: number, bytes: Uint8Array, done: WriteDone) => void;
  readonly writeSync?: (fd: number, bytes: Uint8Array) => number;
}

type WriteDone = (error: NodeJS.ErrnoException | null, written: number) => void;

/** Chosen: a pipe that is full is tried again after this time, and given up at the end of the process after the longer one. */
const retryMs = 100;
const lastTryMs = 10;
const lastTries = 100;

/**
 * Writes lines in their order, one write at a time. Once nobody reads the descriptor any more (EPIPE), lines are dropped. pino's own
 * destination tries again for ever when it meets such a pipe at the end of the process, so that the process never ends.
 */
export class BackgroundWriter {
  readonly #options: Required<BackgroundWriterOptions>;
  #waiting = '';
  /** The bytes that are being written, or that are tried again later. */
  #underWay: Uint8Array | undefined;
  #isWriting = false;
  #isOver = false;

  constructor(options: BackgroundWriterOptions) {
    this.#options = { timers: unrefTimers, write, writeSync, ...options };
  }

  write(line: string): void {
    if (this.#isOver || this.#waiting.length + line.length > this.#options.maxWaiting) return;
    this.#waiting += line;
    if (this.#underWay === undefined) this.#next();
  }

  /** Writes what waits before this returns, at the end of the process. Gives up after a second if the descriptor takes nothing. */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const rest = this.#isWriting ? undefined : this.#underWay;
    let bytes: Uint8Array = Buffer.concat([rest ?? Buffer.alloc(0), Buffer.from(this.#waiting)]);
    this.#waiting = '';
    for (let tries = 0; bytes.length > 0 && tries < lastTries; ) {
      try {
        bytes = bytes.subarray(this.#options.writeSync(this.#options.fd, bytes));
      } catch (error) {
        if (!isBusy(error as NodeJS.ErrnoException)) return;
        tries += 1;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, lastTryMs);
      }
    }
  }

  #next(): void {
    const text = this.#waiting;
    this.#waiting = '';
    this.#underWay = undefined;
    if (text !== '') this.#send(Buffer.from(text));
  }

  #send(bytes: Uint8Array): void {
    if (this.#isOver) return;
    this.#underWay = bytes;
    this.#isWriting = true;
    this.#options.write(this.#options.fd, bytes, (error, written) => {
      this.#isWriting = false;
      if (error === null && written >= bytes.length) this.#next();
      else if (error === null) this.#send(bytes.subarray(written));
      else if (isBusy(error)) this.#options.timers.after(retryMs, () => this.#send(bytes));
      else {
        this.#isOver = true;
        this.#waiting = '';
      }
    });
  }
}

/** Whether the descriptor takes nothing now, as a full pipe that another process made non-blocking. */
function isBusy({ code }: NodeJS.ErrnoException): boolean {
  return code === 'EAGAIN' || code === 'EBUSY';
}
