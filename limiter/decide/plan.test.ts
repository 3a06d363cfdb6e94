import { describe, expect, it } from 'vitest';
import { Algorithm } from '../../rules/algorithms/registry.ts';
import { defaultNames, type MatchedRule, type RuleMatcher } from '../../rules/match-result.ts';
import { Unit } from '../../rules/model.ts';
import { limitedPlan, type MatchedTraits, matchedRule as rule } from '../../test/support/matched-rule.ts';
import { limit as matchedLimit } from '../../test/support/rule-builder.ts';
import { FixedWindow } from '../algorithms/fixed-window.ts';
import type { RuleStats } from '../stats/registry/rule-stats.ts';
import type { Plan } from './limit-plan.ts';
import { type Descriptor, ServiceError } from './messages.ts';
import { applyReplaces, noLimit, Planner } from './plan.ts';

/** A matcher that matches by the first entry's key alone. */
function matcher(rules: Record<string, MatchedRule>): RuleMatcher {
  return {
    hasDomain: (domain) => domain === 'd',
    hasLevel: (domain, level) => domain === 'd' && level <= 1,
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

function planner(rules: Record<string, MatchedRule> = {}, defaultLease?: number) {
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
      ...defaultNames,
      cacheKeyPrefix: 'pre:',
      nearLimitRatio: 0.5,
      defaultLease,
      useCalendarMonthRateLimit: false,
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
      limits: [
        {
          rule: limited,
          limit: limited.limits[0],
          currentLimit: limited.limits[0],
          texts: {},
          windowSeconds: 60,
          capacity: 9,
          charging: new FixedWindow(9),
          secondsUncounted: 60,
          maxLease: 0,
          warns: false,
          perSecond: false,
          isOwn: false,
          counterStem: 'pre:d_k_',
          metric: { key: 'd.k', slot: 0, lastUse: Number.POSITIVE_INFINITY },
          nearThreshold: 4,
          key: '',
          rejection: 0,
        },
      ],
    });
    expect(slots).toEqual(['d.k']);
  });

  it.each([
    ['the usual share', {}, 5],
    ['its own share', { lease: 20_000 }, 20],
    ['nothing by its own word', { lease: 0 }, 0],
    ['nothing of less than 2 hits', { requestsPerUnit: 399 }, 0],
    ['a share of a window of its own', { unitMultiplier: 5 }, 5],
    ['nothing of a sliding window', { algorithm: Algorithm.SLIDING_WINDOW }, 0],
    ['nothing of a bucket', { algorithm: Algorithm.TOKEN_BUCKET, burst: 1_000 }, 0],
  ])('leases of a rule %s', (_, traits, max) => {
    const leased = rule({ requestsPerUnit: 1_000, ...traits });
    const maxOf = (common: number | undefined, fields: Partial<Descriptor> = {}): number => {
      const plan = planner({ k: leased }, common).planner.plan('d', descriptor([['k', 'v']], fields));
      return plan.kind === 'limited' ? plan.limits[0]!.maxLease : Number.NaN;
    };
    expect(maxOf(5_000)).toBe(max);
    // This covers LEASES=off, and a limit of the request.
    expect(maxOf(undefined)).toBe(0);
    expect(maxOf(5_000, { limit: { requestsPerUnit: 1_000, unit: Unit.DAY } })).toBe(0);
  });

  it('leases nothing of several limits', () => {
    const limits = [
      matchedLimit({ requestsPerUnit: 1_000 }),
      matchedLimit({ unit: Unit.DAY, requestsPerUnit: 5_000 }),
    ];
    const plan = planner({ k: rule({ limits }) }, 5_000).planner.plan('d', descriptor([['k', 'v']]));
    expect(plan.kind === 'limited' && plan.limits.map(({ maxLease }) => maxLease)).toEqual([0, 0]);
  });

  it('plans nothing if no rule matches', () => {
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

  it('asks for metrics that may leave if the limit comes with the request', () => {
    const { planner: plans } = planner({ k: rule() });
    const limit = { requestsPerUnit: 5, unit: Unit.DAY };
    expect(plans.plan('d', descriptor([['k', 'v']], { limit }))).toMatchObject({
      limits: [{ metric: { lastUse: 1 } }],
    });
    expect(plans.plan('d', descriptor([['k', 'v']]))).toMatchObject({
      limits: [{ metric: { lastUse: Number.POSITIVE_INFINITY } }],
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
      rule: rule({ requestsPerUnit: 5, unit: Unit.WEEK, lease: 0, domain: 'd' }),
      limits: [{ counterStem: stem, nearThreshold: 2 }],
    });
    expect(slots).toEqual([metricKey]);
  });

  it('has the algorithm of the rule whose only limit the request replaces, in a counter of its own form', () => {
    const bucket = { algorithm: Algorithm.TOKEN_BUCKET, requestsPerUnit: 9, burst: 100 };
    const limit = { requestsPerUnit: 5, unit: Unit.DAY };
    const of = (replaced: MatchedRule) =>
      planner({ k: replaced }).planner.plan('d', descriptor([['k', 'v']], { limit }));
    expect(of(rule(bucket))).toMatchObject({
      limits: [
        {
          limit: { algorithm: Algorithm.TOKEN_BUCKET, burst: undefined },
          capacity: 5,
          counterStem: 'pre:1{d;k=v}',
        },
      ],
    });
    expect(of(rule({ limits: [matchedLimit(bucket), matchedLimit()] }))).toMatchObject({
      limits: [{ limit: { algorithm: Algorithm.FIXED_WINDOW }, counterStem: 'pre:d_k_v_' }],
    });
  });

  it('counts the limit of the request in windows of its own length, up to ten years', () => {
    const { planner: plans } = planner();
    const of = (unitMultiplier: number, unit: Unit = Unit.MINUTE) =>
      plans.plan('d', descriptor([['k', 'v']], { limit: { requestsPerUnit: 5, unit, unitMultiplier } }));
    expect(of(5)).toMatchObject({
      limits: [{ counterStem: 'pre:1{d;k=v}', currentLimit: { window: '5m' } }],
    });
    expect(of(1)).toMatchObject({ limits: [{ counterStem: 'pre:d_k_v_' }] });
    const words = "the unit_multiplier of the limit of a request's descriptor";
    expect(() => of(0)).toThrow(`${words} must be from 1 to 65535, not 0`);
    expect(() => of(65_536)).toThrow(`${words} must be from 1 to 65535, not 65536`);
    expect(() => of(11, Unit.YEAR)).toThrow(`${words} makes a window that is 346896000 seconds`);
  });

  it('rejects a limit of the request that is too large for the bucket of its rule', () => {
    const { planner: plans } = planner({ k: rule({ algorithm: Algorithm.TOKEN_BUCKET }) });
    const limit = { requestsPerUnit: 4_294_967_295, unit: Unit.DAY };
    expect(() => plans.plan('d', descriptor([['k', 'v']], { limit }))).toThrow(
      "the limit of a request's descriptor, 4294967295 in 1d, is too large for a token bucket",
    );
  });

  it('gives each of several limits a counter, statistics and words of its own', () => {
    const calendar = { unit: 'month', timezone: 'Europe/Zurich', startsOn: 15 } as const;
    const limits = [
      matchedLimit({ requestsPerUnit: 5, unit: Unit.SECOND, algorithm: Algorithm.TOKEN_BUCKET, burst: 10 }),
      matchedLimit({ requestsPerUnit: 60, unit: Unit.SECOND, unitMultiplier: 30 }),
      matchedLimit({ requestsPerUnit: 1000, unit: Unit.DAY, name: 'daily' }),
      matchedLimit({ requestsPerUnit: 2 ** 40, unit: Unit.MONTH, calendar }),
    ];
    const { planner: plans, slots } = planner({ k: rule({ limits }) });
    const monthly = '1099511627776;w=2592000;calendar="month@Europe/Zurich@15"';
    const policy = `5;w=1;burst=10, 60;w=30, 1000;w=86400;name="daily", ${monthly}`;
    expect(plans.plan('d', descriptor([['k', 'v']]))).toMatchObject({
      limits: [
        { capacity: 10, perSecond: false, currentLimit: { unit: Unit.SECOND, policy: `5, ${policy}` } },
        { capacity: 60, currentLimit: { unit: Unit.UNKNOWN, policy: `60, ${policy}`, window: '30s' } },
        { capacity: 1000, currentLimit: { name: 'daily', unit: Unit.DAY, policy: `1000, ${policy}` } },
        { capacity: 2 ** 40, currentLimit: { unit: Unit.MONTH, policy: `${2 ** 40}, ${policy}` } },
      ],
    });
    expect(slots).toEqual(['d.k.1s', 'd.k.30s', 'd.k.daily', 'd.k.month']);
  });

  it.each([0, 8, -1])('rejects the unit %d in a limit of the request', (unit) => {
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
  const limited = limitedPlan;
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

  it('leaves those of several limits that have other names', () => {
    const two = { limits: [matchedLimit({ name: 'a' }), matchedLimit({ name: 'b' })] };
    const names = (plan: Plan) => (plan.kind === 'limited' ? plan.limits.map(({ limit }) => limit.name) : []);
    const plans: Plan[] = [limited({ replaces: ['b'] }), limited(two)];
    applyReplaces(plans);
    expect(plans.map(names)).toEqual([[''], ['a']]);
    const both: Plan[] = [limited({ replaces: ['b', 'a'] }), limited(two)];
    applyReplaces(both);
    expect(both[1]).toBe(noLimit);
  });

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
