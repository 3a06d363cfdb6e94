import type { MatchedRule, NameForm, RuleMatch, RuleMatcher } from '../match-result.ts';
import type { Entry } from '../model.ts';
import {
  type ListedRule,
  listedRules,
  type PlacedDomain,
  rlconfigLines,
  ruleFileLines,
  rulePaths,
} from './listed-rules.ts';
import { TableSegment } from './table-segment.ts';

/** What `compileRules` made of all rules, or of those of some domains. Plain data. */
export interface RuleLayer {
  bytes: ArrayBufferLike;
  /** Their rules give way to those in the bytes; one without any there is gone. Undefined: all domains. */
  domains: readonly string[] | undefined;
}

interface OpenLayer {
  bytes: ArrayBufferLike;
  domains: readonly string[];
  segment: TableSegment;
}

/**
 * All rules: those that were compiled together, and over them, in layers, the domains that have changed since. So a change
 * costs what has changed. A domain is found in one layer alone. It never changes itself.
 */
export class RuleTable implements RuleMatcher {
  readonly domainCount: number;
  /** All rules, those without a limit included. */
  readonly ruleCount: number;
  /** 16 hexadecimal digits: equal for domains with equal rules in equal order, whatever the split into files and layers. */
  readonly contentHash: string;
  readonly #bytes: ArrayBufferLike;
  readonly #base: TableSegment;
  readonly #layers: readonly OpenLayer[];
  /** Where each domain of the layers is; a search is spared where there are none. */
  readonly #over: ReadonlyMap<string, TableSegment> | undefined;

  /** Throws a RangeError when the bytes are no whole table of this version. */
  constructor(bytes: ArrayBufferLike, layers: readonly OpenLayer[] = [], base = new TableSegment(bytes)) {
    this.#bytes = bytes;
    this.#base = base;
    this.#layers = layers;
    const over = new Map(
      layers.flatMap(({ domains, segment }) => domains.map((domain) => [domain, segment] as const)),
    );
    this.#over = over.size === 0 ? undefined : over;
    let domainCount = base.rules.childCount(0);
    let { ruleCount, contentHash } = base;
    const add = (segment: TableSegment, domain: string, sign: 1 | -1): void => {
      const node = segment.findDomain(domain);
      if (node < 0) return;
      const { hash, rules } = segment.rules.domainFigures(node);
      domainCount += sign;
      ruleCount += sign * rules;
      contentHash += BigInt(sign) * hash;
    };
    for (const [domain, segment] of over) {
      add(base, domain, -1);
      add(segment, domain, 1);
    }
    this.domainCount = domainCount;
    this.ruleCount = ruleCount;
    this.contentHash = BigInt.asUintN(64, contentHash).toString(16).padStart(16, '0');
  }

  /** What it was made from, and any number of others can be, also in other threads: the first is whole, the others go over it in this order. */
  get layers(): readonly [RuleLayer, ...RuleLayer[]] {
    const over = this.#layers.map(({ bytes, domains }) => ({ bytes, domains }));
    return [{ bytes: this.#bytes, domains: undefined }, ...over];
  }

  /** All rules as they are with this layer. Undefined before: the layer has to be whole. */
  static with(before: RuleTable | undefined, { bytes, domains }: RuleLayer): RuleTable {
    if (domains === undefined) return new RuleTable(bytes);
    if (before === undefined) throw new RangeError('rules of some domains have no others to go over');
    return before.#with({ bytes, domains, segment: new TableSegment(bytes) });
  }

  #with(layer: OpenLayer): RuleTable {
    const taken = new Set(layer.domains);
    const needed = this.#layers.filter(({ domains, segment }) =>
      domains.some((domain) => !taken.has(domain) && this.#over?.get(domain) === segment),
    );
    return new RuleTable(this.#bytes, [...needed, layer], this.#base);
  }

  hasDomain(domain: string): boolean {
    return this.#segmentOf(domain).hasDomain(domain);
  }

  match(domain: string, entries: readonly Entry[], names?: NameForm): RuleMatch | undefined {
    return this.#segmentOf(domain).match(domain, entries, names);
  }

  /** A line for each rule with a limit, as the debug listener's `/rlconfig` shows them. Lazy. */
  rlconfigLines(): Iterable<string> {
    return rlconfigLines(this.#domains());
  }

  /** Lines of one JSON text: all rules with all they say, those of a domain in the order of their declaration. Lazy. */
  ruleFileLines(): Iterable<string> {
    return ruleFileLines(this.#domains());
  }

  /** Every domain and, after it, its rules of all levels. Lazy. */
  listedRules(): Iterable<ListedRule> {
    return listedRules(this.#domains());
  }

  /** Where the rules with a limit stand, as `listedRules` writes it, by the object that their matches hold. Makes them all. */
  rulePaths(): ReadonlyMap<MatchedRule, string> {
    return rulePaths(this.#domains());
  }

  #segmentOf(domain: string): TableSegment {
    return this.#over?.get(domain) ?? this.#base;
  }

  /** By their names. */
  #domains(): PlacedDomain[] {
    const found: PlacedDomain[] = [];
    for (const segment of [this.#base, ...this.#layers.map((layer) => layer.segment)]) {
      const { rules } = segment;
      for (let n = 0; n < rules.childCount(0); n++) {
        const node = rules.child(0, n);
        const name = rules.readComposite(node);
        if (this.#segmentOf(name) === segment) found.push({ name, rules, node });
      }
    }
    return found.sort((a, b) => (a.name < b.name ? -1 : 1));
  }
}
