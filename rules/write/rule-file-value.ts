import type { JsonObject, RateLimit, Rule, RuleSource } from '../model.ts';

/** A source as a rule file has it; only what differs from the defaults. */
export function ruleFileValue({
  domain,
  descriptors,
}: Pick<RuleSource, 'domain' | 'descriptors'>): JsonObject {
  return { domain, ...rulesBelow(descriptors) };
}

function rulesBelow(rules: readonly Rule[]): JsonObject {
  return rules.length === 0 ? {} : { descriptors: rules.map(ruleValue) };
}

function ruleValue(rule: Rule): JsonObject {
  const { key, value, rateLimit, metadata, descriptors } = rule;
  return {
    key,
    ...(value === '' ? {} : { value }),
    ...(rateLimit === undefined ? {} : { rate_limit: limitValue(rateLimit) }),
    ...(rule.shadowMode ? { shadow_mode: true } : {}),
    ...(rule.quotaMode ? { quota_mode: true } : {}),
    ...(rule.detailedMetric ? { detailed_metric: true } : {}),
    ...(rule.valueToMetric ? { value_to_metric: true } : {}),
    ...(rule.shareThreshold ? { share_threshold: true } : {}),
    ...(metadata === undefined ? {} : { metadata }),
    ...rulesBelow(descriptors),
  };
}

function limitValue({ unit, requestsPerUnit, unlimited, name, replaces }: RateLimit): JsonObject {
  return {
    ...(unlimited ? { unlimited } : { unit: unit.toLowerCase(), requests_per_unit: requestsPerUnit }),
    ...(name === '' ? {} : { name }),
    ...(replaces.length === 0 ? {} : { replaces: replaces.map((replaced) => ({ name: replaced })) }),
  };
}
