import { describe, expect, it } from 'vitest';
import { type MatchedRule, type RuleMatcher, usualNames } from '../../rules/match-result.ts';
import { Unit } from '../../rules/model.ts';
import { type MatchedTraits, matchedRule as rule } from '../../test/support/matched-rule.ts';
import type { RuleStats } from '../stats/registry/rule-stats.ts';
import { type Descriptor, ServiceError } from './messages.ts';
import { applyReplaces, type LimitedPlan, noLimit, type Plan, Planner } from './plan.ts';
import { KnownEntries } from './wire-reader.ts';

/** Matches by the first entry's key alone. */
function matcher(rules: Record<string, MatchedRule>): RuleMatcher {
  return {
    hasDomain: (domain) => domain === 'd',
    match: (_, entries) => {
      const found = rules[entries[0]?.key ?? ''];
      return (
        found && {
          rule: found,
          metricKey: `d.${entries[0]?.key}`,
          metricPerValue: false,
          counterStem: `d_${entries[0]?.key}_`,
        }
      );
    },
  };
}

function planner(rules: Record<string, MatchedRule> = {}) {
  const slots: string[] = [];
  const stats: RuleStats = {
    ruleMetric: (key, perValue) => {
      const slot = 7 * (slots.push(key) - 1);
      return { key, slot, lastUse: perValue ? 1 : Number.POSITIVE_INFINITY };
    },
    slotOf: ({ slot }) => slot,
    domainNotFound: () => {},
    add: () => {},
  };
  return {
    slots,
    planner: new Planner(matcher(rules), stats, {
      ...usualNames,
      cacheKeyPrefix: 'pre:',
      nearLimitRatio: 0.5,
    }),
  };
}

function descriptor(entries: [string, string][], fields: Partial<Descriptor> = {}): Descriptor {
  return {
    entries: entries.map(([key, value]) => ({ key, value })),
    limit: undefined,
    hitsAddend: undefined,
    isNegativeHits: false,
    ...fields,
  };
}

describe('Planner', () => {
  it('plans to count what a rule limits, by the prefixed stem', () => {
    const limited = rule({ requestsPerUnit: 9 });
    const { planner: plans, slots } = planner({ k: limited });
    expect(plans.plan('d', descriptor([['k', 'v']]))).toEqual({
      kind: 'limited',
      rule: limited,
      limit: limited.limits[0],
      counterStem: 'pre:d_k_',
      metric: { key: 'd.k', slot: 0, lastUse: Number.POSITIVE_INFINITY },
      nearThreshold: 4,
      key: '',
    });
    expect(slots).toEqual(['d.k']);
  });

  it('plans once for entries that came before, in each domain, and anew for a limit of the request', () => {
    const { planner: plans, slots } = planner({ k: rule({ requestsPerUnit: 9 }) });
    const entries = [{ key: 'k', value: 'v' }];
    const known = new KnownEntries(3, 'a', entries);
    const asked = descriptor([['k', 'v']], { known, entries });
    const plan = plans.plan('d', asked);
    expect(plans.plan('d', { ...asked, hitsAddend: 5 })).toBe(plan);
    expect(plans.plan('other', asked)).not.toBe(plan);
    expect(plans.plan('d', { ...asked, limit: { requestsPerUnit: 5, unit: Unit.DAY } })).not.toBe(plan);
    const sameSlot = new KnownEntries(3, 'b', [{ key: 'x', value: 'v' }]);
    expect(plans.plan('d', descriptor([['x', 'v']], { known: sameSlot }))).toEqual({ kind: 'no-limit' });
    expect(slots).toEqual(['d.k', 'd.k', 'd.k_v']);
  });

  it('plans nothing where no rule matches', () => {
    const { planner: plans, slots } = planner();
    expect(plans.plan('d', descriptor([['k', 'v']]))).toEqual({ kind: 'no-limit' });
    expect(slots).toEqual([]);
  });

  it('plans no statistics for an unlimited rule', () => {
    const unlimited = rule({ unlimited: true, unit: Unit.UNKNOWN });
    const { planner: plans, slots } = planner({ k: unlimited });
    expect(plans.plan('d', descriptor([['k', 'v']]))).toEqual({ kind: 'unlimited', rule: unlimited });
    expect(slots).toEqual([]);
  });

  it('asks for metrics that may leave where the limit comes with the request', () => {
    const { planner: plans } = planner({ k: rule() });
    const limit = { requestsPerUnit: 5, unit: Unit.DAY };
    expect(plans.plan('d', descriptor([['k', 'v']], { limit }))).toMatchObject({ metric: { lastUse: 1 } });
    expect(plans.plan('d', descriptor([['k', 'v']]))).toMatchObject({
      metric: { lastUse: Number.POSITIVE_INFINITY },
    });
  });

  it.each<[string, [string, string][], string, string]>([
    ['a value', [['k', 'v']], 'd.k_v', 'pre:d_k_v_'],
    [
      'an empty value',
      [
        ['s', '1'],
        ['y', ''],
      ],
      'd.s_1.y',
      'pre:d_s_1_y__',
    ],
    ['no entries', [], 'd.', 'pre:d_'],
  ])('takes the limit of the request before any rule: %s', (_, entries, metricKey, stem) => {
    const { planner: plans, slots } = planner({
      k: rule({ unlimited: true, unit: Unit.UNKNOWN, name: 'n' }),
    });
    const plan = plans.plan('d', descriptor(entries, { limit: { requestsPerUnit: 5, unit: Unit.WEEK } }));
    expect(plan).toMatchObject({
      kind: 'limited',
      rule: rule({ requestsPerUnit: 5, unit: Unit.WEEK }),
      counterStem: stem,
      nearThreshold: 2,
    });
    expect(slots).toEqual([metricKey]);
  });

  it.each([0, 8, -1])('refuses the unit %d in a limit of the request', (unit) => {
    const plan = () => planner().planner.plan('d', descriptor([], { limit: { requestsPerUnit: 5, unit } }));
    expect(plan).toThrow(
      new ServiceError(
        `the limit of a request's descriptor must have a unit from 1 (SECOND) to 7 (WEEK), not ${unit}`,
      ),
    );
  });

  it('needs the domain even for a limit of the request', () => {
    const plan = planner().planner.plan('other', descriptor([], { limit: { requestsPerUnit: 5, unit: 0 } }));
    expect(plan).toEqual({ kind: 'domain-not-found' });
  });
});

