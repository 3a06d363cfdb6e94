import type { NameForm, RuleMatch } from '../../rules/match-result.ts';
import { compositeOf, type Entry, type Limit, type Rule, type RuleSource } from '../../rules/model.ts';
import { characterOutside, FirstPattern } from '../../rules/review/rule-level.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';

/** Finds rules of one level as the matcher does, and returns them as written. */
export class IndexedLevel {
  readonly rules: readonly Rule[];
  readonly #byComposite: ReadonlyMap<string, Rule>;
  readonly #first: FirstPattern;
  /** The texts before the first star of each pattern, sorted. */
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

  /**
   * Returns rules of another level for one key and value, by the rule that their requests find here. That rule matches more than
   * this key and value.
   */
  singleCollisions(other: IndexedLevel): ReadonlyMap<Rule, readonly Rule[]> {
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

  /**
   * Returns the patterns that begin as the given one, up to the first star of either. They include all that match some of the
   * same texts.
   */
  patternsLike(pattern: string): Rule[] {
    const [prefix = ''] = pattern.split('*', 1);
    const found: Rule[] = [];
    for (let length = 0; length < prefix.length; length++) {
      for (const rule of this.#withPrefix(prefix.slice(0, length))) found.push(rule);
    }
    for (let at = this.#firstPrefixFrom(prefix); this.#prefixes[at]?.startsWith(prefix) === true; at++) {
      for (const rule of this.#withPrefix(this.#prefixes[at]!)) found.push(rule);
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

/** The rules of one domain on one side of a comparison, and their matcher. */
export class DomainSide {
  /** The rules of the first level. */
  readonly rules: readonly Rule[];
  readonly #top: IndexedLevel;
  readonly #below = new Map<Rule, IndexedLevel>();
  readonly #domain: string;
  readonly #table: RuleTable;
  /** The keys that the matcher compares, of all rules. */
  composites = '';
  /** The limits of all rules. */
  readonly limits: Limit[] = [];

  constructor(domain: string, sources: readonly RuleSource[]) {
    const own = sources.filter((source) => source.domain === domain);
    this.#domain = domain;
    this.rules = own.flatMap(({ descriptors }) => descriptors);
    this.#top = new IndexedLevel(this.rules);
    this.#table = new RuleTable(compileRules(own));
    for (const rule of this.rules) this.#collect(rule);
  }

  /** The rule that each entry finds, up to the first one that finds none. */
  walk(entries: readonly Entry[]): Rule[] {
    const found: Rule[] = [];
    let level = this.#top;
    for (const entry of entries) {
      const rule = level.find(entry);
      if (rule === undefined) break;
      found.push(rule);
      level = this.levelBelow(rule);
    }
    return found;
  }

  match(entries: readonly Entry[], names?: NameForm): RuleMatch | undefined {
    return this.#table.match(this.#domain, entries, names);
  }

  /** The level that comes after a rule; the first one after none. */
  levelBelow(rule: Rule | undefined): IndexedLevel {
    if (rule === undefined) return this.#top;
    let level = this.#below.get(rule);
    if (level === undefined) {
      level = new IndexedLevel(rule.descriptors);
      this.#below.set(rule, level);
    }
    return level;
  }

  #collect(rule: Rule): void {
    this.limits.push(...rule.limits);
    this.composites += compositeOf(rule);
    for (const below of rule.descriptors) this.#collect(below);
  }
}

/** The two sides of a comparison. */
export class Sides {
  readonly before: DomainSide;
  readonly after: DomainSide;
  /** A character that no rule of either side has, to stand for any text. */
  readonly foreign: string;

  constructor(domain: string, before: readonly RuleSource[], after: readonly RuleSource[]) {
    this.before = new DomainSide(domain, before);
    this.after = new DomainSide(domain, after);
    this.foreign = characterOutside(this.before.composites + this.after.composites);
  }
}
