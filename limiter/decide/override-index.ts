/**
 * Finds the overrides of a descriptor. Its entries are hashed as one text that alternates keys and values. The hash of the whole text
 * finds exact overrides. The text before the first `*` or after the last one finds patterns; the index uses the one that fewer other
 * patterns share. So the cost does not grow with the number of overrides, except for patterns that share both texts.
 */
import { type Entry, patternMatches } from '../../rules/model.ts';
import { byAge, isPattern, type Override } from '../../rules/override.ts';
import { compilePairIndex, hashSeed, hashText, hashUnit, PairIndex } from '../../rules/table/pair-index.ts';

/** The overrides that apply to one descriptor. */
export interface OverridesFound {
  /** The matching overrides, the strongest first: exact, then the longer pattern, then the older one. Without grants. */
  readonly overrides: readonly Override[];
  readonly grants: readonly Override[];
}

export class OverrideIndex {
  readonly #domains = new Map<string, DomainOverrides>();
  /** The ends of overrides, ascending. */
  readonly #endsMs: Float64Array;
  readonly #longest = new Map<string, number>();

  constructor(overrides: readonly Override[]) {
    for (const [domain, list] of Map.groupBy(overrides, (one) => one.domain)) {
      this.#domains.set(domain, new DomainOverrides(list));
      this.#longest.set(domain, Math.max(...list.map(({ match }) => match.length)));
    }
    this.#endsMs = Float64Array.from(overrides.flatMap(({ endsMs }) => endsMs ?? [])).sort();
  }

  /** Returns the next end of an override; infinity: none ends. */
  nextEndMs(nowMs: number): number {
    return this.#endsMs.find((endsMs) => endsMs > nowMs) ?? Number.POSITIVE_INFINITY;
  }

  /** Returns the number of entries of the domain's longest override; 0 if there is none. */
  longestMatch(domain: string): number {
    return this.#longest.get(domain) ?? 0;
  }

  /** Returns the overrides of a descriptor; undefined if none is in force at this time. */
  find(domain: string, entries: readonly Entry[], nowMs: number): OverridesFound | undefined {
    return this.#domains.get(domain)?.find(entries, nowMs);
  }
}

/** Compares overrides. The stronger one is first. */
export function byStrength(a: Override, b: Override): number {
  const pattern = Number(isPattern(a)) - Number(isPattern(b));
  return pattern || lengthOf(b) - lengthOf(a) || byAge(a, b);
}

function lengthOf({ match }: Override): number {
  return match.reduce((length, { value }) => length + value.length, 0);
}

/** Whether an override applies to a descriptor with these entries. */
export function overrideMatches({ match }: Pick<Override, 'match'>, entries: readonly Entry[]): boolean {
  if (match.length !== entries.length) return false;
  for (let i = 0; i < match.length; i++) {
    const { key, value } = entries[i]!;
    if (match[i]!.key !== key || !patternMatches(match[i]!.value, value)) return false;
  }
  return true;
}

/** The key of a group of overrides: the hash and length of a text. */
interface Literal {
  readonly hash: number;
  readonly length: number;
}

interface Placed extends Literal {
  readonly override: Override;
}

class DomainOverrides {
  readonly #exact: Groups;
  readonly #heads: Groups;
  readonly #tails: Groups;

  constructor(overrides: readonly Override[]) {
    const exact: Placed[] = [];
    const patterns: { head: Placed; tail: Placed }[] = [];
    for (const override of overrides) {
      const head: Placed = { ...headOf(override.match), override };
      if (isPattern(override)) patterns.push({ head, tail: { ...tailOf(override.match), override } });
      else exact.push(head);
    }
    const heads = new Groups(patterns.map(({ head }) => head));
    const tails = new Groups(patterns.map(({ tail }) => tail));
    const isByTail = patterns.map(({ head, tail }) => tails.countOf(tail) < heads.countOf(head));
    this.#exact = new Groups(exact);
    this.#tails = new Groups(patterns.flatMap(({ tail }, n) => (isByTail[n] ? tail : [])));
    this.#heads = new Groups(patterns.flatMap(({ head }, n) => (isByTail[n] ? [] : head)));
  }

