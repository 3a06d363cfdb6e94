import { describe, expect, it } from 'vitest';
import { leasedHitsStat, RuleStat, ruleStatNames } from './rule-stats.ts';
import { StatsRegistry } from './stats-registry.ts';

describe('StatsRegistry', () => {
  it('shows counters and gauges by name, and counters of 0 too', () => {
    const registry = new StatsRegistry();
    const slot = registry.ruleMetric('mongo_cps.database_default', false).slot;
    registry.add(slot + RuleStat.totalHits, 2846);
    registry.gauge('ratelimit.memory_store.counters', () => 3);
    registry.counter('ratelimit.service.config_load_success');
    registry.domainNotFound('nowhere');
    registry.domainNotFound('nowhere');
    expect([...registry.statsLines()]).toEqual([
      'ratelimit.memory_store.counters: 3',
      'ratelimit.service.config_load_success: 0',
      'ratelimit.service.rate_limit.mongo_cps.database_default.limited: 0',
      'ratelimit.service.rate_limit.mongo_cps.database_default.near_limit: 0',
      'ratelimit.service.rate_limit.mongo_cps.database_default.over_limit: 0',
      'ratelimit.service.rate_limit.mongo_cps.database_default.over_limit_with_local_cache: 0',
      'ratelimit.service.rate_limit.mongo_cps.database_default.passed: 0',
      'ratelimit.service.rate_limit.mongo_cps.database_default.shadow_mode: 0',
      'ratelimit.service.rate_limit.mongo_cps.database_default.total_hits: 2846',
      'ratelimit.service.rate_limit.mongo_cps.database_default.total_negative_hits: 0',
      'ratelimit.service.rate_limit.mongo_cps.database_default.within_limit: 0',
      'ratelimit.service.rate_limit.nowhere.domain_not_found: 2',
    ]);
  });

  it('keeps the order of the whole name if one metric key begins with another', () => {
    const registry = new StatsRegistry();
    for (const key of ['d.a', 'd.a.o', 'd.a.b']) registry.ruleMetric(key, false).slot;
    const names = [...registry.statsLines()].map((line) => line.split(':')[0]);
    expect(names).toEqual([...names].sort());
    expect(names.length).toBe(3 * ruleStatNames.length);
  });

  it('names the slots of a rule in the order of RuleStat', () => {
    const registry = new StatsRegistry();
    registry.counter('in.between');
    const slot = registry.ruleMetric('d.k', false).slot;
    expect(ruleStatNames.map((_, offset) => registry.nameOf(slot + offset))).toEqual(
      ruleStatNames.map((name) => `ratelimit.service.rate_limit.d.k.${name}`),
    );
    expect(Object.values(RuleStat)).toEqual(ruleStatNames.map((_, offset) => offset));
  });

  it('has the statistic of leases behind those of a rule, if leases are counted', () => {
    const registry = new StatsRegistry({ countsLeases: true, maxDetailedMetrics: 1 });
    const first = registry.ruleMetric('d.k_a', true);
    registry.add(first.slot + leasedHitsStat, 5);
    const lines = () => [...registry.statsLines()].filter((line) => line.includes('leased'));
    expect(lines()).toEqual(['ratelimit.service.rate_limit.d.k_a.leased_hits: 5']);
    registry.nextPeriod();
    registry.nextPeriod();
    registry.ruleMetric('d.k_b', true);
    expect(lines()).toEqual([
      'ratelimit.service.rate_limit._overflow.leased_hits: 0',
      'ratelimit.service.rate_limit.d.k_b.leased_hits: 0',
    ]);
    expect(registry.slotCount).toBe(2 * (ruleStatNames.length + 1));
  });

  it('counts metric keys that differ only in what is replaced as one', () => {
    const registry = new StatsRegistry();
    const slot = registry.ruleMetric('d.n_10.0.0.1:8', false).slot;
    expect(registry.ruleMetric('d.n_10_0_0_1_8', false).slot).toBe(slot);
    expect(registry.ruleMetric('d.n_10.0.0.1|8', false).slot).toBe(slot);
    expect(registry.ruleMetric('d.n_10.0.0.1:8', false).slot).toBe(slot);
    expect(registry.nameOf(slot)).toBe('ratelimit.service.rate_limit.d.n_10_0_0_1_8.total_hits');
  });

  it('keeps values while the arrays grow', () => {
    const registry = new StatsRegistry();
    const slots = Array.from({ length: 3000 }, (_, i) => registry.ruleMetric(`d.k_${i}`, false).slot);
    for (const [i, slot] of slots.entries()) registry.add(slot + RuleStat.overLimit, i);
    registry.ruleMetric('d.one_more', false).slot;
    for (const [i, slot] of slots.entries()) expect(registry.valueOf(slot + RuleStat.overLimit)).toBe(i);
    expect(registry.slotCount).toBe(3001 * ruleStatNames.length);
  });

  it('counts metric keys beyond the bound together', () => {
    const registry = new StatsRegistry({ maxRuleNameBytes: 700 });
    const first = registry.ruleMetric('d.k_1', false).slot;
    const second = registry.ruleMetric('d.k_2', false).slot;
    const third = registry.ruleMetric('d.k_3', false).slot;
    expect(new Set([first, second, third]).size).toBe(3);
    expect(registry.ruleMetric('d.k_4', false).slot).toBe(third);
    expect(registry.ruleMetric('d.k_1', false).slot).toBe(first);
    expect(registry.nameOf(third)).toBe('ratelimit.service.rate_limit._overflow.total_hits');
    expect(registry.slotCount).toBe(3 * ruleStatNames.length);
  });

  it('counts metric keys of more than 4,096 characters together, whatever room there is', () => {
    const registry = new StatsRegistry();
    expect(registry.nameOf(registry.ruleMetric('k'.repeat(4097), false).slot)).toContain('._overflow.');
    expect(registry.nameOf(registry.ruleMetric('k'.repeat(4096), false).slot)).toContain('.kkk');
  });

  it('counts unknown domains beyond the bound together, and leaves the room for rules alone', () => {
    const registry = new StatsRegistry({ maxDomainNameBytes: 400 });
    for (const domain of ['a:1', 'b', 'c', 'a:1']) registry.domainNotFound(domain);
    registry.ruleMetric('d.k', false).slot;
    const lines = [...registry.statsLines()];
    expect(lines).toContain('ratelimit.service.rate_limit.a_1.domain_not_found: 2');
    expect(lines).toContain('ratelimit.service.rate_limit._overflow.domain_not_found: 2');
    expect(lines).toContain('ratelimit.service.rate_limit.d.k.total_hits: 0');
  });

  it('reads gauges and counters of other parts when it is shown', () => {
    const registry = new StatsRegistry();
    const pool = { active: 1, total: 4 };
    registry.gauge('g', () => pool.active);
    registry.counterFrom('c', () => pool.total);
    expect([...registry.statsLines()]).toEqual(['c: 4', 'g: 1']);
    pool.active = 0;
    pool.total = 5;
    expect([...registry.statsLines()]).toEqual(['c: 5', 'g: 0']);
  });

  it('passes gathered durations to every listener, those that come later too', () => {
    const registry = new StatsRegistry();
    const timer = registry.timer('t');
    const received: string[] = [];
    registry.onTimer((it, value) => received.push(`${it.name}=${value}`));
    timer.record(3);
    timer.record(4);
    expect(received).toEqual([]);
    registry.passDurations();
    registry.passDurations();
    registry.onTimer((it, value) => received.push(`second ${it.index}=${value}`));
    timer.record(5);
    registry.refresh();
    expect(received).toEqual(['t=3', 't=4', 't=5', 'second 0=5']);
    expect(registry.timer('t')).toBe(timer);
  });

  it('passes on many durations at once, in their order, and counts and changes them as their timer does', () => {
    const registry = new StatsRegistry();
    const counter = registry.counter('calls');
    const [plain, changed] = [
      registry.timer('plain'),
      registry.timer('changed', { counter, shown: (value) => value * 10 }),
    ];
    const received: string[] = [];
    registry.onTimer(({ name }, value) => received.push(`${name} ${value}`));
    const expected: string[] = [];
    for (let i = 0; i < 1_000; i += 1) {
      (i % 3 === 0 ? changed : plain).record(i);
      expected.push(i % 3 === 0 ? `changed ${10 * i}` : `plain ${i}`);
    }
    expect(received.length).toBeGreaterThan(500);
    registry.passDurations();
    expect(received).toEqual(expected);
    expect(registry.valueOf(counter)).toBe(334);
  });
});
