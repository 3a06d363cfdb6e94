/** A store could not count. The message never holds credentials. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  /** Whether the same op may succeed a moment later. */
  readonly transient: boolean;
  /**
   * The op certainly was not counted: nothing that counts was sent, or the server said that it ran nothing. False where
   * nobody can know, such as when its reply was lost.
   */
  readonly notCounted: boolean;

  constructor(message: string, options: { transient: boolean; notCounted?: boolean; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.transient = options.transient;
    this.notCounted = options.notCounted ?? false;
  }

  /** The same for an op of which more is known than when the error was made. */
  marked(notCounted: boolean): StoreError {
    if (notCounted === this.notCounted) return this;
    return new StoreError(this.message, { transient: this.transient, notCounted, cause: this.cause });
  }
}