  find(entries: readonly Entry[], nowMs: number): OverridesFound | undefined {
    let found: Override[] = [];
    const heads = this.#heads;
    let hash = hashSeed;
    if (heads.isEmpty) {
      let length = 0;
      for (let i = 0; i < entries.length; i++) {
        const { key, value } = entries[i]!;
        hash = hashUnit(hashText(hashUnit(hashText(hash, key), 0), value), 0);
        length += key.length + value.length + 2;
      }
      this.#exact.add(hash, length, entries, found);
    } else {
      this.#findByHeads(entries, found);
    }
    if (!this.#tails.isEmpty) this.#findByTails(entries, found);
    if (found.length === 0) return undefined;
    found = found.filter(({ endsMs }) => endsMs === undefined || endsMs > nowMs);
    if (found.length === 0) return undefined;
    if (found.length > 1) found.sort(byStrength);
    const overrides = found.filter(({ effect }) => effect.kind !== 'grant');
    return {
      overrides,
      grants:
        overrides.length === found.length ? none : found.filter(({ effect }) => effect.kind === 'grant'),
    };
  }

  #findByHeads(entries: readonly Entry[], found: Override[]): void {
    const heads = this.#heads;
    let hash = hashSeed;
    let length = 0;
    for (let i = 0; i < entries.length; i++) {
      const { key, value } = entries[i]!;
      hash = hashUnit(hashText(hash, key), 0);
      length += key.length + 1;
      if (heads.hasLength(length)) heads.add(hash, length, entries, found);
      for (let at = 0; at < value.length; at++) {
        hash = hashUnit(hash, value.charCodeAt(at));
        length += 1;
        if (heads.hasLength(length)) heads.add(hash, length, entries, found);
      }
      hash = hashUnit(hash, 0);
      length += 1;
    }
    this.#exact.add(hash, length, entries, found);
  }

  #findByTails(entries: readonly Entry[], found: Override[]): void {
    const tails = this.#tails;
    let hash = hashSeed;
    let length = 0;
    for (let i = entries.length - 1; i >= 0; i--) {
      const { key, value } = entries[i]!;
      if (tails.hasLength(length)) tails.add(hash, length, entries, found);
      for (let at = value.length - 1; at >= 0; at--) {
        hash = hashUnit(hash, value.charCodeAt(at));
        length += 1;
        if (tails.hasLength(length)) tails.add(hash, length, entries, found);
      }
      hash = hashUnit(hashText(hash, key), 0);
      length += key.length + 1;
    }
  }
}

const none: readonly Override[] = [];

/** Returns the key of the text before the first `*`; without one, of the whole text. */
function headOf(match: readonly Entry[]): Literal {
  let hash = hashSeed;
  let length = 0;
  for (const { key, value } of match) {
    hash = hashUnit(hashText(hash, key), 0);
    const star = value.indexOf('*');
    const literal = star === -1 ? value : value.slice(0, star);
    hash = hashText(hash, literal);
    length += key.length + 1 + literal.length;
    if (star !== -1) return { hash, length };
    hash = hashUnit(hash, 0);
    length += 1;
  }
  return { hash, length };
}

/** Returns the key of the text after the last `*`, read from the end: each value backwards, then its key. */
function tailOf(match: readonly Entry[]): Literal {
  let hash = hashSeed;
  let length = 0;
  for (const { key, value } of match.toReversed()) {
    const literal = value.slice(value.lastIndexOf('*') + 1);
    for (let at = literal.length - 1; at >= 0; at--) hash = hashUnit(hash, literal.charCodeAt(at));
    length += literal.length;
    if (literal.length < value.length) return { hash, length };
    hash = hashUnit(hashText(hash, key), 0);
    length += key.length + 1;
  }
  return { hash, length };
}

/** The overrides that share a hashed text, by that text. */
class Groups {
  readonly #index: PairIndex;
  readonly #lists: Override[][] = [];
  /** Whether any text has this length, by length. */
  readonly #hasLength: Uint8Array;

  constructor(all: readonly Placed[]) {
    const numbers = new Map<number, number>();
    const triples: number[] = [];
    let longest = 0;
    for (const { hash, length, override } of all) {
      // One number for both, because lengths are below 2^20.
      const name = hash * 2 ** 20 + length;
      const number = numbers.get(name);
      if (number !== undefined) {
        this.#lists[number]!.push(override);
        continue;
      }
      numbers.set(name, this.#lists.length);
      triples.push(hash, length, this.#lists.length);
      this.#lists.push([override]);
      longest = Math.max(longest, length);
    }
    this.#index = new PairIndex(compilePairIndex(Int32Array.from(triples)));
    this.#hasLength = new Uint8Array(longest + 1);
    for (const { length } of all) this.#hasLength[length] = 1;
  }

  get isEmpty(): boolean {
    return this.#lists.length === 0;
  }

  hasLength(length: number): boolean {
    return this.#hasLength[length] === 1;
  }

  countOf({ hash, length }: Literal): number {
    const slot = this.#index.find(hash, length);
    return slot === -1 ? 0 : this.#lists[this.#index.value(slot)]!.length;
  }

  /** Adds the matching overrides of the group with this text. */
  add(hash: number, length: number, entries: readonly Entry[], to: Override[]): void {
    const slot = this.#index.find(hash, length);
    if (slot === -1) return;
    for (const override of this.#lists[this.#index.value(slot)]!)
      if (overrideMatches(override, entries)) to.push(override);
  }
}
