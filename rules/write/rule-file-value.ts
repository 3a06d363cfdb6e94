import { leaseText } from '../lease.ts';
import {
  Algorithm,
  algorithmNames,
  type Calendar,
  type JsonObject,
  type RateLimit,
  type ReserveTerms,
  type Rule,
  type RuleSource,
  ruleFlags,
  weekdays,
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
  const { key, value, limits, lease, reserve, metadata, descriptors } = rule;
  const [limit, ...others] = limits;
  return {
    key,
    ...(value === '' ? {} : { value }),
    ...(limit === undefined || others.length > 0 ? {} : { rate_limit: limitValue(limit) }),
    ...(others.length === 0 ? {} : { rate_limits: limits.map(limitValue) }),
    ...(lease === undefined ? {} : { lease: lease === 0 ? 0 : leaseText(lease) }),
    ...(reserve === undefined ? {} : { reserve: reserveValue(reserve) }),
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

function countedValue(limit: RateLimit): JsonObject {
  const { unit, unitMultiplier, calendar, requestsPerUnit, hitsUnit, warnAt, algorithm, burst } = limit;
  return {
    ...(calendar === undefined ? { unit: unit.toLowerCase() } : { calendar: calendarValue(calendar) }),
    ...(unitMultiplier === 1 ? {} : { unit_multiplier: unitMultiplier }),
    requests_per_unit: requestsPerUnit,
    ...(hitsUnit === 'requests' ? {} : { hits_unit: hitsUnit }),
    ...(warnAt.length === 0 ? {} : { warn_at: [...warnAt] }),
    ...(algorithm === Algorithm.FIXED_WINDOW ? {} : { algorithm: algorithmNames[algorithm]! }),
    ...(burst === undefined ? {} : { burst }),
  };
}

function calendarValue({ unit, timezone, startsOn }: Calendar): JsonObject {
  const day = unit === 'week' ? weekdays[startsOn - 1]! : startsOn;
  return { unit, timezone, ...(startsOn === 1 ? {} : { starts_on: day }) };
}

function reserveValue({ ttlSeconds, estimate, onExpiry }: ReserveTerms): JsonObject {
  return {
    ttl: `${ttlSeconds}s`,
    ...(estimate === undefined ? {} : { estimate }),
    ...(onExpiry === 'release' ? {} : { on_expiry: onExpiry }),
  };
}
