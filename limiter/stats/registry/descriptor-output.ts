/**
 * Writes to a file descriptor off the event loop, one piece at a time: process.stdout would hold up the whole process
 * while nobody empties the pipe behind it.
 */
import { EventEmitter } from 'node:events';
import { write } from 'node:fs';

/** What is needed of a stream. It emits `drain` when it likes to have more. */
export interface OutputStream extends EventEmitter {
  /** False when it has more to write than it likes. */
  write(text: string): boolean;
  /** Settles when all is written, or cannot be. */
  settled(): Promise<void>;
}

/** As much may wait before it says that it has enough. */
const waitingLength = 64 * 1024;
/** After a reader that is not ready. */
const retryMs = 50;

export class DescriptorOutput extends EventEmitter implements OutputStream {
  readonly #descriptor: number;
  #waiting = '';
  #isWriting = false;
  #isBroken = false;
  #settle: (() => void)[] = [];

  constructor(descriptor: number) {
    super();
    this.#descriptor = descriptor;
  }

  write(text: string): boolean {
    if (this.#isBroken) return true;
    this.#waiting += text;
    if (!this.#isWriting) this.#writeWaiting();
    return this.#waiting.length <= waitingLength;
  }

  settled(): Promise<void> {
    if (!this.#isWriting) return Promise.resolve();
    return new Promise((resolve) => this.#settle.push(resolve));
  }

  #writeWaiting(): void {
    if (this.#waiting === '') {
      this.#isWriting = false;
      this.emit('drain');
      for (const settle of this.#settle.splice(0)) settle();
      return;
    }
    this.#isWriting = true;
    const bytes = Buffer.from(this.#waiting);
    this.#waiting = '';
    this.#writeBytes(bytes);
  }

  #writeBytes(bytes: Buffer): void {
    write(this.#descriptor, bytes, (error, written) => {
      if (error?.code === 'EAGAIN') {
        setTimeout(() => this.#writeBytes(bytes), retryMs);
        return;
      }
      // Nobody will ever read what is written now.
      if (error) this.#isBroken = true;
      if (this.#isBroken) this.#waiting = '';
      if (error || written === bytes.length) this.#writeWaiting();
      else this.#writeBytes(bytes.subarray(written));
    });
  }
}
