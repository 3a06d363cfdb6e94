/** Turns validated rules into the bytes that `RuleTable` matches on. The layout: `rule-table-format.ts`. */
import { type StringPool, WordList } from '../bytes/compile-lists.ts';
import { compilePairIndex } from '../bytes/compile-pair-index.ts';
import { NodeFlag, nodeUnitShift, packRuleTable } from '../bytes/rule-table-format.ts';
import { hashSeed, hashUnits } from '../bytes/rule-table-hash.ts';
import type { Rule, RuleSource, Unit } from '../model.ts';
import { unitFromText } from '../unit-from-text.ts';
import { type Wildcard, WildcardCompiler } from '../wildcards/compile-wildcards.ts';
import { compositeOf, type NumberedTree, numberRules } from './numbered-tree.ts';

/**
 * One buffer of exactly the table's size, to be transferred between threads. Sources of one domain add up in the
 * order given. Throws on what the validator refuses: an unknown unit, a composite key twice on one level.
 */
export function compileRules(sources: readonly RuleSource[]): ArrayBuffer {
  const tree = numberRules(sources);
  const wildcards = new WildcardCompiler(tree.strings);
  const sortedChildren = sortChildren(tree);
  const { nodes, extras } = compileNodes(tree, wildcards);
  return packRuleTable(
    {
      nodes,
      nodeIndex: compileNodeIndex(tree),
      sortedChildren,
      extras,
      ...wildcards.finish(),
      strings: tree.strings.toUnits(),
    },
    { rules: tree.rules.length - 1 - tree.domainCount, maxDepth: tree.maxDepth },
  );
}

function compileNodes(
  tree: NumberedTree,
  wildcards: WildcardCompiler,
): { nodes: Int32Array; extras: Int32Array } {
  const nodes = new WordList();
  const extras = new WordList();
  for (const [node, rule] of tree.rules.entries()) {
    nodes.push(tree.offsets.words[node]!);
    nodes.push(tree.lengths.words[node]!);
    nodes.push(rule === undefined ? 0 : nodeFlags(rule));
    nodes.push(rule?.rateLimit?.requestsPerUnit ?? 0);
    nodes.push(node === 0 ? 0 : wildcards.addLevel(wildcardChildren(tree, node)));
    nodes.push(rule === undefined ? -1 : addExtra(rule, extras, tree.strings));
    nodes.push(tree.firstChild.words[node]!);
    nodes.push(tree.childCount.words[node]!);
  }
  return { nodes: nodes.toWords(), extras: extras.toWords() };
}

function nodeFlags(rule: Rule): number {
  let flags = 0;
  if (rule.shadowMode) flags |= NodeFlag.shadowMode;
  if (rule.quotaMode) flags |= NodeFlag.quotaMode;
  if (rule.detailedMetric) flags |= NodeFlag.detailedMetric;
  if (rule.valueToMetric) flags |= NodeFlag.valueToMetric;
  if (rule.shareThreshold) flags |= NodeFlag.shareThreshold;
  if (rule.rateLimit === undefined) return flags;
  flags |= NodeFlag.hasLimit;
  if (rule.rateLimit.unlimited) return flags | NodeFlag.unlimited;
  return flags | (unitNumber(rule.rateLimit.unit) << nodeUnitShift);
}

function unitNumber(written: string): Unit {
  const unit = unitFromText(written);
  if (unit === undefined) throw new RangeError(`cannot compile rate limit unit '${written}'`);
  return unit;
}

function addExtra(rule: Rule, extras: WordList, strings: StringPool): number {
  const { name, replaces } = rule.rateLimit ?? { name: '', replaces: [] };
  if (name === '' && replaces.length === 0 && rule.metadata === undefined) return -1;
  const extra = extras.length;
  const metadata = rule.metadata === undefined ? '' : JSON.stringify(rule.metadata);
  extras.pushAll([strings.add(name), name.length, strings.add(metadata), metadata.length, replaces.length]);
  for (const replaced of replaces) extras.pushAll([strings.add(replaced), replaced.length]);
  return extra;
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

/** By code units, as strings compare. */
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
