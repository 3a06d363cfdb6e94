import { type ListedLimit, listedRules } from './listed-rules.ts';
import type { RuleNodes } from './rule-table-nodes.ts';

/** The debug listener's `/rlconfig`: a line for each rule with a limit. Lazy, so that a long list can be written in slices. */
export function* rlconfigLines(rules: RuleNodes): Generator<string, void> {
  for (const { path, limit } of listedRules(rules)) {
    if (limit !== undefined) yield `${path}: ${limitText(limit)}`;
  }
}

function limitText({ unit, requestsPerUnit, shadowMode, quotaMode }: ListedLimit): string {
  const limit = `unit=${unit} requests_per_unit=${requestsPerUnit}`;
  return `${limit}, shadow_mode: ${shadowMode}, quota_mode: ${quotaMode}`;
}
