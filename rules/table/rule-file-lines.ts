import { NodeFlag } from '../bytes/rule-table-format.ts';
import type { MatchedRule } from '../match-result.ts';
import { type JsonObject, unitName } from '../model.ts';
import type { RuleNodes } from './rule-table-nodes.ts';

/**
 * All rules as one JSON text: a list of rule files, one for each domain. A table knows key and value of a rule joined by
 * `_` only, which is what it compares; so that is the `key`, and there is no `value`. A line for each top-level rule, so
 * that a long list can be written in slices.
 */
export function* ruleFileLines(rules: RuleNodes): Generator<string, void> {
  const domains = rules.childCount(0);
  yield '[';
  for (let n = 0; n < domains; n++) {
    const domain = rules.child(0, n);
    yield `{"domain":${JSON.stringify(rules.readComposite(domain))},"descriptors":[`;
    const last = rules.childCount(domain) - 1;
    for (let i = 0; i <= last; i++) {
      yield JSON.stringify(ruleOf(rules, rules.child(domain, i))) + (i < last ? ',' : '');
    }
    yield n < domains - 1 ? ']},' : ']}';
  }
  yield ']';
}

const flagNames = [
  ['shadow_mode', NodeFlag.shadowMode],
  ['quota_mode', NodeFlag.quotaMode],
  ['detailed_metric', NodeFlag.detailedMetric],
  ['value_to_metric', NodeFlag.valueToMetric],
  ['share_threshold', NodeFlag.shareThreshold],
] as const;

function ruleOf(rules: RuleNodes, node: number): JsonObject {
  const flags = rules.flags(node);
  const rule = rules.readRule(node);
  const written: JsonObject = { key: rules.readComposite(node) };
  if ((flags & NodeFlag.hasLimit) !== 0) written['rate_limit'] = limitOf(rule);
  for (const [name, flag] of flagNames) {
    if ((flags & flag) !== 0) written[name] = true;
  }
  if (rule.metadata !== undefined) written['metadata'] = rule.metadata;
  const count = rules.childCount(node);
  if (count > 0) {
    written['descriptors'] = Array.from({ length: count }, (_, i) => ruleOf(rules, rules.child(node, i)));
  }
  return written;
}

function limitOf({ unit, requestsPerUnit, unlimited, name, replaces }: MatchedRule): JsonObject {
  const limit: JsonObject = unlimited
    ? { unlimited: true }
    : { unit: (unitName(unit) ?? '').toLowerCase(), requests_per_unit: requestsPerUnit };
  if (name !== '') limit['name'] = name;
  if (replaces.length > 0) limit['replaces'] = replaces.map((replaced) => ({ name: replaced }));
  return limit;
}
