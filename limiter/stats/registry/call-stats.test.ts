import { describe, expect, it } from 'vitest';
import { grpcCallStats, Latencies, quantileMs } from './call-stats.ts';
import { StatsRegistry } from './stats-registry.ts';

describe('grpcCallStats', () => {
  it('counts calls and records whole milliseconds, cut off', () => {
    const registry = new StatsRegistry();
    const recorded: string[] = [];
    registry.onTimer((timer, value) => recorded.push(`${timer.name}:${value}`));
    const latencies = new Latencies();
    const calls = grpcCallStats(registry, { ShouldRateLimit: latencies })('ShouldRateLimit');
    calls.record(2.99);
    calls.record(0.4);
    expect(recorded).toEqual([]);
    registry.passDurations();
    expect(recorded).toEqual([
      'ratelimit_server.ShouldRateLimit.response_time:2',
      'ratelimit_server.ShouldRateLimit.response_time:0',
    ]);
    expect([...registry.statsLines()]).toEqual(['ratelimit_server.ShouldRateLimit.total_requests: 2']);
    const counts = latencies.take();
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(2);
    expect([quantileMs([counts], 0.5)!, quantileMs([counts], 0.99)!]).toEqual([
      expect.closeTo(0.4, 1),
      expect.closeTo(2.99, 0),
    ]);
  });
});

describe('a quantile', () => {
  it('is in the bucket of what was recorded, from a microsecond to half an hour', () => {
    for (let micros = 1; micros < 2 ** 31; micros = Math.ceil(micros * 1.37)) {
      const latencies = new Latencies();
      latencies.record(micros / 1000);
      const [found] = [quantileMs([latencies.take()], 0.5)!];
      expect(Math.abs((found * 1000) / micros - 1)).toBeLessThan(micros < 8 ? 1.01 : 0.2);
    }
  });

  it('is of all threads, and none without anything', () => {
    const [one, other] = [new Latencies(), new Latencies()];
    for (let n = 0; n < 10; n++) one.record(1);
    for (let n = 0; n < 30; n++) other.record(100);
    expect(quantileMs([one.take(), other.take()], 0.5)).toBeGreaterThan(80);
    expect(quantileMs([one.take(), other.take()], 0.5)).toBeNull();
    one.record(1e12);
    expect(quantileMs([one.take()], 0.99)).toBeGreaterThan(1e6);
  });
});
