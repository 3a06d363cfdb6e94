/** The rules of a table one after the other, for whoever shows them: domains by name, parents before children, siblings by composite key. */
import { describeRule, limitTexts } from '../describe.ts';
import type { MatchedRule } from '../match-result.ts';
import { makeRule, type Rule } from '../model.ts';
import { ruleValue } from '../write/rule-file-value.ts';
import { NodeFlag, type RuleNodes } from './rule-table-format.ts';

/** A domain, or one rule of any level. */
export interface ListedRule {
  /** `domain`, or `domain.key_value.key...` with patterns as written. */
  path: string;
  /** As a table has it; undefined for a domain. */
  rule: Rule | undefined;
}

export interface PlacedDomain {
  name: string;
  /** What its rules are among, and where it stands there. */
  rules: RuleNodes;
  node: number;
}

/** Lazy, so that a long list can be written in slices. */
export function* listedRules(domains: Iterable<PlacedDomain>): Generator<ListedRule, void> {
  for (const { name, rules, node: domain } of domains) {
    yield { path: name, rule: undefined };
    for (const { node, path } of rulesBelow(rules, domain, name)) yield { path, rule: ruleOf(rules, node) };
  }
}

/** The path of every rule with a limit, by the object that its matches hold. */
export function rulePaths(domains: Iterable<PlacedDomain>): Map<MatchedRule, string> {
  const paths = new Map<MatchedRule, string>();
  for (const { name, rules, node: domain } of domains) {
    for (const { node, path } of rulesBelow(rules, domain, name)) {
      if ((rules.flags(node) & NodeFlag.limits) !== 0) paths.set(rules.rule(node), path);
    }
  }
  return paths;
}

function* rulesBelow(
  rules: RuleNodes,
  domain: number,
  name: string,
): Generator<{ node: number; path: string }, void> {
  /** From the domain to the node last visited: the node, its path, and which child comes next. */
  const open = [{ node: domain, path: name, nextChild: 0 }];
  for (let top = open.at(-1); top !== undefined; top = open.at(-1)) {
    if (top.nextChild === rules.childCount(top.node)) {
      open.pop();
      continue;
    }
    const node = rules.sortedChild(top.node, top.nextChild++);
    const path = `${top.path}.${rules.readComposite(node)}`;
    yield { node, path };
    if (rules.childCount(node) > 0) open.push({ node, path, nextChild: 0 });
  }
}

/** The debug listener's `/rlconfig`: a line for each limit. Lazy, so that a long list can be written in slices. */
export function* rlconfigLines(domains: Iterable<PlacedDomain>): Generator<string, void> {
  for (const { path, rule } of listedRules(domains)) {
    const limits = limitTexts(rule?.limits ?? []);
    if (rule === undefined || limits.length === 0) continue;
    const ofRule = describeRule(rule).map(({ name, texts }) => `, ${name}: ${texts.join(' ')}`);
    for (const fields of limits) yield `${path}: ${fields.join(' ')}${ofRule.join('')}`;
  }
}

/**
 * All rules as one JSON text: a list of rule files, one for each domain. A table knows key and value of a rule joined by
 * `_` only, which is what it compares; so that is the `key`, and there is no `value`. A line for each top-level rule, so
 * that a long list can be written in slices.
 */
export function* ruleFileLines(domains: readonly PlacedDomain[]): Generator<string, void> {
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

/** What is below it, and its limits, are made when they are asked for, anew each time. `below` defaults to all of its children. */
export function ruleOf(
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

/** The rules of one level in the order of their declaration, each with key and value in its `key`, as a table has them. */
export function childrenOf(rules: RuleNodes, node: number): Rule[] {
  return Array.from({ length: rules.childCount(node) }, (_, i) => ruleOf(rules, rules.child(node, i)));
}
