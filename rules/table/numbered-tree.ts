import { StringPool, WordList } from '../bytes/compile-lists.ts';
import type { Rule, RuleSource } from '../model.ts';

/**
 * All rules of all sources as numbered nodes; the numbering is that of the table's `nodes`. Composite keys are written
 * into the pool at once: as strings, those of 100,000 rules would be a tenth of what a load may take.
 */
export interface NumberedTree {
  strings: StringPool;
  /** Where the composite stands in the pool: `key` or `key_value`; of a domain its name. */
  offsets: WordList;
  lengths: WordList;
  parents: WordList;
  firstChild: WordList;
  childCount: WordList;
  /** Undefined for the root and the domains. */
  rules: (Rule | undefined)[];
  domainCount: number;
  maxDepth: number;
}

/** Numbers level by level, so that the children of one node are neighbours in the order of their declaration. */
export function numberRules(sources: readonly RuleSource[]): NumberedTree {
  const listsOf = new Map<string, (readonly Rule[])[]>();
  for (const { domain, descriptors } of sources) {
    const lists = listsOf.get(domain);
    if (lists === undefined) listsOf.set(domain, [descriptors]);
    else lists.push(descriptors);
  }
  const tree = emptyTree(listsOf.size);
  addNode(tree, { parent: -1, key: '', value: '', rule: undefined });
  for (const domain of listsOf.keys()) addNode(tree, { parent: 0, key: domain, value: '', rule: undefined });
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
    if (rule !== undefined) addChildren(tree, node, rule.descriptors);
    else for (const children of domainLists[node - 1]!) addChildren(tree, node, children);
    tree.firstChild.push(first);
    tree.childCount.push(tree.rules.length - first);
  }
  return tree;
}

/** The composite as a string. */
export function compositeOf({ strings, offsets, lengths }: NumberedTree, node: number): string {
  return strings.read(offsets.words[node]!, lengths.words[node]!);
}

function emptyTree(domainCount: number): NumberedTree {
  return {
    strings: new StringPool(),
    offsets: new WordList(),
    lengths: new WordList(),
    parents: new WordList(),
    firstChild: new WordList(),
    childCount: new WordList(),
    rules: [],
    domainCount,
    maxDepth: 0,
  };
}

function addChildren(tree: NumberedTree, parent: number, children: readonly Rule[]): void {
  for (const rule of children) addNode(tree, { parent, key: rule.key, value: rule.value, rule });
}

interface NewNode {
  parent: number;
  key: string;
  value: string;
  rule: Rule | undefined;
}

function addNode(tree: NumberedTree, { parent, key, value, rule }: NewNode): void {
  const { strings } = tree;
  const offset = strings.append(key);
  if (value !== '') {
    strings.append('_');
    strings.append(value);
  }
  tree.offsets.push(offset);
  tree.lengths.push(strings.length - offset);
  tree.parents.push(parent);
  tree.rules.push(rule);
}
