import { grownWords, hashSeed, hashUnit, PairIndex, unitsEqual } from './pair-index.ts';
import {
  Bucket,
  Group,
  Level,
  noNode,
  Pattern,
  Prefix,
  type RuleTableSections,
  State,
  Suffix,
} from './rule-table-format.ts';

const { words, firstChild, fail, shorterEnd, literal: literalAt } = State;

/** Returns the child of a state for a code unit, or -1. Labels of children ascend, so this is a binary search. */
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

/** The number of bits of a number. In the worst case, a block costs as many marks as there are literals. */
const maxBlocks = 32;
/** The exponent (base 2) of the shortest block length. */
const minShift = 3;

/**
 * Finds where the literals of one level occur in a text, in one pass by the level's automaton. The text is cut into blocks of
 * equal length. For each literal, it records the first occurrence, and a bit for each block in which an occurrence ends. Later
 * occurrences are searched in one or two blocks. So neither time nor memory grows with the number of occurrences, which is
 * unbounded for literals that are suffixes of one another. The next `scan` discards the results of the one before, and the arrays
 * are used again.
 */
export class Occurrences {
  readonly #states: Int32Array;
  readonly #labels: Uint16Array;
  /** The length of each literal. */
  readonly #lengths: Int32Array;
  /** The index of a literal in `found`. It is valid if `found` contains the literal at that index. */
  readonly #rows: Int32Array;
  /** The literals that were found, in no particular order. The first `foundCount` are valid. */
  found = new Int32Array(64);
  foundCount = 0;
  /** The start of the first occurrence of each literal. */
  #starts = new Int32Array(64);
  /** The blocks in which each of them ends, with a bit for each block. */
  #blocks = new Int32Array(64);
  #text = '';
  #from = 0;
  #to = 0;
  #shift = minShift;

  constructor(sections: Pick<RuleTableSections, 'states' | 'labels' | 'literals'>) {
    this.#states = sections.states;
    this.#labels = sections.labels;
    this.#lengths = sections.literals;
    this.#rows = new Int32Array(sections.literals.length);
  }

