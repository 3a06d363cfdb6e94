import type { Rule } from '../model.ts';
import type { Entry } from '../request.ts';
import { FirstPattern } from '../review/first-pattern.ts';
import { compositeOf } from '../review/rule-level.ts';

/** Finds rules of one level as the matcher does, with the rules as written as the answer. */
export class IndexedLevel {
  readonly rules: readonly Rule[];
  readonly #byComposite: ReadonlyMap<string, Rule>;
  readonly #first: FirstPattern;
  /** What stands before the first star of a pattern, sorted. */
  readonly #prefixes: string[];
  readonly #singles = new WeakMap<IndexedLevel, Map<Rule, Rule[]>>();
  #plainKeys: Set<string> | undefined;

  constructor(rules: readonly Rule[]) {
    const composites = rules.map(compositeOf);
    this.rules = rules;
    this.#byComposite = new Map(rules.map((rule, index) => [composites[index]!, rule]));
    this.#first = new FirstPattern(composites);
    this.#prefixes = [...this.#first.byPrefix.keys()].sort();
  }

  /** Keys without a star. */
  get plainKeys(): ReadonlySet<string> {
    this.#plainKeys ??= new Set(this.rules.flatMap(({ key }) => (key.includes('*') ? [] : [key])));
    return this.#plainKeys;
  }

  find({ key, value }: Entry): Rule | undefined {
    const text = `${key}_${value}`;
    const exact = this.#byComposite.get(text);
    if (exact !== undefined) return exact;
    const index = this.#first.indexFor(text);
    return index === undefined ? this.#byComposite.get(key) : this.rules[index];
  }

  /** Rules of another level for one key and value, by the rule for more than that which their requests find here. */
  singleMeetings(other: IndexedLevel): ReadonlyMap<Rule, readonly Rule[]> {
    let found = this.#singles.get(other);
    if (found === undefined) {
      found = new Map();
      for (const rule of other.rules) {
        const composite = compositeOf(rule);
        if (rule.value === '' || composite.includes('*') || this.#byComposite.has(composite)) continue;
        const met = this.find(rule);
        if (met === undefined) continue;
        const beside = found.get(met);
        if (beside === undefined) found.set(met, [rule]);
        else beside.push(rule);
      }
      this.#singles.set(other, found);
    }
    return found;
  }

  /** Patterns that begin as the given one, up to the first star of either: all that fit some of the same texts are among them. */
  patternsLike(pattern: string): Rule[] {
    const [prefix = ''] = pattern.split('*', 1);
    const found: Rule[] = [];
    for (let length = 0; length < prefix.length; length++) {
      found.push(...this.#withPrefix(prefix.slice(0, length)));
    }
    for (let at = this.#firstPrefixFrom(prefix); this.#prefixes[at]?.startsWith(prefix) === true; at++) {
      found.push(...this.#withPrefix(this.#prefixes[at]!));
    }
    return found;
  }

  #withPrefix(prefix: string): Rule[] {
    return (this.#first.byPrefix.get(prefix) ?? []).map(({ index }) => this.rules[index]!);
  }

  #firstPrefixFrom(prefix: string): number {
    let low = 0;
    let high = this.#prefixes.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#prefixes[middle]! < prefix) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
