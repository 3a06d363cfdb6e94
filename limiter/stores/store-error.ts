/** A store could not count. The message never holds credentials. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  /** Whether the same op may succeed a moment later. */
  readonly transient: boolean;

  constructor(message: string, options: { transient: boolean; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.transient = options.transient;
  }
}
