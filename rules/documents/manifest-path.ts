/** Paths in a rule file and in a manifest say the same in two spellings. */

const ruleFileSpelling = [
  'rate_limit',
  'requests_per_unit',
  'shadow_mode',
  'quota_mode',
  'detailed_metric',
  'value_to_metric',
  'share_threshold',
];
const byRuleFile = new Map(ruleFileSpelling.map((name) => [name, camelCase(name)]));

/** `['spec', 'descriptors', 0, 'rateLimit']` for `['descriptors', 0, 'rate_limit']`. */
export function manifestPath(path: readonly (string | number)[]): (string | number)[] {
  return ['spec', ...camelCasePath(path)];
}

/** As proto3 JSON spells the same fields. */
export function camelCasePath(path: readonly (string | number)[]): (string | number)[] {
  return path.map((step) => (typeof step === 'number' ? step : (byRuleFile.get(step) ?? step)));
}

function camelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
