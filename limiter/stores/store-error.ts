import { textForCallers } from './text-for-callers.ts';

/** A store could not count. The message never contains credentials. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  /** Whether the same operation may succeed a moment later. */
  readonly transient: boolean;
  /**
   * The operation was certainly not counted: nothing was sent, or the server answered that it executed nothing. False if this is
   * unknown, such as after a lost reply.
   */
  readonly notCounted: boolean;
  /**
   * The store was not asked, or did not answer, and nothing within it has noticed this yet. Such an error is no sign that the store
   * is available.
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

  /** The message without the addresses of the store, which only the log shows. */
  get textForCallers(): string {
    this.#textForCallers ??= textForCallers(this.message);
    return this.#textForCallers;
  }

  /** Copies the error for an operation about which more is known. */
  marked(notCounted: boolean): StoreError {
    if (notCounted === this.notCounted) return this;
    const { transient, unheard, cause } = this;
    return new StoreError(this.message, { transient, notCounted, unheard, cause });
  }
}
