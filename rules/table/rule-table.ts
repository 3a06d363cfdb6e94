import { type CounterKeys, countedEntry, EntryMark, unambiguousStem } from '../counter-keys.ts';
import {
  type MatchedRule,
  type NameForm,
  type RuleMatch,
  type RuleMatcher,
  usualNames,
} from '../match-result.ts';
import type { Entry } from '../model.ts';
import {
  type ListedRule,
  listedRules,
  type PlacedDomain,
  rlconfigLines,
  ruleFileLines,
  rulePaths,
} from './listed-rules.ts';
import { hashSeed, hashText, hashUnit, PairIndex, unitsEqual } from './pair-index.ts';
import { Node, NodeFlag, openRuleTable, RuleNodes, type RuleTableSections } from './rule-table-format.ts';
import { WildcardIndex } from './wildcard-index.ts';

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

/**
 * Matches on the bytes that `compileRules` made, without unpacking them: ready at once, whatever their size.
 * It keeps the buffer; nobody may write to it.
 */
class TableSegment implements RuleMatcher {
  readonly rules: RuleNodes;
  /** Sum of those of its domains, see `domainFigures`. */
  readonly contentHash: bigint;
  /** All rules, those without a limit included. */
  readonly ruleCount: number;
  readonly #maxDepth: number;
  readonly #s: RuleTableSections;
  readonly #nodeIndex: PairIndex;
  readonly #wildcards: WildcardIndex;
  /** Of the match under way. */
  readonly #path: MatchPath;

  /** Throws a RangeError when the bytes are no whole table of this version. */
  constructor(bytes: ArrayBufferLike) {
    const { sections, counts, contentHash } = openRuleTable(bytes);
    this.#s = sections;
    this.#nodeIndex = new PairIndex(sections.nodeIndex);
    this.rules = new RuleNodes(sections);
    this.#wildcards = new WildcardIndex(sections);
    this.#maxDepth = counts.maxDepth;
    this.#path = new MatchPath(this.rules, counts.maxDepth);
    this.ruleCount = counts.rules;
    this.contentHash = contentHash;
  }

  hasDomain(domain: string): boolean {
    return this.findDomain(domain) >= 0;
  }

  /** Its node, or -1. */
  findDomain(domain: string): number {
    return this.#findText(0, hashText(hashSeed, domain), domain);
  }

  match(domain: string, entries: readonly Entry[], names = usualNames): RuleMatch | undefined {
    const depth = entries.length;
    if (depth === 0 || depth > this.#maxDepth) return undefined;
    let node = this.findDomain(domain);
    if (node < 0) return undefined;
    for (let i = 0; i < depth; i++) {
      if (this.rules.childCount(node) === 0) return undefined;
      const { key, value } = entries[i]!;
      node = this.#step(node, i, key, value);
      if (node < 0) return undefined;
    }
    const flags = this.rules.flags(node);
    if ((flags & NodeFlag.hasLimit) === 0) return undefined;
    const rule: MatchedRule = this.rules.rule(node);
    const form = (flags & NodeFlag.ownKeys) === 0 ? names.counterKeys : 'unambiguous';
    return {
      rule,
      metricKey: this.#path.metricKey(domain, entries, names.sanitizeDescriptorMetricDots),
      metricPerValue: this.#path.metricPerValue,
      counterStem: this.#path.counterStem(domain, entries, form),
    };
  }

  /** The child that an entry leads to, or -1: key and value, else the wildcards, else the key alone. */
  #step(parent: number, i: number, key: string, value: string): number {
    const keyHash = hashText(hashSeed, key);
    const hash = hashText(hashUnit(keyHash, underscore), value);
    const exact = this.#findPair(parent, hash, key, value);
    if (exact >= 0) {
      this.#path.set(i, exact, MatchKind.exact);
      return exact;
    }
    const level = this.rules.level(parent);
    if (level !== 0) {
      const wildcard = this.#wildcards.find(level, `${key}_${value}`);
      if (wildcard >= 0) {
        this.#path.set(i, wildcard, MatchKind.wildcard);
        return wildcard;
      }
    }
    const keyOnly = this.#findText(parent, keyHash, key);
    if (keyOnly >= 0) this.#path.set(i, keyOnly, MatchKind.keyOnly);
    return keyOnly;
  }

  /** The child whose composite is `text`, or -1. */
  #findText(parent: number, hash: number, text: string): number {
    const index = this.#nodeIndex;
    const { nodes, strings } = this.#s;
    for (let slot = index.find(parent, hash); slot >= 0; slot = index.next(slot, parent, hash)) {
      const node = index.value(slot);
      const at = node * Node.words;
      if (nodes[at + Node.compositeLength] !== text.length) continue;
      if (unitsEqual(strings, nodes[at + Node.compositeOffset]!, text, 0, text.length)) return node;
    }
    return -1;
  }

  /** The child whose composite is `key_value`, or -1, without building that string. */
  #findPair(parent: number, hash: number, key: string, value: string): number {
    const index = this.#nodeIndex;
    const { nodes, strings } = this.#s;
    for (let slot = index.find(parent, hash); slot >= 0; slot = index.next(slot, parent, hash)) {
      const node = index.value(slot);
      const at = node * Node.words;
      if (nodes[at + Node.compositeLength] !== key.length + 1 + value.length) continue;
      const offset = nodes[at + Node.compositeOffset]!;
      const valueOffset = offset + key.length + 1;
      if (
        strings[valueOffset - 1] === underscore &&
        unitsEqual(strings, offset, key, 0, key.length) &&
        unitsEqual(strings, valueOffset, value, 0, value.length)
      ) {
        return node;
      }
    }
    return -1;
  }
}

