/** Metrics made of values of requests, compared with a model that keeps everything in plain lists. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../../test/support/property-cases.ts';
import { type RuleMetric, RuleStat, ruleStatNames } from './rule-stats.ts';
import { StatsRegistry } from './stats-registry.ts';

const prefix = 'ratelimit.service.rate_limit.';

/** The count of each name, whether its metric exists or has left. */
function watch(registry: StatsRegistry): { readonly totals: Map<string, number>; left: string[] } {
  const gone = new Map<string, number>();
  const left: string[] = [];
  const collect = (into: Map<string, number>, first: number, count: number): void => {
    for (let slot = first; slot < first + count; slot += 1) {
      if (registry.generationOf(slot) === 0 || registry.valueOf(slot) === 0) continue;
      const name = registry.nameOf(slot).slice(prefix.length);
      into.set(name, (into.get(name) ?? 0) + registry.valueOf(slot));
    }
  };
  registry.onLeave((first, count) => {
    left.push(registry.nameOf(first).slice(prefix.length).replace('.total_hits', ''));
    collect(gone, first, count);
  });
  return {
    left,
    get totals() {
      const totals = new Map(gone);
      collect(totals, 0, registry.slotCount);
      return totals;
    },
  };
}

/** Metrics, the least recently used first; within a period by first use. */
class NaiveModel {
  readonly totals = new Map<string, number>();
  readonly left: string[] = [];
  readonly #max: number;
  #metrics: { name: string; used: number }[] = [];
  readonly #rules = new Set<string>();
  #period = 0;

  constructor(max: number) {
    this.#max = max;
  }

  nextPeriod(): void {
    this.#period += 1;
  }

  rule(name: string): void {
    this.#rules.add(name);
    this.#metrics = this.#metrics.filter((metric) => metric.name !== name);
  }

