/** A store could not count. The message never contains credentials. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  /** Whether the same operation may succeed a moment later. */
  readonly transient: boolean;
  /**
   * Whether the operation was certainly not counted: nothing was sent, or the server answered that it did not execute it. False if this
   * is unknown, for example after a lost reply.
   */
  readonly notCounted: boolean;
  /**
   * Whether the store was not asked, or did not answer, and nothing in it has noticed this yet. Such an error does not show that the
   * store is available.
   */
  readonly noAnswer: boolean;
  #textForCallers: string | undefined;

  constructor(
    message: string,
    options: { transient: boolean; notCounted?: boolean; noAnswer?: boolean; cause?: unknown },
  ) {
    super(message, { cause: options.cause });
    this.transient = options.transient;
    this.notCounted = options.notCounted ?? false;
    this.noAnswer = options.noAnswer ?? false;
  }

  /** The message without the addresses of the store, which only the log shows. */
  get textForCallers(): string {
    this.#textForCallers ??= textForCallers(this.message);
    return this.#textForCallers;
  }

  /** Copies the error for an operation for which more is known. */
  marked(notCounted: boolean): StoreError {
    if (notCounted === this.notCounted) return this;
    const { transient, noAnswer, cause } = this;
    return new StoreError(this.message, { transient, notCounted, noAnswer, cause });
  }
}

const ipv4 = String.raw`\d{1,3}(?:\.\d{1,3}){3}`;
const ipv6 = String.raw`\[[0-9a-f:.%]+\]|(?<![\w:])(?:[0-9a-f]{0,4}:){2,}[0-9a-f:.]*`;
/** A name counts as an address if a port follows it. */
const named = String.raw`[\w-]+(?:\.[\w-]+)*\.?(?=:\d{1,5}\b)`;
const address = new RegExp(`(?:${ipv6}|${ipv4}|${named})(?::\\d{1,5}\\b)?`, 'gi');

/** Returns the text without addresses and host names. A caller learns only the kind of failure; the log also shows where the store is. */
export function textForCallers(text: string): string {
  return (
    text
      // TLS errors list the names in the certificate.
      .replace(/\b(certificate's altnames)\b.*/s, '$1')
      .replace(/\b(getaddrinfo|query[A-Z]\w*) (E?[A-Z_]+) \S+/g, '$1 $2')
      .replace(/\b(connect E[A-Z]+) \S+/g, '$1')
      .replace(address, '(address)')
      .replace(/(?<![\w)])\/[\w.-]+(?:\/[\w.-]+)+/g, '(path)')
  );
}