/** How an entry found its rule. */
const MatchKind = { exact: 0, wildcard: 1, keyOnly: 2 } as const;

/**
 * The rule each entry of a descriptor found, written by the matcher; it makes metric key and counter stem of the match, also
 * with share_threshold. As in the Go service the request's own key stands in both, and `_` with nothing behind it is
 * written only by detailed_metric. Where a wildcard matched a request key that is not the rule's (`k_*` matches key `k_a`),
 * the whole composite is the pattern.
 */
class MatchPath {
  readonly #rules: RuleNodes;
  readonly #nodes: Int32Array;
  readonly #kinds: Uint8Array;
  #metricPerValue = false;

  constructor(rules: RuleNodes, maxDepth: number) {
    this.#rules = rules;
    this.#nodes = new Int32Array(maxDepth);
    this.#kinds = new Uint8Array(maxDepth);
  }

  set(i: number, node: number, kind: number): void {
    this.#nodes[i] = node;
    this.#kinds[i] = kind;
  }

  /** Whether the request's own text is in the metric key that was asked for last. */
  get metricPerValue(): boolean {
    return this.#metricPerValue;
  }

  metricKey(domain: string, entries: readonly Entry[], undotted: boolean): string {
    this.#metricPerValue = false;
    const leaf = this.#nodes[entries.length - 1]!;
    const detailed = (this.#rules.flags(leaf) & NodeFlag.detailedMetric) !== 0;
    const shares = detailed && this.#sharesAny(entries.length);
    let metric = domain;
    for (let i = 0; i < entries.length; i++) {
      const { key, value } = entries[i]!;
      const segment = detailed ? this.#detailedSegment(i, key, value, shares) : this.#segment(i, key, value);
      metric += `.${undotted ? segment.replaceAll('.', '_') : segment}`;
    }
    return metric;
  }

  /** Without prefix and window. */
  counterStem(domain: string, entries: readonly Entry[], form: CounterKeys): string {
    if (form === 'unambiguous') return this.#unambiguousStem(domain, entries);
    let stem = `${domain}_`;
    for (let i = 0; i < entries.length; i++) {
      const { key, value } = entries[i]!;
      stem += this.#isShared(i) ? `${this.#keyAndPattern(i, key)}_` : `${key}_${value}_`;
    }
    return stem;
  }

  /**
   * A value that is the very text of a pattern finds its rule as any other value does, and counts with them: nobody gets a
   * counter of his own by sending it.
   */
  #unambiguousStem(domain: string, entries: readonly Entry[]): string {
    let text = '';
    for (let i = 0; i < entries.length; i++) {
      const { key, value } = entries[i]!;
      const isShared =
        this.#kinds[i] !== MatchKind.keyOnly && (this.#flags(i) & NodeFlag.shareThreshold) !== 0;
      text += isShared ? this.#sharedEntry(i, key) : countedEntry(key, EntryMark.value, value);
    }
    return unambiguousStem(domain, text);
  }

  #sharedEntry(i: number, key: string): string {
    const composite = this.#rules.composite(this.#nodes[i]!);
    if (!beginsWithKey(composite, key)) return countedEntry(key, EntryMark.wholePattern, composite);
    return countedEntry(key, EntryMark.pattern, composite.slice(key.length + 1));
  }

  #sharesAny(depth: number): boolean {
    for (let i = 0; i < depth; i++) {
      if (this.#isShared(i)) return true;
    }
    return false;
  }

  #detailedSegment(i: number, key: string, value: string, shares: boolean): string {
    if (shares && this.#isShared(i)) return this.#keyAndLiteral(i, key);
    if (this.#kinds[i] !== MatchKind.exact) this.#metricPerValue = true;
    return shares ? keyAndValue(key, value) : `${key}_${value}`;
  }

  #segment(i: number, key: string, value: string): string {
    const kind = this.#kinds[i]!;
    if (kind === MatchKind.exact) return keyAndValue(key, value);
    const valueToMetric = (this.#flags(i) & NodeFlag.valueToMetric) !== 0;
    if (kind === MatchKind.keyOnly && !valueToMetric) return key;
    if (kind === MatchKind.wildcard && !valueToMetric) return this.#keyAndPattern(i, key);
    if (this.#isShared(i)) return this.#keyAndLiteral(i, key);
    this.#metricPerValue = true;
    return keyAndValue(key, value);
  }

  #flags(i: number): number {
    return this.#rules.flags(this.#nodes[i]!);
  }

  #isShared(i: number): boolean {
    return this.#kinds[i] === MatchKind.wildcard && (this.#flags(i) & NodeFlag.shareThreshold) !== 0;
  }

  /** `key_<pattern>`. */
  #keyAndPattern(i: number, key: string): string {
    const composite = this.#rules.composite(this.#nodes[i]!);
    if (beginsWithKey(composite, key)) return composite;
    this.#metricPerValue = true;
    return `${key}_${composite}`;
  }

  /** `key_<pattern up to its first *>`. The only one may be in the request's own key: then the whole of it. */
  #keyAndLiteral(i: number, key: string): string {
    const composite = this.#rules.composite(this.#nodes[i]!);
    const isRulesKey = beginsWithKey(composite, key);
    if (!isRulesKey) this.#metricPerValue = true;
    const from = isRulesKey ? key.length + 1 : 0;
    const star = composite.indexOf('*', from);
    return keyAndValue(key, star < 0 ? composite.slice(from) : composite.slice(from, star));
  }
}

function keyAndValue(key: string, value: string): string {
  return value === '' ? key : `${key}_${value}`;
}

function beginsWithKey(composite: string, key: string): boolean {
  return composite.startsWith(key) && composite.charCodeAt(key.length) === underscore;
}
const underscore = 0x5f;
