import { errorText } from '../log/error-text.ts';

/** A value that is read from files at each use. While they cannot be used, the last good value stays. */
export class LastGoodValue<Value> {
  readonly #read: (before: Value | undefined) => Value;
  readonly #rejected: (reason: string) => void;
  #value: Value;
  /** Undefined while the files are valid. */
  #problem: string | undefined;

  /**
   * `read` receives the previous value, and throws an Error that names the file at fault; the constructor throws it, too. `rejected` is
   * called once for each such reason.
   */
  constructor(read: (before: Value | undefined) => Value, rejected: (reason: string) => void) {
    this.#read = read;
    this.#rejected = rejected;
    this.#value = read(undefined);
  }

  current(): Value {
    try {
      this.#value = this.#read(this.#value);
      this.#problem = undefined;
    } catch (error) {
      const reason = errorText(error);
      if (reason !== this.#problem) this.#rejected(reason);
      this.#problem = reason;
    }
    return this.#value;
  }
}
