/**
 * Where the literals of one level occur in a text: found in one pass by the level's automaton, then held as one
 * ascending list of positions a literal. The arrays are used again for the next text. Beyond a bound of occurrences
 * their blocks take the place of the positions: literals that are suffixes of one another could have any number.
 */

import { grownWords } from '../bytes/grown-words.ts';
import { State } from '../bytes/rule-table-format.ts';
import { OccurrenceBlocks } from './occurrence-blocks.ts';
import { childState } from './wildcard-automaton.ts';

/** Only texts made for the purpose have more. */
const usualMostHits = 1 << 16;

interface Sections {
  states: Int32Array;
  labels: Uint16Array;
  literals: Int32Array;
}

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
  readonly #mostHits: number;
  #hitLiterals: Int32Array;
  #hitStarts: Int32Array;
  #hitCount = 0;
  #positions = new Int32Array(64);
  readonly #sections: Sections;
  #blocks: OccurrenceBlocks | undefined;
  /** Whether the latest text had too many hits, so that `#blocks` holds what was found. */
  #inBlocks = false;
  /** The literals found, in no order; the first `foundCount` are valid. */
  found = new Int32Array(64);
  foundCount = 0;

  constructor(sections: Sections, mostHits = usualMostHits) {
    this.#sections = sections;
    this.#states = sections.states;
    this.#labels = sections.labels;
    this.#lengths = sections.literals;
    this.#counts = new Int32Array(sections.literals.length);
    this.#stamps = new Int32Array(sections.literals.length);
    this.#ends = new Int32Array(sections.literals.length);
    this.#mostHits = mostHits;
    this.#hitLiterals = new Int32Array(Math.min(64, mostHits));
    this.#hitStarts = new Int32Array(Math.min(64, mostHits));
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
      if (!this.#recordEnds(state, i + 1)) {
        this.#scanBlocks(root, text, { from, to });
        return;
      }
    }
    this.#sortHits();
  }

  has(literal: number): boolean {
    return this.#stamps[literal] === this.#pass;
  }

  /** Start of the first occurrence at or after a position, or -1. */
  firstFrom(literal: number, position: number): number {
    if (!this.has(literal)) return -1;
    if (this.#inBlocks) return this.#blocks!.firstFrom(literal, position);
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

  /** Lets go of the text; nothing more may be asked about it. */
  release(): void {
    if (this.#inBlocks) this.#blocks!.release();
  }

  #begin(): void {
    if (this.#pass === 0x7fffffff) {
      this.#stamps.fill(0);
      this.#pass = 0;
    }
    this.#pass++;
    this.foundCount = 0;
    this.#hitCount = 0;
    this.#inBlocks = false;
  }

  #scanBlocks(root: number, text: string, { from, to }: { from: number; to: number }): void {
    this.#begin();
    this.#inBlocks = true;
    this.#blocks ??= new OccurrenceBlocks(this.#sections);
    this.#blocks.scan({ root, text, from, to, find: (literal) => this.#find(literal) });
  }

  /** False when there are more hits than are noted one by one. */
  #recordEnds(ending: number, end: number): boolean {
    const states = this.#states;
    for (let state = ending; state >= 0; state = states[state * State.words + State.shorterEnd]!) {
      const literal = states[state * State.words + State.literal]!;
      if (literal < 0) continue;
      if (this.#hitCount === this.#mostHits) return false;
      this.#record(literal, end - this.#lengths[literal]!);
    }
    return true;
  }

  #find(literal: number): void {
    this.#stamps[literal] = this.#pass;
    this.#counts[literal] = 0;
    if (this.foundCount === this.found.length) this.found = grownWords(this.found);
    this.found[this.foundCount++] = literal;
  }

  #record(literal: number, start: number): void {
    if (this.#stamps[literal] !== this.#pass) this.#find(literal);
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
    if (count > this.#positions.length) this.#positions = new Int32Array(count * 2);
    for (let i = 0; i < count; i++) {
      const literal = this.#hitLiterals[i]!;
      this.#positions[this.#ends[literal]!] = this.#hitStarts[i]!;
      this.#ends[literal] = this.#ends[literal]! + 1;
    }
  }
}
