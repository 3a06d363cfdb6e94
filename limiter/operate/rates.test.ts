import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { Latencies } from '../stats/registry/call-stats.ts';
import { RuleStat } from '../stats/registry/rule-stats.ts';
import { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { RateSampler } from './rates.ts';

function fixture() {
  const registry = new StatsRegistry({ maxDetailedMetrics: 1 });
  const clock = new ManualClock(1_700_000_000_000);
  const timers = new ManualTimers();
  const [latencies, http] = [new Latencies(), new Latencies()];
  const sampler = new RateSampler({
    registry,
    clock,
    timers,
    takeLatencies: async () => [{ grpc: latencies.take(), http: http.take() }],
    domains: () => ['shop', 'shop.eu', 'n_1.2.3.4'],
    onLook: () => {},
  });
  const count = (key: string, passed: number, limited = 0, perValue = false): void => {
    const metric = registry.ruleMetric(key, perValue);
    const slot = registry.slotOf(metric);
    registry.add(slot + RuleStat.totalHits, passed + limited);
    registry.add(slot + RuleStat.passed, passed);
    registry.add(slot + RuleStat.limited, limited);
    // Another limit rejected the rest.
    registry.add(slot + RuleStat.overLimit, limited / 2);
  };
  const pass = async (seconds: number): Promise<void> => {
    for (let n = 0; n < seconds; n += 2) {
      clock.ms += 2_000;
      timers.advance(2_000);
      for (let turn = 0; turn < 10; turn++) await Promise.resolve();
    }
  };
  return { registry, sampler, latencies, http, count, pass };
}

const anybody = (): boolean => true;

describe('rates', () => {
  it('are of ten seconds, and of two while somebody looks', async () => {
    const { registry, sampler, count, pass } = fixture();
    const requests = registry.counter('ratelimit_server.ShouldRateLimit.total_requests');
    await pass(70);
    registry.add(requests, 100);
    count('shop.k', 60, 40);
    await pass(10);
    expect(sampler.rates).toMatchObject({ seconds: 10, decisions: 10, allowed: 6, limited: 4, overLimit: 2 });
    registry.add(requests, 100);
    await pass(2);
    expect(sampler.rates).toMatchObject({ seconds: 2, decisions: 50, allowed: 0, limited: 0, overLimit: 0 });
  });

  it('have the quantiles of how long decisions took, a fifth off at most', async () => {
    const { sampler, latencies, http, pass } = fixture();
    for (let n = 0; n < 98; n++) latencies.record(0.2);
    http.record(7);
    for (let n = 0; n < 2; n++) latencies.record(40);
    await pass(10);
    const { p50Ms, p99Ms, httpP50Ms, httpP99Ms } = sampler.rates;
    expect(Math.abs(p50Ms! / 0.2 - 1)).toBeLessThan(0.2);
    expect(Math.abs(p99Ms! / 40 - 1)).toBeLessThan(0.2);
    expect(Math.abs(httpP50Ms! / 7 - 1)).toBeLessThan(0.2);
    expect(httpP99Ms).toBe(httpP50Ms);
    await pass(10);
    expect(sampler.rates).toMatchObject({ p50Ms: null, p99Ms: null, httpP50Ms: null });
  });

  it('of a rule are those of its metric', async () => {
    const { registry, sampler, count, pass } = fixture();
    count('shop.k', 30, 10);
    await pass(10);
    const slot = registry.slotOfRule('shop.k')!;
    expect(sampler.ofRule(slot)).toEqual({ hitsPerSecond: 4, limitedPerSecond: 1, overPerSecond: 0.5 });
    await pass(10);
    expect(sampler.ofRule(slot)).toEqual({ hitsPerSecond: 0, limitedPerSecond: 0, overPerSecond: 0 });
  });
});

describe('the history', () => {
  it('has a point every ten seconds, of all and by domain, and no more than an hour', async () => {
    const { sampler, count, pass } = fixture();
    count('shop.k', 5, 1);
    count('shop.eu.k', 2);
    count('n_1_2_3_4.k', 1);
    await pass(10);
    count('shop.eu.k', 0, 9);
    await pass(10);
    const end = 1_700_000_000;
    const { points, domains } = sampler.history(2, anybody);
    expect(points).toEqual([
      [end + 10, 8, 1, 0, 0],
      [end + 20, 0, 9, 0, 0],
    ]);
    expect(domains).toEqual([
      {
        domain: 'shop.eu',
        points: [
          [end + 10, 2, 0, 0, 0],
          [end + 20, 0, 9, 0, 0],
        ],
      },
      {
        domain: 'shop',
        points: [
          [end + 10, 5, 1, 0, 0],
          [end + 20, 0, 0, 0, 0],
        ],
      },
    ]);
    expect(sampler.history(9, (domain) => domain !== 'shop').domains.map(({ domain }) => domain)).toEqual([
      'shop.eu',
      'n_1.2.3.4',
    ]);
    await pass(3_600);
    const later = sampler.history(2, anybody);
    expect(later.points).toHaveLength(360);
    expect(later.points.every(([, ...hits]) => hits.every((one) => one === 0))).toBe(true);
    expect(later.since).toBe(new Date((end + 30) * 1000).toISOString());
  });

  it('gives the place of a domain that was idle for an hour to another one', async () => {
    const { sampler, count, pass } = fixture();
    for (let n = 0; n < 101; n++) count(`d${n}.k`, n + 1);
    await pass(10);
    const names = (): string[] => sampler.history(200, anybody).domains.map(({ domain }) => domain);
    expect(names()).toHaveLength(100);
    expect(names()).not.toContain('d100');
    await pass(3_600);
    count('d100.k', 1);
    await pass(10);
    expect(names()).toContain('d100');
    expect(names()).toHaveLength(100);
  });

  it('counts on what takes the slot of a metric that left', async () => {
    const { registry, sampler, count, pass } = fixture();
    count('shop.k_a', 5, 0, true);
    await pass(10);
    registry.nextPeriod();
    registry.nextPeriod();
    count('shop.k_b', 3, 0, true);
    await pass(10);
    expect(sampler.history(1, anybody).points.map(([, allowed]) => allowed)).toEqual([5, 3]);
  });
});
