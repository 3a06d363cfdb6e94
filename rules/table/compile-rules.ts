import { algorithmOf } from '../algorithms/registry.ts';
import {
  arePlainLimits,
  type Limit,
  noLimits,
  type Rule,
  type RuleSource,
  Unit,
  unitText,
} from '../model.ts';
import { type Wildcard, WildcardCompiler } from './compile-wildcards.ts';
import { ContentHash, compilePairIndex, hashSeed, hashUnits, StringPool, WordList } from './pair-index.ts';
import {
  Domain,
  LimitWord,
  Node,
  NodeFlag,
  otherFieldsText,
  packRuleTable,
  rareTraitsText,
  ruleFlagsOf,
} from './rule-table-format.ts';

/**
 * All rules of all sources as numbered nodes, with the numbers of the table's `nodes`. Composite keys are written into the pool at once:
 * as strings, the keys of 100,000 rules would take a tenth of the memory that a load may use.
 */
interface NumberedTree {
  strings: StringPool;
  /** The position of the composite in the pool: `key` or `key_value`; for a domain, its name. */
  offsets: WordList;
  lengths: WordList;
  parents: WordList;
  firstChild: WordList;
  childCount: WordList;
  /** The rules by node. Undefined for the root and the domains. */
  rules: (Rule | undefined)[];
  domainCount: number;
  maxDepth: number;
}

/** Numbers the rules level by level, so that the children of one node have consecutive numbers in the order of their declaration. */
function numberRules(sources: readonly RuleSource[]): NumberedTree {
  const listsOf = new Map<string, (readonly Rule[])[]>();
  for (const { domain, descriptors } of sources) {
    const lists = listsOf.get(domain);
    if (lists === undefined) listsOf.set(domain, [descriptors]);
    else lists.push(descriptors);
  }
  const tree: NumberedTree = {
    strings: new StringPool(),
    offsets: new WordList(),
    lengths: new WordList(),
    parents: new WordList(),
    firstChild: new WordList(),
    childCount: new WordList(),
    rules: [],
    domainCount: listsOf.size,
    maxDepth: 0,
  };
  addNode(tree, -1, undefined);
  for (const domain of listsOf.keys()) addNode(tree, 0, undefined, domain);
  tree.firstChild.push(1);
  tree.childCount.push(listsOf.size);
  const domainLists = [...listsOf.values()];
  let lastOfDepth = listsOf.size;
  for (let node = 1; node < tree.rules.length; node++) {
    if (node > lastOfDepth) {
      tree.maxDepth++;
      lastOfDepth = tree.rules.length - 1;
    }
    const first = tree.rules.length;
    const rule = tree.rules[node];
    const lists = rule === undefined ? domainLists[node - 1]! : [rule.descriptors];
    for (const children of lists) for (const child of children) addNode(tree, node, child);
    tree.firstChild.push(first);
    tree.childCount.push(tree.rules.length - first);
  }
  return tree;
}

/** Returns the composite as a string. */
function compositeOf({ strings, offsets, lengths }: NumberedTree, node: number): string {
  return strings.read(offsets.words[node]!, lengths.words[node]!);
}

/** The name of a rule consists of its key and value. The root and the domains have the given name. */
function addNode(tree: NumberedTree, parent: number, rule: Rule | undefined, name = ''): void {
  const { strings } = tree;
  const offset = strings.append(rule?.key ?? name);
  if (rule !== undefined && rule.value !== '') {
    strings.append('_');
    strings.append(rule.value);
  }
  tree.offsets.push(offset);
  tree.lengths.push(strings.length - offset);
  tree.parents.push(parent);
  tree.rules.push(rule);
}

/**
 * Compiles validated rules into the bytes that `RuleTable` matches on, in the layout of `rule-table-format.ts`: one buffer of exactly the
 * table's size, which can be transferred between threads. Sources of one domain add up in the given order. Throws for rules that the
 * validator rejects: an unknown unit, or a composite key that occurs twice on one level.
 */