  /** Finds occurrences between `from` and `to`. */
  scan(root: number, text: string, { from, to }: { from: number; to: number }): void {
    this.#begin(text, from, to);
    const states = this.#states;
    const labels = this.#labels;
    // Assigned once, because a test runner looks up each name of another module at every use.
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

  /** Returns the start of the first occurrence at or after a position, or -1. */
  firstFrom(literal: number, position: number): number {
    if (!this.has(literal)) return -1;
    const row = this.#rows[literal]!;
    const first = this.#starts[row]!;
    if (first >= position) return first;
    const length = this.#lengths[literal]!;
    const text = this.#text.slice(first, first + length);
    const nearest = (position + length - 1) >>> this.#shift;
    if (nearest >= maxBlocks) return -1;
    for (let blocks = this.#blocks[row]! & (-1 << nearest); blocks !== 0; blocks &= blocks - 1) {
      const found = this.#searchBlock(text, 31 - Math.clz32(blocks & -blocks), position);
      if (found >= 0) return found;
    }
    return -1;
  }

  lengthOf(literal: number): number {
    return this.#lengths[literal]!;
  }

  /** Releases the text. No further calls about it are allowed. */
  release(): void {
    this.#text = '';
  }

  #begin(text: string, from: number, to: number): void {
    this.#text = text;
    this.#from = from;
    this.#to = to;
    this.foundCount = 0;
    this.#shift = minShift;
    while (text.length >>> this.#shift >= maxBlocks) this.#shift++;
  }

  /**
   * Marks the literals that end at `last`, longest first. If one is already marked in this block, so are all shorter ones. So the cost of
   * a block is at most the number of literals.
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

  /** Returns the start of the first occurrence from a position on that ends in the block. */
  #searchBlock(text: string, block: number, position: number): number {
    const start = Math.max(position, this.#from, (block << this.#shift) - text.length + 1);
    const end = Math.min(this.#to, (block + 1) << this.#shift);
    const found = this.#text.slice(start, end).indexOf(text);
    return found < 0 ? -1 : start + found;
  }
}

/**
 * Finds the first declared pattern of a level that a text matches. The work is bounded by the text's length plus the number of
 * patterns, never by their product. Prefixes and suffixes are looked up by hash, literals are found in one pass over the text,
 * and a candidate is checked by the places of its literals. It runs one lookup at a time.
 */
export class WildcardIndex {
  readonly #s: RuleTableSections;
  readonly #prefixIndex: PairIndex;
  readonly #suffixIndex: PairIndex;
  readonly #groupIndex: PairIndex;
  readonly #bucketIndex: PairIndex;
  readonly #occurrences: Occurrences;

  // The current lookup.
  #text = '';
  #level = 0;
  #best = noNode;
  #scanned = false;
  /** -1 until a prefix has matched. */
  #suffixCount = -1;
  #matchedSuffixes = new Int32Array(16);
  /** The pass in which each suffix matched last. */
  readonly #suffixStamps: Float64Array;
  #pass = 0;

  constructor(sections: RuleTableSections) {
    this.#s = sections;
    this.#prefixIndex = new PairIndex(sections.prefixIndex);
    this.#suffixIndex = new PairIndex(sections.suffixIndex);
    this.#groupIndex = new PairIndex(sections.groupIndex);
    this.#bucketIndex = new PairIndex(sections.bucketIndex);
    this.#occurrences = new Occurrences(sections);
    this.#suffixStamps = new Float64Array(sections.suffixes.length / Suffix.words);
  }

  /** Returns the node of the first declared pattern that the text matches, or -1. */
  find(level: number, text: string): number {
    this.#text = text;
    this.#level = level;
    this.#best = noNode;
    this.#scanned = false;
    this.#suffixCount = -1;
    const { levels, lengths, prefixes } = this.#s;
    const at = level * Level.words;
    const first = levels[at + Level.prefixLengths]!;
    const end = first + levels[at + Level.prefixLengthCount]!;
    let hash = hashSeed;
    let position = 0;
    for (let i = first; i < end; i++) {
      const length = lengths[i]!;
      if (length > text.length) break;
      for (; position < length; position++) hash = hashUnit(hash, text.charCodeAt(position));
      for (
        let slot = this.#prefixIndex.find(level, hash);
        slot >= 0;
        slot = this.#prefixIndex.next(slot, level, hash)
      ) {
        const prefix = this.#prefixIndex.value(slot);
        if (
          prefixes[prefix * Prefix.words + Prefix.firstNode]! < this.#best &&
          this.#isPrefix(prefix, length)
        ) {
          this.#searchPrefix(prefix);
          break;
        }
      }
    }
    this.#text = '';
    if (this.#scanned) this.#occurrences.release();
    return this.#best === noNode ? -1 : this.#best;
  }

  #isPrefix(prefix: number, length: number): boolean {
    const { prefixes, strings } = this.#s;
    const at = prefix * Prefix.words;
    if (prefixes[at + Prefix.length] !== length) return false;
    return unitsEqual(strings, prefixes[at + Prefix.offset]!, this.#text, 0, length);
  }

  #searchPrefix(prefix: number): void {
    if (this.#suffixCount < 0) this.#matchSuffixes();
    const { prefixes, groups } = this.#s;
    const first = prefixes[prefix * Prefix.words + Prefix.firstGroup]!;
    const count = prefixes[prefix * Prefix.words + Prefix.groupCount]!;
    if (count <= this.#suffixCount) {
      for (let group = first; group < first + count; group++) {
        if (this.#suffixStamps[groups[group * Group.words + Group.suffix]!] === this.#pass)
          this.#searchGroup(group);
      }
      return;
    }
    for (let i = 0; i < this.#suffixCount; i++) {
      const slot = this.#groupIndex.find(prefix, this.#matchedSuffixes[i]!);
      if (slot >= 0) this.#searchGroup(this.#groupIndex.value(slot));
    }
  }

  #matchSuffixes(): void {
    this.#pass++;
    this.#suffixCount = 0;
    const { levels, lengths } = this.#s;
    const text = this.#text;
    const level = this.#level;
    const first = levels[level * Level.words + Level.suffixLengths]!;
    const end = first + levels[level * Level.words + Level.suffixLengthCount]!;
    let hash = hashSeed;
    let hashed = 0;
    for (let i = first; i < end; i++) {
      const length = lengths[i]!;
      if (length > text.length) break;
      for (; hashed < length; hashed++) hash = hashUnit(hash, text.charCodeAt(text.length - 1 - hashed));
      for (
        let slot = this.#suffixIndex.find(level, hash);
        slot >= 0;
        slot = this.#suffixIndex.next(slot, level, hash)
      ) {
        const suffix = this.#suffixIndex.value(slot);
        if (this.#isSuffix(suffix, length)) {
          this.#addSuffix(suffix);
          break;
        }
      }
    }
  }

  #isSuffix(suffix: number, length: number): boolean {
    const { suffixes, strings } = this.#s;
    const at = suffix * Suffix.words;
    if (suffixes[at + Suffix.length] !== length) return false;
    return unitsEqual(strings, suffixes[at + Suffix.offset]!, this.#text, this.#text.length - length, length);
  }

  #addSuffix(suffix: number): void {
    if (this.#suffixCount === this.#matchedSuffixes.length) {
      this.#matchedSuffixes = grownWords(this.#matchedSuffixes);
    }
    this.#matchedSuffixes[this.#suffixCount++] = suffix;
    this.#suffixStamps[suffix] = this.#pass;
  }

  #searchGroup(group: number): void {
    const { groups, buckets } = this.#s;
    const at = group * Group.words;
    if (groups[at + Group.firstNode]! >= this.#best) return;
    if (groups[at + Group.minLength]! > this.#text.length) return;
    const bare = groups[at + Group.bareNode]!;
    if (bare < this.#best) this.#best = bare;
    const count = groups[at + Group.bucketCount]!;
    if (count === 0) return;
    if (!this.#scanned) this.#scan();
    const first = groups[at + Group.firstBucket]!;
    const found = this.#occurrences.foundCount;
    if (count <= found) {
      for (let bucket = first; bucket < first + count; bucket++) {
        if (buckets[bucket * Bucket.words + Bucket.firstNode]! >= this.#best) return;
        this.#searchBucket(group, bucket);
      }
      return;
    }
    for (let i = 0; i < found; i++) {
      const slot = this.#bucketIndex.find(group, this.#occurrences.found[i]!);
      if (slot >= 0) this.#searchBucket(group, this.#bucketIndex.value(slot));
    }
  }

  /** Scans the part of the text that can contain a literal. The shortest prefix and suffix of the level bound it. */
  #scan(): void {
    this.#scanned = true;
    const { levels, lengths } = this.#s;
    const at = this.#level * Level.words;
    const from = lengths[levels[at + Level.prefixLengths]!]!;
    const to = this.#text.length - lengths[levels[at + Level.suffixLengths]!]!;
    this.#occurrences.scan(levels[at + Level.root]!, this.#text, { from, to });
  }

  #searchBucket(group: number, bucket: number): void {
    const { buckets, patterns } = this.#s;
    if (!this.#occurrences.has(buckets[bucket * Bucket.words + Bucket.literal]!)) return;
    const first = buckets[bucket * Bucket.words + Bucket.firstPattern]!;
    const end = first + buckets[bucket * Bucket.words + Bucket.patternCount]!;
    for (let pattern = first; pattern < end; pattern++) {
      const node = patterns[pattern * Pattern.words + Pattern.node]!;
      if (node >= this.#best) return;
      if (this.#literalsInOrder(group, pattern)) {
        this.#best = node;
        return;
      }
    }
  }

  /**
   * Checks that the literals occur in order, without overlap, between prefix and suffix. It uses the leftmost occurrence of each literal.
   */
  #literalsInOrder(group: number, pattern: number): boolean {
    const { groups, suffixes, patterns, parts } = this.#s;
    const suffix = groups[group * Group.words + Group.suffix]!;
    const to = this.#text.length - suffixes[suffix * Suffix.words + Suffix.length]!;
    let from = groups[group * Group.words + Group.prefixLength]!;
    const first = patterns[pattern * Pattern.words + Pattern.firstPart]!;
    const end = first + patterns[pattern * Pattern.words + Pattern.partCount]!;
    for (let i = first; i < end; i++) {
      const literal = parts[i]!;
      const start = this.#occurrences.firstFrom(literal, from);
      if (start < 0) return false;
      from = start + this.#occurrences.lengthOf(literal);
      if (from > to) return false;
    }
    return true;
  }
}
