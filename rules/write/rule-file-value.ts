import { leaseText } from '../lease.ts';
import {
  Algorithm,
  algorithmNames,
  type JsonObject,
  type RateLimit,
  type Rule,
  type RuleSource,
  ruleFlags,
} from '../model.ts';

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

const flags = Object.entries(ruleFlags);

/** As `ruleFileValue`, of one rule. */
export function ruleValue(rule: Rule): JsonObject {
  const { key, value, limits, lease, metadata, descriptors } = rule;
  const [limit, ...others] = limits;
  return {
    key,
    ...(value === '' ? {} : { value }),
    ...(limit === undefined || others.length > 0 ? {} : { rate_limit: limitValue(limit) }),
    ...(others.length === 0 ? {} : { rate_limits: limits.map(limitValue) }),
    ...(lease === undefined ? {} : { lease: lease === 0 ? 0 : leaseText(lease) }),
    ...Object.fromEntries(flags.filter(([, flag]) => rule[flag]).map(([name]) => [name, true])),
    ...(metadata === undefined ? {} : { metadata }),
    ...rulesBelow(descriptors),
  };
}

function limitValue(limit: RateLimit): JsonObject {
  const { unlimited, name, replaces } = limit;
  return {
    ...(unlimited ? { unlimited } : countedValue(limit)),
    ...(name === '' ? {} : { name }),
    ...(replaces.length === 0 ? {} : { replaces: replaces.map((replaced) => ({ name: replaced })) }),
  };
}

function countedValue({ unit, unitMultiplier, requestsPerUnit, algorithm, burst }: RateLimit): JsonObject {
  return {
    unit: unit.toLowerCase(),
    ...(unitMultiplier === 1 ? {} : { unit_multiplier: unitMultiplier }),
    requests_per_unit: requestsPerUnit,
    ...(algorithm === Algorithm.FIXED_WINDOW ? {} : { algorithm: algorithmNames[algorithm]! }),
    ...(burst === undefined ? {} : { burst }),
  };
}
