import { describeRule, limitTexts } from '../describe.ts';
import {
  defaultNames,
  type MatchedRule,
  type NameForm,
  type RuleMatch,
  type RuleMatcher,
  type RuleStep,
  type RuleWalk,
} from '../match-result.ts';
import { type Entry, makeRule, type Rule } from '../model.ts';
import { ruleValue } from '../write-rules.ts';
import { MatchKind, MatchPath, sharingFlag, underscore } from './match-path.ts';
import { hashSeed, hashText, hashUnit, PairIndex, unitsEqual } from './pair-index.ts';
import { Node, NodeFlag, openRuleTable, RuleNodes, type RuleTableSections } from './rule-table-format.ts';
import { WildcardIndex } from './wildcard-index.ts';

/** The compiled form of all rules, or of the rules of some domains. Plain data. */
export interface RuleLayer {
  bytes: ArrayBufferLike;
  /** The domains whose rules the bytes replace. A domain without rules in the bytes no longer exists. Undefined: all domains. */
  domains: readonly string[] | undefined;
}

/** Chosen: examining this number of rules of a level one by one takes some milliseconds. */
const maxOfLevel = 1_000;

/** A domain, or a rule of any level. */
export interface ListedRule {
  /** The path: `domain`, or `domain.key_value.key...` with patterns as they are written. */
  path: string;
  /** The rule in the form of a table. Undefined for a domain. */
  rule: Rule | undefined;
}

interface OpenLayer {
  bytes: ArrayBufferLike;
  domains: readonly string[];
  segment: TableSegment;
}

/**
 * All rules: those that were compiled together, and layers of the domains that have changed since. So the cost of a change depends only
 * on the changed domains. A domain is found in exactly one layer. A table never changes.
 */
export class RuleTable implements RuleMatcher {
  readonly domainCount: number;
  /** The number of all rules, including those without a limit. */
  readonly ruleCount: number;
  /**
   * A hash of 16 hexadecimal digits. It is equal for domains with equal rules in the same order, regardless of their files and layers.
   */
  readonly contentHash: string;
  readonly #bytes: ArrayBufferLike;
  readonly #base: TableSegment;
  readonly #layers: readonly OpenLayer[];
  /** The layer that has each domain. Undefined if there are no layers, which saves a lookup. */
  readonly #over: ReadonlyMap<string, TableSegment> | undefined;

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

