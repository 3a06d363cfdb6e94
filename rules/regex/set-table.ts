/**
 * A complete table of the sets of states that texts can lead to, for expressions with few of them: one look-up for each
 * character. It is made at once and never grows, so no text can make it slow.
 */
import type { CharacterClasses } from './character-classes.ts';

/** The automaton whose sets the table has. Sets of states are bits in words. */
export interface Stepper {
  /** May read the first character. */
  first: Int32Array;
  /** May read the last character. */
  last: Int32Array;
  /** May read what follows a character that these read. */
  after(states: Int32Array): Int32Array;
  /** Of each class of characters, the states that read it. */
  readers: Int32Array;
}

/** Of a table: sets times classes of characters. Chosen: 16 KiB, so that a few tables fit into a processor's cache. */
const mostEntries = 8_192;
/** The set of no states. */
const dead = 0;
const begin = 1;

export class SetTable {
  readonly #classes: CharacterClasses;
  readonly #next: Uint16Array;
  readonly #isLast: Uint8Array;

  private constructor(classes: CharacterClasses, next: Uint16Array, isLast: Uint8Array) {
    this.#classes = classes;
    this.#next = next;
    this.#isLast = isLast;
  }

  /** Undefined where there are too many sets. */
  static of(classes: CharacterClasses, { first, last, after, readers }: Stepper): SetTable | undefined {
    const words = first.length;
    const numbers = new Map<string, number>();
    /** Of the sets that were found: what may be read next. */
    const followers: Int32Array[] = [new Int32Array(words), first];
    const isLast = [0, 0];
    const next: number[] = new Array(classes.count).fill(dead);
    for (let set = begin; set < followers.length; set += 1) {
      for (let read = 0; read < classes.count; read += 1) {
        if (next.length === mostEntries) return undefined;
        const from = read * words;
        const states = followers[set]!.map((word, place) => word & readers[from + place]!);
        if (states.every((word) => word === 0)) {
          next.push(dead);
          continue;
        }
        const key = states.join();
        const number = numbers.get(key) ?? followers.length;
        next.push(number);
        if (number < followers.length) continue;
        numbers.set(key, number);
        followers.push(after(states).slice());
        isLast.push(Number(states.some((word, place) => (word & last[place]!) !== 0)));
      }
    }
    return new SetTable(classes, Uint16Array.from(next), Uint8Array.from(isLast));
  }

  /** Of a text that is not empty. */
  matches(text: string): boolean {
    const classes = this.#classes;
    const { ofAscii, count } = classes;
    const next = this.#next;
    let set = begin;
    for (let i = 0; i < text.length; i++) {
      let code = text.charCodeAt(i);
      if (code < 128) {
        set = next[set * count + ofAscii[code]!]!;
      } else {
        code = text.codePointAt(i)!;
        if (code > 0xffff) i++;
        set = next[set * count + classes.of(code)]!;
      }
      if (set === dead) return false;
    }
    return this.#isLast[set] === 1;
  }
}
