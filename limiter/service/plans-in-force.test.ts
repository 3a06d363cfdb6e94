import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Unit } from '../../rules/model.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { plainCounting } from '../../test/support/plain-service.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import type { Descriptor, RateLimitRequest } from '../decide/messages.ts';
import { KnownEntries } from '../decide/wire-reader.ts';
import { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { PlansInForce } from './plans-in-force.ts';

const limits = [limit()];
/** Levels 1 to 3 have rules. */
const deep = rule({ key: 'k', descriptors: [rule({ key: 'k', descriptors: [rule({ key: 'k', limits })] })] });
const matcher = new RuleTable(compileRules([source('d', [{ ...deep, limits }])]));

function plansInForce(): PlansInForce {
  return new PlansInForce({
    ...{ stats: new StatsRegistry(), clock: new ManualClock(), counting: plainCounting },
    localCache: undefined,
  });
}

const plain = {
  ...{ entries: [{ key: 'k', value: 'v' }], limit: undefined, hitsAddend: 1, isNegativeHits: false },
};
const descriptor: fc.Arbitrary<Descriptor> = fc.record({
  entries: fc.constantFrom([{ key: 'k', value: 'v' }], [{ key: 'other', value: 'v' }]),
  limit: fc.constantFrom(undefined, undefined, { requestsPerUnit: 5, unit: Unit.HOUR }),
  hitsAddend: fc.constant(1),
  isNegativeHits: fc.constant(false),
});
const request = (one: Descriptor): RateLimitRequest => ({ domain: 'd', descriptors: [one], hitsAddend: 0 });

describe('PlansInForce', () => {
  it('decides nothing before its first rules, with overrides or without', () => {
    const plans = plansInForce();
    for (const overrides of [undefined, []]) {
      if (overrides !== undefined) plans.useOverrides(overrides);
      expect(() => plans.plan(request(plain), 0)).toThrow('no rate limit configuration loaded');
    }
  });

  it('begins another epoch with each change, and with no request', () => {
    const changes: Record<string, (plans: PlansInForce) => void> = {
      rules: (plans) => plans.useRules(matcher),
      overrides: (plans) => plans.useOverrides([]),
      reset: (plans) => plans.forgetCounters(['key']),
      'reset of all': (plans) => plans.forgetCounters(undefined),
    };
    const names = fc.array(fc.constantFrom(...Object.keys(changes)), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(names, (list) => {
        const plans = plansInForce();
        plans.useRules(matcher);
        const epochs = new Set([plans.epoch]);
        for (const name of list) {
          changes[name]!(plans);
          epochs.add(plans.epoch);
          plans.plan(request(plain), 0);
          expect(epochs.has(plans.epoch)).toBe(true);
        }
        expect(epochs.size).toBe(list.length + 1);
      }),
      { numRuns: caseCount(50) },
    );
  });

  it('plans known entries once by the rules in force, in each domain, and again for a limit of the request', () => {
    const plans = plansInForce();
    plans.useRules(matcher);
    const known = new KnownEntries(3, 'a', plain.entries);
    const planOf = (fields: Partial<Descriptor>, domain = 'd') =>
      plans.plan({ ...request({ ...plain, known, ...fields }), domain }, 0)[0]!;
    const plan = planOf({});
    expect(plan.kind).toBe('limited');
    expect(planOf({ hitsAddend: 5 })).toBe(plan);
    const requested = planOf({ limit: { requestsPerUnit: 5, unit: Unit.DAY } });
    expect(requested).toMatchObject({ kind: 'limited', limits: [{ capacity: 5 }] });
    expect(planOf({})).toBe(plan);
    expect(planOf({}, 'other').kind).toBe('domain-not-found');
    const sameSlot = new KnownEntries(3, 'b', [{ key: 'x', value: 'v' }]);
    expect(planOf({ entries: sameSlot.entries, known: sameSlot }).kind).toBe('no-limit');
    const again = planOf({});
    expect(again).toEqual(plan);
    plans.useRules(matcher);
    expect(planOf({})).not.toBe(again);
  });

  it('rejects a request of which something was left out that a rule might be for', () => {
    const crowds = fc.array(fc.option(fc.integer({ min: 1, max: 6 }), { nil: undefined }), {
      ...{ minLength: 4, maxLength: 4 },
    });
    const descriptors = fc.array(descriptor, { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(descriptors, crowds, fc.constantFrom(0, 0, 0, 2), (list, unmarked, left) => {
        const plans = plansInForce();
        plans.useRules(matcher);
        const crowded = new Map(
          [...list.keys()].flatMap((index) => {
            const number = unmarked[index];
            return number === undefined ? [] : [[index, { entries: number + 1, unmarked: number }]];
          }),
        );
        const asked = { ...request(list[0]!), descriptors: list };
        const plan = () =>
          plans.plan({ ...asked, leftOut: { descriptors: left, crowded, maxEntries: 2 } }, 0);
        const wrong = list.findIndex(
          (one, index) => crowded.has(index) && (one.limit !== undefined || unmarked[index]! <= 3),
        );
        if (left > 0) {
          expect(plan).toThrow(`may have ${list.length} descriptors`);
        } else if (wrong >= 0) {
          const { entries } = crowded.get(wrong)!;
          expect(plan).toThrow(`descriptor ${wrong} has ${entries}`);
        } else {
          const whole = plans.plan(asked, 0);
          const expected = whole.map(({ kind }, index) => (crowded.has(index) ? 'no-limit' : kind));
          expect(plan().map(({ kind }) => kind)).toEqual(expected);
        }
      }),
      { numRuns: caseCount(200) },
    );
  });
});