export function compileRules(sources: readonly RuleSource[]): ArrayBuffer {
  const tree = numberRules(sources);
  const wildcards = new WildcardCompiler(tree.strings);
  const sortedChildren = sortChildren(tree);
  const { nodes, limits, extras } = compileNodes(tree, wildcards);
  return packRuleTable(
    {
      nodes,
      nodeIndex: compileNodeIndex(tree),
      sortedChildren,
      ...wildcards.finish(),
      limits,
      extras,
      domains: compileDomains(tree, { nodes, limits, extras }),
      strings: tree.strings.toUnits(),
    },
    { rules: tree.rules.length - 1 - tree.domainCount, maxDepth: tree.maxDepth },
  );
}

type RuleRecords = Record<'nodes' | 'limits' | 'extras', Int32Array>;

interface LimitRecords {
  readonly limits: WordList;
  /** The first record of each list of limits. */
  readonly known: Map<readonly Limit[], number>;
}

function compileNodes(tree: NumberedTree, wildcards: WildcardCompiler): RuleRecords {
  const nodes = new WordList();
  const limits = new WordList();
  const extras = new WordList();
  const known = new Map<readonly Limit[], number>();
  for (const [node, rule] of tree.rules.entries()) {
    nodes.push(tree.offsets.words[node]!);
    nodes.push(tree.lengths.words[node]!);
    nodes.push(rule === undefined ? 0 : nodeFlags(rule));
    nodes.push(firstLimitOf(rule?.limits ?? noLimits, { limits, known }, tree.strings));
    nodes.push(node === 0 ? 0 : wildcards.addLevel(wildcardChildren(tree, node)));
    nodes.push(rule === undefined ? -1 : addExtra(rule, extras, tree.strings));
    nodes.push(tree.firstChild.words[node]!);
    nodes.push(tree.childCount.words[node]!);
  }
  return { nodes: nodes.toWords(), limits: limits.toWords(), extras: extras.toWords() };
}

function nodeFlags(rule: Rule): number {
  const { limits } = rule;
  return ruleFlagsOf(rule) | limits.length | (arePlainLimits(limits) ? 0 : NodeFlag.ownKeys);
}

/** Returns the number of the first limit. Rules of one file share their lists, and thus their records. */
function firstLimitOf(own: readonly Limit[], { limits, known }: LimitRecords, strings: StringPool): number {
  let first = known.get(own);
  if (first === undefined) {
    first = limits.length / LimitWord.words;
    known.set(own, first);
    for (const limit of own) addLimit(limit, limits, strings);
  }
  return first;
}

function addLimit(limit: Limit, limits: WordList, strings: StringPool): void {
  const { unit, unlimited, requestsPerUnit } = limit;
  if (unit === Unit.UNKNOWN && !unlimited)
    throw new RangeError(`cannot compile rate limit unit '${unitText(limit)}'`);
  // Throws if the algorithm is not known.
  algorithmOf(limit);
  limits.push(requestsPerUnit);
  limits.push(Math.floor(requestsPerUnit / 0x1_0000_0000));
  pushText(limits, otherFieldsText(limit), strings);
}

/** Appends the offset and length of a text. */
function pushText(words: WordList, text: string, strings: StringPool): void {
  words.push(text === '' ? 0 : strings.add(text));
  words.push(text.length);
}

function addExtra(rule: Rule, extras: WordList, strings: StringPool): number {
  const text = rareTraitsText(rule);
  if (text === '') return -1;
  pushText(extras, text, strings);
  return extras.length - 2;
}

function wildcardChildren(tree: NumberedTree, node: number): Wildcard[] {
  const found: Wildcard[] = [];
  const first = tree.firstChild.words[node]!;
  const end = first + tree.childCount.words[node]!;
  for (let child = first; child < end; child++) {
    const { key, value } = tree.rules[child]!;
    if (key.includes('*') || value.includes('*'))
      found.push({ node: child, composite: compositeOf(tree, child) });
  }
  return found;
}

/**
 * The hash of a domain covers the content of its rules, in their order. It includes no number that depends on other domains. The domain's
 * rules of one level have consecutive numbers, and their composites follow one another.
 */
