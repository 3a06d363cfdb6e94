import { patternMatches } from '../pattern-matches.ts';

interface Pattern {
  index: number;
  composite: string;
}

/** Finds the first of many patterns that a text matches, by what they begin with, so that not every one is tried. */
export class FirstPattern {
  readonly #byPrefix = new Map<string, Pattern[]>();
  readonly #lengths: number[];

  /** Composites of a level; those without a star are passed over. */
  constructor(composites: readonly string[]) {
    for (const [index, composite] of composites.entries()) {
      const star = composite.indexOf('*');
      if (star === -1) continue;
      const prefix = composite.slice(0, star);
      const patterns = this.#byPrefix.get(prefix);
      if (patterns === undefined) this.#byPrefix.set(prefix, [{ index, composite }]);
      else patterns.push({ index, composite });
    }
    this.#lengths = [...new Set([...this.#byPrefix.keys()].map(({ length }) => length))];
  }

  /** Positions of the patterns in the level, by what stands before their first star. */
  get byPrefix(): ReadonlyMap<string, readonly { index: number }[]> {
    return this.#byPrefix;
  }

  /** Its position in the level, or undefined. */
  indexFor(text: string): number | undefined {
    let first: number | undefined;
    for (const length of this.#lengths) {
      if (length > text.length) continue;
      for (const { index, composite } of this.#byPrefix.get(text.slice(0, length)) ?? []) {
        if (first !== undefined && index > first) break;
        if (patternMatches(composite, text)) first = index;
      }
    }
    return first;
  }
}