  use(name: string): string {
    if (this.#rules.has(name)) return name;
    const known = this.#metrics.find((metric) => metric.name === name);
    if (known !== undefined) {
      if (known.used < this.#period) {
        known.used = this.#period;
        this.#metrics = [...this.#metrics.filter((metric) => metric !== known), known];
      }
      return name;
    }
    if (this.#metrics.length >= this.#max) {
      const [oldest] = this.#metrics;
      if (oldest === undefined || oldest.used >= this.#period) return '_overflow';
      this.left.push(oldest.name);
      this.#metrics.shift();
    }
    this.#metrics.push({ name, used: this.#period });
    return name;
  }

  count(name: string, hits: number): void {
    const counted = `${this.use(name)}.over_limit`;
    this.totals.set(counted, (this.totals.get(counted) ?? 0) + hits);
  }
}

const names = ['d.a', 'd.b', 'd.c', 'd.d', 'd.e', 'd.f'];
const event = fc.oneof(
  fc.record({ is: fc.constant('plan' as const), name: fc.constantFrom(...names), holder: fc.nat(3) }),
  fc.record({ is: fc.constant('count' as const), holder: fc.nat(3), hits: fc.integer({ min: 1, max: 9 }) }),
  fc.record({ is: fc.constant('period' as const) }),
  fc.record({ is: fc.constant('rule' as const), name: fc.constantFrom(...names.slice(0, 2)) }),
);

describe('metrics made of values of requests', () => {
  it('count under their own name or in the overflow, even if one that left is still held, and leave as the model says', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4 }), fc.array(event, { maxLength: 80 }), (max, events) => {
        const registry = new StatsRegistry({ maxDetailedMetrics: max });
        const watched = watch(registry);
        const model = new NaiveModel(max);
        const metrics = new Map<number, { metric: RuleMetric; asked: string }>();
        for (const one of events) {
          if (one.is === 'period') {
            registry.nextPeriod();
            model.nextPeriod();
          } else if (one.is === 'rule') {
            registry.ruleMetric(one.name, false);
            model.rule(one.name);
          } else if (one.is === 'plan') {
            metrics.set(one.holder, { metric: registry.ruleMetric(one.name, true), asked: one.name });
            model.use(one.name);
          } else {
            const plan = metrics.get(one.holder);
            if (plan === undefined) continue;
            registry.add(registry.slotOf(plan.metric) + RuleStat.overLimit, one.hits);
            model.count(plan.asked, one.hits);
          }
          expect(registry.detailed.size).toBeLessThanOrEqual(max);
        }
        expect(watched.totals).toEqual(model.totals);
        expect(watched.left).toEqual(model.left);
        expect(registry.detailed.left).toBe(model.left.length);
      }),
      { numRuns: caseCount(500) },
    );
  });

  it('takes the slots of the one that was idle for longest, from 0, in another generation', () => {
    const registry = new StatsRegistry({ maxDetailedMetrics: 2 });
    const [a, b] = [registry.ruleMetric('d.a', true), registry.ruleMetric('d.b', true)];
    const slot = a.slot;
    const generation = registry.generationOf(slot);
    registry.add(slot, 7);
    registry.nextPeriod();
    registry.add(registry.slotOf(b), 1);
    const c = registry.ruleMetric('d.c', true);
    expect(c.slot).toBe(slot);
    expect([registry.nameOf(slot), registry.valueOf(slot)]).toEqual([`${prefix}d.c.total_hits`, 0]);
    expect(registry.generationOf(slot)).not.toBe(generation);
    expect(registry.nameOf(registry.slotOf(a))).toBe(`${prefix}_overflow.total_hits`);
  });

  it('counts a value in the overflow only until there is room', () => {
    const registry = new StatsRegistry({ maxDetailedMetrics: 1 });
    let refused = 0;
    registry.onRejected(() => (refused += 1));
    registry.ruleMetric('d.a', true);
    const b = registry.ruleMetric('d.b', true);
    expect(registry.nameOf(registry.slotOf(b))).toBe(`${prefix}_overflow.total_hits`);
    expect(refused).toBe(2);
    registry.nextPeriod();
    expect(registry.nameOf(registry.slotOf(b))).toBe(`${prefix}d.b.total_hits`);
    expect(refused).toBe(2);
  });

  it('keeps a metric in use through any number of newcomers', () => {
    const registry = new StatsRegistry({ maxDetailedMetrics: 10 });
    const busy = registry.ruleMetric('d.busy', true);
    for (let i = 0; i < 1000; i += 1) {
      if (i % 5 === 0) registry.nextPeriod();
      registry.add(registry.slotOf(busy), 1);
      registry.ruleMetric(`d.v_${i}`, true);
    }
    expect(registry.valueOf(registry.slotOf(busy))).toBe(1000);
    expect(registry.slotCount).toBeLessThanOrEqual((10 + 1) * ruleStatNames.length);
  });

  it('makes one series of a rule and a value of the same name, with what was counted before', () => {
    const registry = new StatsRegistry({ maxDetailedMetrics: 1 });
    const byValue = registry.ruleMetric('d.k_v', true);
    registry.add(registry.slotOf(byValue), 3);
    const byRule = registry.ruleMetric('d.k_v', false);
    registry.add(registry.slotOf(byRule), 4);
    registry.nextPeriod();
    registry.nextPeriod();
    for (const key of ['d.x', 'd.y']) registry.ruleMetric(key, true);
    expect(registry.valueOf(registry.slotOf(byRule))).toBe(7);
    expect(registry.ruleMetric('d.k_v', true)).toBe(byRule);
  });

  it('shows in /stats what is there, however often metrics came and left', () => {
    const registry = new StatsRegistry({ maxDetailedMetrics: 400 });
    for (let round = 0; round < 30; round += 1) {
      for (let i = 0; i < 400; i += 1) registry.add(registry.ruleMetric(`d.r_${round}_${i}`, true).slot, 1);
      registry.nextPeriod();
    }
    const shown = [...registry.statsLines()].map((line) => line.split(':')[0]!);
    expect(shown).toEqual([...shown].sort());
    expect(new Set(shown).size).toBe(shown.length);
    expect(shown.filter((name) => name.includes('.d.r_29_')).length).toBe(400 * ruleStatNames.length);
    expect(shown.filter((name) => name.includes('.d.r_28_')).length).toBe(0);
  });
});
