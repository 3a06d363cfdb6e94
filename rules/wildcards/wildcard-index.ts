/**
 * Finds the first declared pattern of a level that a text matches. The work is bounded by the text's length plus the
 * number of patterns, never by the product of both: prefixes and suffixes are looked up by hash, literals are found in
 * one pass over the text, and a candidate is checked by where its literals were found.
 */
import { grownWords, hashSeed, hashUnit, PairIndex, unitsEqual } from '../bytes/pair-index.ts';
import {
  Bucket,
  Group,
  Level,
  noNode,
  Pattern,
  Prefix,
  type RuleTableSections,
  Suffix,
} from '../bytes/rule-table-format.ts';
import { Occurrences } from './wildcard-occurrences.ts';

/** Searches the levels of one table; one lookup at a time. */
export class WildcardIndex {
  readonly #s: RuleTableSections;
  readonly #prefixIndex: PairIndex;
  readonly #suffixIndex: PairIndex;
  readonly #groupIndex: PairIndex;
  readonly #bucketIndex: PairIndex;
  readonly #occurrences: Occurrences;

  // The lookup under way.
  #text = '';
  #level = 0;
  #best = noNode;
  #scanned = false;
  /** -1 until a prefix matched. */
  #suffixCount = -1;
  #matchedSuffixes = new Int32Array(16);
  readonly #suffixStamps: Int32Array;
  #pass = 0;

  constructor(sections: RuleTableSections) {
    this.#s = sections;
    this.#prefixIndex = new PairIndex(sections.prefixIndex);
    this.#suffixIndex = new PairIndex(sections.suffixIndex);
    this.#groupIndex = new PairIndex(sections.groupIndex);
    this.#bucketIndex = new PairIndex(sections.bucketIndex);
    this.#occurrences = new Occurrences(sections);
    this.#suffixStamps = new Int32Array(sections.suffixes.length / Suffix.words);
  }

  /** The node of the first declared pattern that the text matches, or -1. */
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
    this.#nextPass();
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

  #nextPass(): void {
    if (this.#pass === 0x7fffffff) {
      this.#suffixStamps.fill(0);
      this.#pass = 0;
    }
    this.#pass++;
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

  /** Shortest prefix and suffix of the level bound where a literal can stand. */
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

  /** Leftmost first, without overlap, between prefix and suffix. */
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
