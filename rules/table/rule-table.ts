import { Node, NodeFlag, openRuleTable, type RuleTableSections } from '../bytes/rule-table-format.ts';
import { hashSeed, hashText, hashUnit, PairIndex, unitsEqual } from '../bytes/rule-table-hash.ts';
import { type MatchedRule, type RuleMatch, type RuleMatcher, usualNames } from '../match-result.ts';
import type { Entry } from '../model.ts';
import { WildcardIndex } from '../wildcards/wildcard-index.ts';
import { type ListedRule, listedRules, rlconfigLines, ruleFileLines, rulePaths } from './listed-rules.ts';
import { MatchKind, MatchPath } from './match-path.ts';
import { RuleNodes } from './rule-table-nodes.ts';

const underscore = 0x5f;

/**
 * Matches on the bytes that `compileRules` made, without unpacking them: ready at once, whatever their size.
 * The table keeps the buffer; nobody may write to it.
 */
export class RuleTable implements RuleMatcher {
  readonly domainCount: number;
  /** All rules, those without a limit included. */
  readonly ruleCount: number;
  /** 16 hexadecimal digits: equal for equal rules in equal order, whatever the split into files. */
  readonly contentHash: string;
  /** What it was made from, and any number of others can be, also in other threads. */
  readonly bytes: ArrayBufferLike;
  readonly #maxDepth: number;
  readonly #s: RuleTableSections;
  readonly #nodeIndex: PairIndex;
  readonly #rules: RuleNodes;
  readonly #wildcards: WildcardIndex;
  /** Of the match under way. */
  readonly #path: MatchPath;

  /** Throws a RangeError when the bytes are no whole table of this version. */
  constructor(bytes: ArrayBufferLike) {
    const { sections, counts, contentHash } = openRuleTable(bytes);
    this.bytes = bytes;
    this.#s = sections;
    this.#nodeIndex = new PairIndex(sections.nodeIndex);
    this.#rules = new RuleNodes(sections);
    this.#wildcards = new WildcardIndex(sections);
    this.#maxDepth = counts.maxDepth;
    this.#path = new MatchPath(this.#rules, counts.maxDepth);
    this.ruleCount = counts.rules;
    this.domainCount = this.#rules.childCount(0);
    this.contentHash = contentHash;
  }

  hasDomain(domain: string): boolean {
    return this.#findDomain(domain) >= 0;
  }

  /** A line for each rule with a limit, as the debug listener's `/rlconfig` shows them. Lazy. */
  rlconfigLines(): Iterable<string> {
    return rlconfigLines(this.#rules);
  }

  /** Lines of one JSON text: all rules with all they say, in the order of their declaration. Lazy. */
  ruleFileLines(): Iterable<string> {
    return ruleFileLines(this.#rules);
  }

  /** Every domain and, after it, its rules of all levels. Lazy. */
  listedRules(): Iterable<ListedRule> {
    return listedRules(this.#rules);
  }

  /** Where the rules with a limit stand, as `listedRules` writes it, by the object that their matches hold. Makes them all. */
  rulePaths(): ReadonlyMap<MatchedRule, string> {
    return rulePaths(this.#rules);
  }

  match(domain: string, entries: readonly Entry[], names = usualNames): RuleMatch | undefined {
    const depth = entries.length;
    if (depth === 0 || depth > this.#maxDepth) return undefined;
    let node = this.#findDomain(domain);
    if (node < 0) return undefined;
    for (let i = 0; i < depth; i++) {
      if (this.#rules.childCount(node) === 0) return undefined;
      const { key, value } = entries[i]!;
      node = this.#step(node, i, key, value);
      if (node < 0) return undefined;
    }
    if ((this.#rules.flags(node) & NodeFlag.hasLimit) === 0) return undefined;
    const rule: MatchedRule = this.#rules.rule(node);
    return {
      rule,
      metricKey: this.#path.metricKey(domain, entries, names.undotted),
      metricPerValue: this.#path.metricPerValue,
      counterStem: this.#path.counterStem(domain, entries, names.counterKeys),
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
    const level = this.#rules.level(parent);
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

  #findDomain(domain: string): number {
    return this.#findText(0, hashText(hashSeed, domain), domain);
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
