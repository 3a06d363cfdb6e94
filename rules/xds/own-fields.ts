import type { Rule, RuleSource } from '../model.ts';

const ownFields = ['valueToMetric', 'shareThreshold'] as const satisfies (keyof Rule)[];

/** Fields in use that the public definition of the resource lacks, as manifests spell them: other limiters ignore them. */
export function ownFieldsOf(source: RuleSource): string[] {
  return ownFields.filter((field) => source.descriptors.some((rule) => uses(rule, field)));
}

function uses(rule: Rule, field: (typeof ownFields)[number]): boolean {
  return rule[field] || rule.descriptors.some((child) => uses(child, field));
}
