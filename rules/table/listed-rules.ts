/** The rules of a table one after the other, for whoever shows them: domains by name, parents before children, siblings by composite key. */
import type { MatchedRule } from '../match-result.ts';
import { type Rule, type RuleFlag, type UnitName, unitName } from '../model.ts';
import { ruleValue } from '../write/rule-file-value.ts';
import { NodeFlag, type RuleNodes } from './rule-table-format.ts';

/** A domain, or one rule of any level. */
export interface ListedRule {
  /** `domain`, or `domain.key_value.key...` with patterns as written. */
  path: string;
  isDomain: boolean;
  limit: ListedLimit | undefined;
}

export interface ListedLimit {
  requestsPerUnit: number;
  /** UNKNOWN when unlimited. */
  unit: UnitName;
  unlimited: boolean;
  shadowMode: boolean;
  quotaMode: boolean;
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
    yield { path: name, isDomain: true, limit: undefined };
    for (const { node, path } of rulesBelow(rules, domain, name)) {
      yield { path, isDomain: false, limit: limitOf(rules, node) };
    }
  }
}

/** The path of every rule with a limit, by the object that its matches hold. */
export function rulePaths(domains: Iterable<PlacedDomain>): Map<MatchedRule, string> {
  const paths = new Map<MatchedRule, string>();
  for (const { name, rules, node: domain } of domains) {
    for (const { node, path } of rulesBelow(rules, domain, name)) {
      if ((rules.flags(node) & NodeFlag.hasLimit) !== 0) paths.set(rules.rule(node), path);
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

function limitOf(rules: RuleNodes, node: number): ListedLimit | undefined {
  const flags = rules.flags(node);
  if ((flags & NodeFlag.hasLimit) === 0) return undefined;
  return {
    requestsPerUnit: rules.requestsPerUnit(node),
    unit: unitName(rules.unit(node)) ?? 'UNKNOWN',
    unlimited: (flags & NodeFlag.unlimited) !== 0,
    shadowMode: (flags & NodeFlag.shadowMode) !== 0,
    quotaMode: (flags & NodeFlag.quotaMode) !== 0,
  };
}

/** The debug listener's `/rlconfig`: a line for each rule with a limit. Lazy, so that a long list can be written in slices. */
export function* rlconfigLines(domains: Iterable<PlacedDomain>): Generator<string, void> {
  for (const { path, limit } of listedRules(domains)) {
    if (limit === undefined) continue;
    const { unit, requestsPerUnit, shadowMode, quotaMode } = limit;
    const words = `unit=${unit} requests_per_unit=${requestsPerUnit}`;
    yield `${path}: ${words}, shadow_mode: ${shadowMode}, quota_mode: ${quotaMode}`;
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

function ruleOf(rules: RuleNodes, node: number): Rule {
  const flags = rules.flags(node);
  const { unit, requestsPerUnit, unlimited, name, replaces, metadata } = rules.readRule(node);
  const limit = { unit: unitName(unit) ?? '', requestsPerUnit, unlimited, name, replaces: [...replaces] };
  const flag = (one: RuleFlag): boolean => (flags & NodeFlag[one]) !== 0;
  return {
    key: rules.readComposite(node),
    value: '',
    rateLimit: (flags & NodeFlag.hasLimit) === 0 ? undefined : limit,
    shadowMode: flag('shadowMode'),
    quotaMode: flag('quotaMode'),
    detailedMetric: flag('detailedMetric'),
    valueToMetric: flag('valueToMetric'),
    shareThreshold: flag('shareThreshold'),
    metadata,
    descriptors: Array.from({ length: rules.childCount(node) }, (_, i) =>
      ruleOf(rules, rules.child(node, i)),
    ),
  };
}