function compileDomains(
  { strings, domainCount }: NumberedTree,
  { nodes, limits, extras }: RuleRecords,
): Int32Array {
  const domains = new Int32Array(domainCount * Domain.words);
  const { units } = strings;
  for (let domain = 1; domain <= domainCount; domain++) {
    const hash = new ContentHash();
    let rules = -1;
    for (let first = domain, end = domain + 1; first < end; ) {
      rules += end - first;
      for (let at = first * Node.words; at < end * Node.words; at += Node.words) {
        hash.addWord(nodes[at + Node.compositeLength]!);
        hash.addWord(nodes[at + Node.flags]!);
        hashLimits(
          hash,
          limits,
          { first: nodes[at + Node.firstLimit]!, count: nodes[at + Node.flags]! & NodeFlag.limits },
          units,
        );
        hash.addWord(nodes[at + Node.childCount]!);
        const extra = nodes[at + Node.extra]!;
        if (extra >= 0) hashText(hash, extras, extra, units);
      }
      const last = (end - 1) * Node.words;
      const textEnd = nodes[last + Node.compositeOffset]! + nodes[last + Node.compositeLength]!;
      hash.addUnits(units, nodes[first * Node.words + Node.compositeOffset]!, textEnd);
      first = nodes[first * Node.words + Node.firstChild]!;
      end = nodes[last + Node.firstChild]! + nodes[last + Node.childCount]!;
    }
    domains.set([hash.a, hash.b, rules], (domain - 1) * Domain.words);
  }
  return domains;
}

function hashLimits(
  hash: ContentHash,
  limits: Int32Array,
  { first, count }: { first: number; count: number },
  units: Uint16Array,
): void {
  const end = (first + count) * LimitWord.words;
  for (let at = first * LimitWord.words; at < end; at += LimitWord.words) {
    hash.addWord(limits[at + LimitWord.requestsPerUnit]!);
    hash.addWord(limits[at + LimitWord.requestsPerUnit + 1]!);
    hashText(hash, limits, at + LimitWord.others, units);
  }
}

/** Reads a text whose offset is at `at`, followed by its length. */
function hashText(hash: ContentHash, words: Int32Array, at: number, units: Uint16Array): void {
  const offset = words[at]!;
  const length = words[at + 1]!;
  hash.addWord(~length);
  hash.addUnits(units, offset, offset + length);
}

function compileNodeIndex({ rules, strings, offsets, lengths, parents }: NumberedTree): Int32Array {
  const triples = new Int32Array((rules.length - 1) * 3);
  for (let node = 1, at = 0; node < rules.length; node++) {
    triples[at++] = parents.words[node]!;
    triples[at++] = hashUnits(hashSeed, strings.units, offsets.words[node]!, lengths.words[node]!);
    triples[at++] = node;
  }
  return compilePairIndex(triples);
}

function sortChildren(tree: NumberedTree): Int32Array {
  const { rules, firstChild, childCount } = tree;
  const sorted = Int32Array.from(rules.keys());
  for (let node = 0; node < rules.length; node++) {
    const count = childCount.words[node]!;
    if (count < 2) continue;
    const first = firstChild.words[node]!;
    const children = sorted.subarray(first, first + count);
    children.sort((a, b) => compareComposites(tree, a, b));
    for (let i = 1; i < count; i++) {
      if (compareComposites(tree, children[i - 1]!, children[i]!) !== 0) continue;
      const composite = compositeOf(tree, children[i]!);
      throw new RangeError(`cannot compile composite key '${composite}' twice on one level`);
    }
  }
  return sorted;
}

/** Compares by code units, as strings are compared. */
function compareComposites({ strings, offsets, lengths }: NumberedTree, a: number, b: number): number {
  const { units } = strings;
  const offsetA = offsets.words[a]!;
  const offsetB = offsets.words[b]!;
  const common = Math.min(lengths.words[a]!, lengths.words[b]!);
  for (let i = 0; i < common; i++) {
    const difference = units[offsetA + i]! - units[offsetB + i]!;
    if (difference !== 0) return difference;
  }
  return lengths.words[a]! - lengths.words[b]!;
}
