import { beyondTotal } from '../../folded-run.ts';

const latin1Slice = Buffer.prototype.latin1Slice;
const space = 0x20;
const minus = 0x2d;
const zero = 0x30;

/** Reads a text that a script reported: words, letters and numbers, each followed by a space. */
export class ScriptText {
  readonly #bytes: Buffer;
  #at = 0;
  /** Whether a part had another form. The values that were read are then meaningless. */
  isBroken = false;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** Whether the whole text was read and had the expected form. */
  get isRead(): boolean {
    return !this.isBroken && this.#at === this.#bytes.length;
  }

  isNext(byte: number): boolean {
    return this.#bytes[this.#at] === byte;
  }

  /** Reads this byte. Any other byte makes the text invalid. */
  mark(byte: number): void {
    if (!this.isNext(byte)) this.isBroken = true;
    this.#at += 1;
  }

  word(): string {
    const start = this.#at;
    while (this.#at < this.#bytes.length && !this.isNext(space)) this.#at += 1;
    const word = latin1Slice.call(this.#bytes, start, this.#at);
    this.mark(space);
    return word;
  }

  /** Reads a word of one letter. */
  letter(): number {
    const letter = this.#bytes[this.#at++];
    this.mark(space);
    return letter ?? 0;
  }

  /** Reads a whole number, which may be below 0. `end`: the byte after it. */
  number(max = beyondTotal, end = space): number {
    const bytes = this.#bytes;
    const isNegative = this.isNext(minus);
    const start = isNegative ? this.#at + 1 : this.#at;
    let at = start;
    let number = 0;
    // There is nothing beyond the last digit.
    for (let digit = bytes[at]! - zero; digit >= 0 && digit <= 9; digit = bytes[++at]! - zero)
      number = number * 10 + digit;
    if (at === start || number > max) this.isBroken = true;
    this.#at = at;
    this.mark(end);
    return isNegative ? -number : number;
  }

  /** Reads a number that is not below 0. */
  count(max = beyondTotal, end = space): number {
    if (this.isNext(minus)) this.isBroken = true;
    return this.number(max, end);
  }
}
