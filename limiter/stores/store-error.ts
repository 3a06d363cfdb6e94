import { textForCallers } from './text-for-callers.ts';

/** A store could not count. The message never holds credentials. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  /** Whether the same operation may succeed a moment later. */
  readonly transient: boolean;
  /**
   * The operation certainly was not counted: nothing that counts was sent, or the server said that it ran nothing. False where
   * nobody can know, such as when its reply was lost.
   */
  readonly notCounted: boolean;
  /**
   * Nobody asked the store, or it said nothing, and nothing within it has drawn a conclusion from that: such an error is
   * no sign that the store is there.
   */
  readonly unheard: boolean;
  #textForCallers: string | undefined;

  constructor(
    message: string,
    options: { transient: boolean; notCounted?: boolean; unheard?: boolean; cause?: unknown },
  ) {
    super(message, { cause: options.cause });
    this.transient = options.transient;
    this.notCounted = options.notCounted ?? false;
    this.unheard = options.unheard ?? false;
  }

  /** The message without the addresses of the store, which are for the log alone. */
  get textForCallers(): string {
    this.#textForCallers ??= textForCallers(this.message);
    return this.#textForCallers;
  }

  /** The same for an operation of which more is known than when the error was made. */
  marked(notCounted: boolean): StoreError {
    if (notCounted === this.notCounted) return this;
    const { transient, unheard, cause } = this;
    return new StoreError(this.message, { transient, notCounted, unheard, cause });
  }
}
