import { grownWords } from '../bytes/pair-index.ts';
import { type RuleTableSections, State } from '../bytes/rule-table-format.ts';

const { words, firstChild, fail, shorterEnd, literal: literalAt } = State;

/** The child of a state for one code unit, or -1. Labels of children ascend, so this is a binary search. */
export function childState(states: Int32Array, labels: Uint16Array, state: number, unit: number): number {
  let low = states[state * words + firstChild]!;
  const end = states[(state + 1) * words + firstChild]!;
  let high = end;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (labels[middle]! < unit) low = middle + 1;
    else high = middle;
  }
  return low < end && labels[low] === unit ? low : -1;
}

/** As many as a number has bits. A text made for the purpose costs as many marks as there are literals, for each block. */
const mostBlocks = 32;
/** Blocks are never shorter than 2 to this power. */
const leastShift = 3;

/**
 * Where the literals of one level occur in a text, found in one pass by the level's automaton. The text is cut into
 * blocks of equal length: of each literal are noted where it comes first, and a bit for each block that one ends in. What
 * is asked for beyond the first is searched in one or two blocks. So neither time nor memory grows with the number of
 * occurrences, which literals that are suffixes of one another could have without end.
 *
 * What the latest `scan` found is gone with the next. The arrays are used again for the next text.
 */
export class Occurrences {
  readonly #states: Int32Array;
  readonly #labels: Uint16Array;
  /** Length of each literal. */
  readonly #lengths: Int32Array;
  /** Place of a literal in `found`; valid where it stands there. */
  readonly #rows: Int32Array;
  /** The literals found, in no order; the first `foundCount` are valid. */
  found = new Int32Array(64);
  foundCount = 0;
  /** Where each of them was found first. */
  #starts = new Int32Array(64);
  /** The blocks in which each of them ends, a bit for each. */
  #blocks = new Int32Array(64);
  #text = '';
  #from = 0;
  #to = 0;
  #shift = leastShift;

  constructor(sections: Pick<RuleTableSections, 'states' | 'labels' | 'literals'>) {
    this.#states = sections.states;
    this.#labels = sections.labels;
    this.#lengths = sections.literals;
    this.#rows = new Int32Array(sections.literals.length);
  }

  /** Finds what lies between `from` and `to`. */
  scan(root: number, text: string, { from, to }: { from: number; to: number }): void {
    this.#begin(text, from, to);
    const states = this.#states;
    const labels = this.#labels;
    // Once: where tests run, each name of another module is looked up in it each time.
    const childOf = childState;
    const shift = this.#shift;
    let state = root;
    let markedEnd = -1;
    let markedBlock = -1;
    for (let i = from; i < to; i++) {
      const unit = text.charCodeAt(i);
      let next = childOf(states, labels, state, unit);
      while (next < 0 && state !== root) {
        state = states[state * words + fail]!;
        next = childOf(states, labels, state, unit);
      }
      if (next < 0) continue;
      state = next;
      const at = state * words;
      const end = states[at + literalAt]! >= 0 ? state : states[at + shorterEnd]!;
      if (end < 0 || (end === markedEnd && i >>> shift === markedBlock)) continue;
      markedEnd = end;
      markedBlock = i >>> shift;
      this.#mark(end, i);
    }
  }

  has(literal: number): boolean {
    const row = this.#rows[literal]!;
    return row < this.foundCount && this.found[row] === literal;
  }

  /** Start of the first occurrence at or after a position, or -1. */
  firstFrom(literal: number, position: number): number {
    if (!this.has(literal)) return -1;
    const row = this.#rows[literal]!;
    const first = this.#starts[row]!;
    if (first >= position) return first;
    const length = this.#lengths[literal]!;
    const text = this.#text.slice(first, first + length);
    const nearest = (position + length - 1) >>> this.#shift;
    if (nearest >= mostBlocks) return -1;
    for (let blocks = this.#blocks[row]! & (-1 << nearest); blocks !== 0; blocks &= blocks - 1) {
      const found = this.#searchBlock(text, 31 - Math.clz32(blocks & -blocks), position);
      if (found >= 0) return found;
    }
    return -1;
  }

  lengthOf(literal: number): number {
    return this.#lengths[literal]!;
  }

  /** Lets go of the text; nothing more may be asked about it. */
  release(): void {
    this.#text = '';
  }

  #begin(text: string, from: number, to: number): void {
    this.#text = text;
    this.#from = from;
    this.#to = to;
    this.foundCount = 0;
    this.#shift = leastShift;
    while (text.length >>> this.#shift >= mostBlocks) this.#shift++;
  }

  /**
   * Marks the literals that end at `last`, longest first. Where one is marked in this block already, so are all that
   * are shorter: a block costs no more than the number of literals.
   */
  #mark(ending: number, last: number): void {
    const states = this.#states;
    const bit = 1 << (last >>> this.#shift);
    for (let state = ending; state >= 0; state = states[state * words + shorterEnd]!) {
      const literal = states[state * words + literalAt]!;
      let row = this.#rows[literal]!;
      if (row >= this.foundCount || this.found[row] !== literal) {
        row = this.#addRow(literal, last + 1 - this.#lengths[literal]!);
      }
      if ((this.#blocks[row]! & bit) !== 0) return;
      this.#blocks[row] = this.#blocks[row]! | bit;
    }
  }

  #addRow(literal: number, start: number): number {
    const row = this.foundCount++;
    if (row === this.found.length) {
      this.found = grownWords(this.found);
      this.#starts = grownWords(this.#starts);
      this.#blocks = grownWords(this.#blocks);
    }
    this.found[row] = literal;
    this.#starts[row] = start;
    this.#blocks[row] = 0;
    this.#rows[literal] = row;
    return row;
  }

  /** Start of the first occurrence from a position on that ends in the block. */
  #searchBlock(text: string, block: number, position: number): number {
    const start = Math.max(position, this.#from, (block << this.#shift) - text.length + 1);
    const end = Math.min(this.#to, (block + 1) << this.#shift);
    const found = this.#text.slice(start, end).indexOf(text);
    return found < 0 ? -1 : start + found;
  }
}
