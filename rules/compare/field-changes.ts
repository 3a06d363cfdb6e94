import type { Rule } from '../model.ts';
import type { FieldChange } from './rule-change.ts';

/** Fields that differ, as rule files spell them; without `descriptors`. An undefined rule has none. */
export function fieldChanges(before: Rule | undefined, after: Rule | undefined): FieldChange[] {
  const was = before === undefined ? new Map<string, string>() : written(before);
  const is = after === undefined ? new Map<string, string>() : written(after);
  const names = [...new Set([...was.keys(), ...is.keys()])];
  return names
    .filter((name) => was.get(name) !== is.get(name))
    .map((name) => ({ name, before: was.get(name), after: is.get(name) }));
}

/** What a rule says beyond its defaults. */
function written(rule: Rule): Map<string, string> {
  const fields = new Map<string, string>();
  const { rateLimit: limit, metadata } = rule;
  if (limit !== undefined) {
    if (limit.unlimited) fields.set('unlimited', 'true');
    else {
      fields.set('unit', limit.unit.toLowerCase());
      fields.set('requests_per_unit', String(limit.requestsPerUnit));
    }
    if (limit.name !== '') fields.set('name', limit.name);
    if (limit.replaces.length > 0) fields.set('replaces', [...limit.replaces].sort().join(', '));
  }
  const flags = {
    shadow_mode: rule.shadowMode,
    quota_mode: rule.quotaMode,
    detailed_metric: rule.detailedMetric,
    value_to_metric: rule.valueToMetric,
    share_threshold: rule.shareThreshold,
  };
  for (const [name, isSet] of Object.entries(flags)) if (isSet) fields.set(name, 'true');
  if (metadata !== undefined) fields.set('metadata', sortedJson(metadata));
  return fields;
}

function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) =>
    typeof member === 'object' && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );
}
