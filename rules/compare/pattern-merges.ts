/**
 * What two patterns have in common, as patterns: `a*` and `*b` make `a*b`. A text that is in both, and in none of some
 * other patterns, exists exactly if a merge with a foreign character for each star is in none of them, either.
 */

/** We chose both: patterns with so many stars, or so long, are rare, and their merges many. */
const mostMerges = 64;
const longestPair = 2_000;

export interface PatternMerges {
  merges: string[];
  /** Whether those are all. */
  isComplete: boolean;
}

export function patternMerges(a: string, b: string): PatternMerges {
  if (!canBeginAlike(a, b)) return { merges: [], isComplete: true };
  if (isPrefix(a) && isPrefix(b)) return { merges: [a.length > b.length ? a : b], isComplete: true };
  if (a.length + b.length > longestPair) return { merges: [], isComplete: false };
  const merger = new Merger(a, b);
  const merges = [...merger.from(0, 0)];
  return { merges, isComplete: merger.isComplete };
}

/** Whether the only star is at the end, as in most patterns. */
export function isPrefix(pattern: string): boolean {
  return pattern.indexOf('*') === pattern.length - 1;
}

function canBeginAlike(a: string, b: string): boolean {
  const [headA = '', headB = ''] = [a.split('*', 1)[0], b.split('*', 1)[0]];
  return headA.length < headB.length ? headB.startsWith(headA) : headA.startsWith(headB);
}

class Merger {
  isComplete = true;
  readonly #a: string;
  readonly #b: string;
  /** Merges of the rest of both, by where the rests begin. */
  readonly #rests = new Map<number, ReadonlySet<string>>();

  constructor(a: string, b: string) {
    this.#a = a;
    this.#b = b;
  }

  from(i: number, j: number): ReadonlySet<string> {
    const place = i * (this.#b.length + 1) + j;
    let rest = this.#rests.get(place);
    if (rest === undefined) {
      rest = this.#merged(i, j);
      this.#rests.set(place, rest);
    }
    return rest;
  }

  #merged(i: number, j: number): ReadonlySet<string> {
    const [unitA = '', unitB = ''] = [this.#a[i], this.#b[j]];
    if (unitA === '' && unitB === '') return new Set(['']);
    const found = new Set<string>();
    if (unitA === '*' && unitB === '*') {
      this.#add(found, '*', this.from(i + 1, j));
      this.#add(found, '*', this.from(i, j + 1));
    } else if (unitA === '*') {
      this.#add(found, '', this.from(i + 1, j));
      if (unitB !== '') this.#add(found, unitB, this.from(i, j + 1));
    } else if (unitB === '*') {
      this.#add(found, '', this.from(i, j + 1));
      if (unitA !== '') this.#add(found, unitA, this.from(i + 1, j));
    } else if (unitA === unitB) {
      this.#add(found, unitA, this.from(i + 1, j + 1));
    }
    return found;
  }

  #add(found: Set<string>, first: string, rests: ReadonlySet<string>): void {
    for (const rest of rests) {
      if (found.size >= mostMerges) {
        this.isComplete = false;
        return;
      }
      // Two stars that meet are one.
      found.add(first === '*' && rest.startsWith('*') ? rest : first + rest);
    }
  }
}