describe('applyReplaces', () => {
  const limited = (fields: MatchedTraits): LimitedPlan => ({
    kind: 'limited',
    rule: rule(fields),
    limit: rule(fields).limits[0]!,
    counterStem: '',
    metric: { key: '', slot: 0, lastUse: 0 },
    nearThreshold: 0,
    window: undefined,
    key: '',
  });
  const unlimited = (fields: MatchedTraits): Plan => ({
    kind: 'unlimited',
    rule: rule({ ...fields, unlimited: true }),
  });
  const replaced = (...plans: Plan[]): boolean[] => {
    const after = [...plans];
    applyReplaces(after);
    for (const [index, plan] of after.entries()) expect([plans[index], noLimit]).toContain(plan);
    return after.map((plan, index) => plan !== plans[index]);
  };

  it.each<[string, Plan[], boolean[]]>([
    ['a later limit', [limited({ replaces: ['b'] }), limited({ name: 'b' })], [false, true]],
    ['an earlier limit', [limited({ name: 'b' }), limited({ replaces: ['b'] })], [true, false]],
    [
      'every limit of the name',
      [limited({ name: 'b' }), limited({ name: 'b' }), limited({ replaces: ['b'] })],
      [true, true, false],
    ],
    [
      'several names',
      [limited({ replaces: ['a', 'b'] }), limited({ name: 'b' }), limited({ name: 'a' })],
      [false, true, true],
    ],
    ['by an unlimited rule', [unlimited({ replaces: ['b'] }), limited({ name: 'b' })], [false, true]],
    [
      'each other',
      [limited({ name: 'a', replaces: ['b'] }), limited({ name: 'b', replaces: ['a'] })],
      [true, true],
    ],
    [
      'by a rule that is replaced itself',
      [limited({ name: 'a', replaces: ['b'] }), limited({ name: 'b' }), limited({ replaces: ['a'] })],
      [true, true, false],
    ],
  ])('replaces %s', (_, plans, expected) => {
    expect(replaced(...plans)).toEqual(expected);
  });

  it.each<[string, Plan[]]>([
    ['limits without a name', [limited({ replaces: [''] }), limited({})]],
    ['limits of other names', [limited({ replaces: ['b'] }), limited({ name: 'c' })]],
    ['unlimited rules', [limited({ replaces: ['b'] }), unlimited({ name: 'b' })]],
    ['descriptors without limit', [limited({ replaces: ['b'] }), noLimit]],
  ])('leaves %s', (_, plans) => {
    expect(replaced(...plans)).toEqual(plans.map(() => false));
  });
});
