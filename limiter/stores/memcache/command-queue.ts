import type { StoreError } from '../store-error.ts';
import type { Command } from './command.ts';

interface Waiting {
  readonly command: Command;
  readonly sentMs: number;
}

/** Commands in the order of their replies, with the bytes they hold. */
export class CommandQueue {
  #waiting: (Waiting | undefined)[] = [];
  #head = 0;
  #bytes = 0;

  get size(): number {
    return this.#waiting.length - this.#head;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get first(): Command | undefined {
    return this.#waiting[this.#head]?.command;
  }

  /** Since when the first one waits. */
  get firstMs(): number | undefined {
    return this.#waiting[this.#head]?.sentMs;
  }

  push(command: Command, sentMs: number): void {
    this.#waiting.push({ command, sentMs });
    this.#bytes += command.text.length;
  }

  shift(): void {
    const first = this.first;
    if (first === undefined) return;
    this.#bytes -= first.text.length;
    this.#waiting[this.#head] = undefined;
    this.#head += 1;
    if (this.#head < 1024 && this.#head < this.#waiting.length) return;
    this.#waiting = this.#waiting.slice(this.#head);
    this.#head = 0;
  }

  /** The text of all of them, as it is sent. */
  text(): string {
    return this.#waiting
      .slice(this.#head)
      .map((one) => one?.command.text)
      .join('');
  }

  /** Empties the queue and tells every command. */
  fail(error: StoreError): void {
    const failed = this.#waiting.slice(this.#head);
    this.#waiting = [];
    this.#head = 0;
    this.#bytes = 0;
    for (const one of failed) one?.command.onError(error);
  }
}