  /**
   * The layers of this table. Any number of equal tables can be created from them, also in other threads. The first layer is whole, and
   * the others override it in this order.
   */
  get layers(): readonly [RuleLayer, ...RuleLayer[]] {
    const over = this.#layers.map(({ bytes, domains }) => ({ bytes, domains }));
    return [{ bytes: this.#bytes, domains: undefined }, ...over];
  }

  /** Returns the rules of `before` with this layer on top of them. If `before` is undefined, the layer must be whole. */
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

  hasLevel(domain: string, level: number): boolean {
    return this.#segmentOf(domain).hasLevel(domain, level);
  }

  match(domain: string, entries: readonly Entry[], names?: NameForm): RuleMatch | undefined {
    return this.#segmentOf(domain).match(domain, entries, names);
  }

  walk(domain: string): RuleWalk | undefined {
    return this.#segmentOf(domain).walk(domain);
  }

  /** Yields a line for each limit, as the debug listener's `/rlconfig` shows them. Lazy, so that a long list can be written in slices. */
  *rlconfigLines(): Generator<string, void> {
    for (const { path, rule } of this.listedRules()) {
      if (rule === undefined) continue;
      const ofRule = describeRule(rule).map(({ name, texts }) => `, ${name}: ${texts.join(' ')}`);
      for (const fields of limitTexts(rule.limits)) yield `${path}: ${fields.join(' ')}${ofRule.join('')}`;
    }
  }

  /**
   * Yields all rules as one JSON text: a list of rule files, one for each domain, with its rules in the order of their
   * declaration. A table knows only the joined form `key_value` of a rule, because it compares that. So the joined form is the
   * `key`, and there is no `value`. There is a line for each top-level rule, so that a long list can be written in slices.
   */
  *ruleFileLines(): Generator<string, void> {
    const domains = this.#domains();
    yield '[';
    for (const [n, { name, rules, node }] of domains.entries()) {
      yield `{"domain":${JSON.stringify(name)},"descriptors":[`;
      const last = rules.childCount(node) - 1;
      for (let i = 0; i <= last; i++) {
        yield JSON.stringify(ruleValue(ruleOf(rules, rules.child(node, i)))) + (i < last ? ',' : '');
      }
      yield n < domains.length - 1 ? ']},' : ']}';
    }
    yield ']';
  }

  /**
   * Yields every domain by its name and, after it, its rules of all levels: parents before children, siblings by composite key. The
   * result is lazy.
   */
  *listedRules(): Generator<ListedRule, void> {
    for (const { name, rules, node: domain } of this.#domains()) {
      yield { path: name, rule: undefined };
      for (const { node, path } of rulesBelow(rules, domain, name)) yield { path, rule: ruleOf(rules, node) };
    }
  }

  /** Returns the sorted names. */
  domainNames(): string[] {
    return this.#domains().map(({ name }) => name);
  }

  /**
   * Returns the rules of the domain's first level. The rules below them are read when they are accessed. `key` has the joined
   * form of key and value, and there is no `value`.
   */
  rulesOf(domain: string): Rule[] | undefined {
    const segment = this.#segmentOf(domain);
    const node = segment.findDomain(domain);
    return node < 0 ? undefined : childrenOf(segment.rules, node);
  }

  /**
   * Returns the rules on the path of a descriptor with these entries, as `rulesOf` does. On a very large level, it returns the rule that
   * the entry leads to, and its neighbors in the alphabet. It also returns the number of rules on each level that it reaches. Returns
   * undefined if there is no such domain.
   */
  rulesAlong(domain: string, entries: readonly Entry[]): { rules: Rule[]; sizes: number[] } | undefined {
    const segment = this.#segmentOf(domain);
    const node = segment.findDomain(domain);
    return node < 0 ? undefined : segment.rulesAlong(node, entries);
  }

  #segmentOf(domain: string): TableSegment {
    return this.#over?.get(domain) ?? this.#base;
  }

  /** Returns the domains by their names. */
  #domains(): { name: string; rules: RuleNodes; node: number }[] {
    const found: { name: string; rules: RuleNodes; node: number }[] = [];
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

function* rulesBelow(
  rules: RuleNodes,
  domain: number,
  name: string,
): Generator<{ node: number; path: string }, void> {
  /** The nodes from the domain to the node that was visited last, and the next child of each of them. */
  const open = [{ node: domain, path: name, nextChild: 0 }];
  for (let top = open.at(-1); top !== undefined; top = open.at(-1)) {
    if (top.nextChild === rules.childCount(top.node)) {
      open.pop();
      continue;
    }
    const node = rules.sortedChild(top.node, top.nextChild++);
    const one = { node, path: `${top.path}.${rules.readComposite(node)}`, nextChild: 0 };
    yield one;
    open.push(one);
  }
}

/** Creates a rule. Its limits and the rules below it are created at each access. `below` defaults to all of its children. */
function ruleOf(
  rules: RuleNodes,
  node: number,
  below: (node: number) => Rule[] = (parent) => childrenOf(rules, parent),
): Rule {
  const rule = Object.assign(makeRule({ key: rules.readComposite(node) }, []), rules.traits(node));
  return Object.defineProperties(rule, {
    limits: { enumerable: true, get: () => rules.limits(node) },
    descriptors: { enumerable: true, get: () => below(node) },
  });
}

/** Returns the rules of one level in the order of their declaration. */
function childrenOf(rules: RuleNodes, node: number): Rule[] {
  return Array.from({ length: rules.childCount(node) }, (_, i) => ruleOf(rules, rules.child(node, i)));
}

/**
 * Matches on the bytes that `compileRules` created, without unpacking them. It is ready at once, regardless of their size. It retains the
 * buffer, which must not be changed.
 */
class TableSegment implements RuleMatcher {
  readonly rules: RuleNodes;
  /** The sum of the hashes of its domains; see `domainFigures`. */
  readonly contentHash: bigint;
  /** The number of all rules, including those without a limit. */
  readonly ruleCount: number;
  readonly #maxDepth: number;
  /** The number of levels by domain, for domains that were looked up. */
  readonly #depths = new Map<string, number>();
  readonly #s: RuleTableSections;
  readonly #nodeIndex: PairIndex;
  readonly #wildcards: WildcardIndex;
  /** The path of the current match. */
  readonly #path: MatchPath;

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

  hasLevel(domain: string, level: number): boolean {
    let depth = this.#depths.get(domain);
    if (depth === undefined) {
      const node = this.findDomain(domain);
      depth = node < 0 ? 0 : this.rules.depthBelow(node);
      if (node >= 0) this.#depths.set(domain, depth);
    }
    return level <= depth;
  }

  /** Returns the node of a domain, or -1. */
  findDomain(domain: string): number {
    return this.#findText(0, hashText(hashSeed, domain), domain);
  }

  match(domain: string, entries: readonly Entry[], names = defaultNames): RuleMatch | undefined {
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
    if ((flags & NodeFlag.limits) === 0) return undefined;
    const rule: MatchedRule = this.rules.rule(node);
    if (rule.path === '') {
      rule.domain = domain;
      rule.path = this.#path.rulePath(domain, depth);
    }
    const form = (flags & NodeFlag.ownKeys) === 0 ? names.counterKeys : 'unambiguous';
    return {
      rule,
      metricKey: this.#path.metricKey(domain, entries, names),
      metricPerValue: this.#path.metricPerValue,
      counterStem: this.#path.counterStem(domain, entries, form, names.maxTextBytes),
    };
  }

  walk(domain: string): RuleWalk | undefined {
    const start = this.findDomain(domain);
    if (start < 0) return undefined;
    return {
      start,
      step: (place, key, value) => {
        const node = this.#step(place, 0, key, value);
        return node < 0 ? undefined : this.#ruleStep(node, howNames[this.#path.kind(0)]!);
      },
      child: (place, composite) => {
        const node = this.#findText(place, hashText(hashSeed, composite), composite);
        return node < 0 ? undefined : this.#ruleStep(node, 'exact');
      },
    };
  }

  #ruleStep(node: number, how: RuleStep['how']): RuleStep {
    const flags = this.rules.flags(node);
    return {
      place: node,
      how,
      composite: this.rules.composite(node),
      shares: (flags & sharingFlag) !== 0,
      rule: (flags & NodeFlag.limits) === 0 ? undefined : this.rules.rule(node),
    };
  }

  /** See `RuleTable.rulesAlong`. */
  rulesAlong(domain: number, entries: readonly Entry[]): { rules: Rule[]; sizes: number[] } {
    const sizes: number[] = [];
    for (let node = domain, i = 0; i < entries.length && node >= 0; i++) {
      const size = this.rules.childCount(node);
      if (size === 0) break;
      sizes.push(size);
      node = this.#step(node, i, entries[i]!.key, entries[i]!.value);
    }
    const level = (parent: number, i: number): Rule[] =>
      this.#nearBy(parent, i, entries[i]).map((node) => ruleOf(this.rules, node, (one) => level(one, i + 1)));
    return { rules: level(domain, 0), sizes };
  }

  /** Returns children in the order of their declaration. */
  #nearBy(parent: number, i: number, entry: Entry | undefined): number[] {
    const { rules } = this;
    const count = rules.childCount(parent);
    if (count <= maxOfLevel) return Array.from({ length: count }, (_, n) => rules.child(parent, n));
    if (entry === undefined) return [rules.child(parent, 0)];
    const text = `${entry.key}_${entry.value}`;
    let [from, to] = [0, count];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (rules.readComposite(rules.sortedChild(parent, middle)) < text) from = middle + 1;
      else to = middle;
    }
    const near = new Set([this.#step(parent, i, entry.key, entry.value)]);
    for (let n = Math.max(0, from - 5); n < Math.min(count, from + 5); n++)
      near.add(rules.sortedChild(parent, n));
    near.delete(-1);
    return [...near].sort((a, b) => a - b);
  }

  /** Returns the child that an entry leads to, or -1. It first tries key and value, then the wildcards, then the key alone. */
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
    this.#path.set(i, keyOnly, MatchKind.keyOnly);
    return keyOnly;
  }

  /** Returns the child whose composite is `text`, or -1. */
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

  /** Returns the child whose composite is `key_value`, or -1, without creating that string. */
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

/** Names by `MatchKind`. */
const howNames = ['exact', 'wildcard', 'key'] as const;
