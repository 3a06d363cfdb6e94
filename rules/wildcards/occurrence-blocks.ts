/**
 * Where the literals of one level occur in a text that has too many occurrences to note each: the text is cut into
 * blocks of equal length, and one bit a literal and block says whether the literal ends in the block. What is asked
 * for is then searched in one or two blocks. Memory depends on the number of literals found, not on the text.
 */

import { grownWords } from '../bytes/grown-words.ts';
import { State } from '../bytes/rule-table-format.ts';
import { childState } from './wildcard-automaton.ts';

const mostBlocks = 1024;
/** Blocks are never shorter than 2 to this power. */
const leastShift = 3;

export interface BlockScan {
  root: number;
  text: string;
  from: number;
  to: number;
  /** Called once for each literal found. */
  find: (literal: number) => void;
}

export class OccurrenceBlocks {
  readonly #states: Int32Array;
  readonly #labels: Uint16Array;
  readonly #lengths: Int32Array;
  /** Number of a literal's row plus 1; valid where that row names the literal. */
  readonly #rowOf: Int32Array;
  #rowCount = 0;
  #literals = new Int32Array(16);
  /** Where each row's literal was found first: its text is read from there. */
  #starts = new Int32Array(16);
  /** The rows of bits, one behind the other. */
  #bits = new Int32Array(512);
  #text = '';
  #from = 0;
  #to = 0;
  #shift = leastShift;
  #rowWords = 0;

  constructor(options: { states: Int32Array; labels: Uint16Array; literals: Int32Array }) {
    this.#states = options.states;
    this.#labels = options.labels;
    this.#lengths = options.literals;
    this.#rowOf = new Int32Array(options.literals.length);
  }

  scan({ root, text, from, to, find }: BlockScan): void {
    this.#begin(text, from, to);
    const states = this.#states;
    const labels = this.#labels;
    let state = root;
    for (let i = from; i < to; i++) {
      const unit = text.charCodeAt(i);
      let next = childState(states, labels, state, unit);
      while (next < 0 && state !== root) {
        state = states[state * State.words + State.fail]!;
        next = childState(states, labels, state, unit);
      }
      if (next < 0) continue;
      state = next;
      this.#mark(state, i, find);
    }
  }

  /** Start of the first occurrence of a literal that was found at or after a position, or -1. */
  firstFrom(literal: number, position: number): number {
    const row = this.#rowOf[literal]! - 1;
    const length = this.#lengths[literal]!;
    const first = this.#starts[row]!;
    const words = this.#text.slice(first, first + length);
    const block = (position + length - 1) >>> this.#shift;
    if (this.#isMarked(row, block)) {
      const found = this.#searchBlock(words, block, position);
      if (found >= 0) return found;
    }
    const later = this.#nextMarked(row, block + 1);
    return later < 0 ? -1 : this.#searchBlock(words, later, this.#from);
  }

  /** Lets go of the text. */
  release(): void {
    this.#text = '';
  }

  #begin(text: string, from: number, to: number): void {
    this.#text = text;
    this.#from = from;
    this.#to = to;
    this.#rowCount = 0;
    this.#shift = leastShift;
    while (text.length >>> this.#shift >= mostBlocks) this.#shift++;
    this.#rowWords = (text.length >>> (this.#shift + 5)) + 1;
  }

  /**
   * Marks the literals that end at `last`, longest first. Where one is marked in this block already, so are all that
   * are shorter: a block costs no more than the number of literals.
   */
  #mark(ending: number, last: number, find: (literal: number) => void): void {
    const states = this.#states;
    const block = last >>> this.#shift;
    for (let state = ending; state >= 0; state = states[state * State.words + State.shorterEnd]!) {
      const literal = states[state * State.words + State.literal]!;
      if (literal < 0) continue;
      let row = this.#rowOf[literal]! - 1;
      if (row < 0 || row >= this.#rowCount || this.#literals[row] !== literal) {
        row = this.#addRow(literal, last + 1 - this.#lengths[literal]!);
        find(literal);
      }
      const word = row * this.#rowWords + (block >>> 5);
      const bit = 1 << (block & 31);
      if ((this.#bits[word]! & bit) !== 0) return;
      this.#bits[word] = this.#bits[word]! | bit;
    }
  }

  #addRow(literal: number, start: number): number {
    const row = this.#rowCount++;
    if (row === this.#literals.length) {
      this.#literals = grownWords(this.#literals);
      this.#starts = grownWords(this.#starts);
    }
    const end = this.#rowCount * this.#rowWords;
    while (end > this.#bits.length) this.#bits = grownWords(this.#bits);
    this.#bits.fill(0, end - this.#rowWords, end);
    this.#literals[row] = literal;
    this.#starts[row] = start;
    this.#rowOf[literal] = row + 1;
    return row;
  }

  #isMarked(row: number, block: number): boolean {
    if (block > this.#text.length >>> this.#shift) return false;
    return (this.#bits[row * this.#rowWords + (block >>> 5)]! & (1 << (block & 31))) !== 0;
  }

  #nextMarked(row: number, from: number): number {
    const end = this.#rowWords << 5;
    for (let block = from; block < end; ) {
      const word = this.#bits[row * this.#rowWords + (block >>> 5)]! >>> (block & 31);
      if (word !== 0) return block + 31 - Math.clz32(word & -word);
      block = (block | 31) + 1;
    }
    return -1;
  }

  /** Start of the first occurrence from a position on that ends in the block. */
  #searchBlock(words: string, block: number, position: number): number {
    const start = Math.max(position, this.#from, (block << this.#shift) - words.length + 1);
    const end = Math.min(this.#to, (block + 1) << this.#shift);
    const found = this.#text.slice(start, end).indexOf(words);
    return found < 0 ? -1 : start + found;
  }
}
