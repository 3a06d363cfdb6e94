import { errorText } from '../log/error-text.ts';

/** A value that is read from files at each use. While they cannot be used, the last good value stays. */
export class LastGoodValue<Value> {
  readonly #read: (before: Value | undefined) => Value;
  readonly #refused: (reason: string) => void;
  #value: Value;
  /** Undefined while the files are valid. */
  #problem: string | undefined;

  /**
   * `read` receives the previous value, and throws an Error that names the file at fault; the constructor throws it, too. `refused` is
   * called once for each such reason.
   */
  constructor(read: (before: Value | undefined) => Value, refused: (reason: string) => void) {
    this.#read = read;
    this.#refused = refused;
    this.#value = read(undefined);
  }

  current(): Value {
    try {
      this.#value = this.#read(this.#value);
      this.#problem = undefined;
    } catch (error) {
      const reason = errorText(error);
      if (reason !== this.#problem) this.#refused(reason);
      this.#problem = reason;
    }
    return this.#value;
  }
}
