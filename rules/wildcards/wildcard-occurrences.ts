/**
 * Where the literals of one level occur in a text: found in one pass by the level's automaton, then held as one
 * ascending list of positions a literal. The arrays are used again for the next text.
 */

import { grownWords } from '../bytes/grown-words.ts';
import { State } from '../bytes/rule-table-format.ts';
import { childState } from './wildcard-automaton.ts';

/** Room for more hits than this is given back after use: only texts made for the purpose need it. */
const keptHits = 1 << 16;

/** What the latest `scan` found; gone with the next. */
export class Occurrences {
  readonly #states: Int32Array;
  readonly #labels: Uint16Array;
  /** Length of each literal. */
  readonly #lengths: Int32Array;
  /** Hits of this pass by literal; valid where `#stamps` holds the pass. */
  readonly #counts: Int32Array;
  readonly #stamps: Int32Array;
  /** Where a literal's positions end in `#positions`. */
  readonly #ends: Int32Array;
  #pass = 0;
  #hitLiterals = new Int32Array(64);
  #hitStarts = new Int32Array(64);
  #hitCount = 0;
  #positions = new Int32Array(64);
  /** The literals found, in no order; the first `foundCount` are valid. */
  found = new Int32Array(64);
  foundCount = 0;

  constructor(options: { states: Int32Array; labels: Uint16Array; literals: Int32Array }) {
    this.#states = options.states;
    this.#labels = options.labels;
    this.#lengths = options.literals;
    this.#counts = new Int32Array(options.literals.length);
    this.#stamps = new Int32Array(options.literals.length);
    this.#ends = new Int32Array(options.literals.length);
  }

  /** Finds every occurrence that lies between `from` and `to`. */
  scan(root: number, text: string, { from, to }: { from: number; to: number }): void {
    this.#begin();
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
      this.#recordEnds(state, i + 1);
    }
    this.#sortHits();
  }

  has(literal: number): boolean {
    return this.#stamps[literal] === this.#pass;
  }

  /** Start of the first occurrence at or after a position, or -1. */
  firstFrom(literal: number, position: number): number {
    if (!this.has(literal)) return -1;
    const end = this.#ends[literal]!;
    let high = end;
    let low = end - this.#counts[literal]!;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#positions[middle]! < position) low = middle + 1;
      else high = middle;
    }
    return low < end ? this.#positions[low]! : -1;
  }

  lengthOf(literal: number): number {
    return this.#lengths[literal]!;
  }

  #begin(): void {
    if (this.#pass === 0x7fffffff) {
      this.#stamps.fill(0);
      this.#pass = 0;
    }
    this.#pass++;
    this.foundCount = 0;
    this.#hitCount = 0;
  }

  #recordEnds(ending: number, end: number): void {
    const states = this.#states;
    for (let state = ending; state >= 0; state = states[state * State.words + State.shorterEnd]!) {
      const literal = states[state * State.words + State.literal]!;
      if (literal >= 0) this.#record(literal, end - this.#lengths[literal]!);
    }
  }

  #record(literal: number, start: number): void {
    if (this.#stamps[literal] !== this.#pass) {
      this.#stamps[literal] = this.#pass;
      this.#counts[literal] = 0;
      if (this.foundCount === this.found.length) this.found = grownWords(this.found);
      this.found[this.foundCount++] = literal;
    }
    this.#counts[literal] = this.#counts[literal]! + 1;
    if (this.#hitCount === this.#hitLiterals.length) {
      this.#hitLiterals = grownWords(this.#hitLiterals);
      this.#hitStarts = grownWords(this.#hitStarts);
    }
    this.#hitLiterals[this.#hitCount] = literal;
    this.#hitStarts[this.#hitCount++] = start;
  }

  /** By literal; the hits of one literal were recorded in ascending order and stay so. */
  #sortHits(): void {
    let next = 0;
    for (let i = 0; i < this.foundCount; i++) {
      const literal = this.found[i]!;
      this.#ends[literal] = next;
      next += this.#counts[literal]!;
    }
    const count = this.#hitCount;
    if (count > this.#positions.length || this.#positions.length > Math.max(count, keptHits)) {
      this.#positions = new Int32Array(Math.max(64, count * 2));
    }
    for (let i = 0; i < count; i++) {
      const literal = this.#hitLiterals[i]!;
      this.#positions[this.#ends[literal]!] = this.#hitStarts[i]!;
      this.#ends[literal] = this.#ends[literal]! + 1;
    }
    if (this.#hitLiterals.length > keptHits) {
      this.#hitLiterals = new Int32Array(64);
      this.#hitStarts = new Int32Array(64);
    }
  }
}
