import { describe, expect, it } from 'vitest';
import { Health } from '../../../process/grpc/health.ts';
import { registerHealthStats } from './limiter-stats.ts';
import { StatsRegistry } from './stats-registry.ts';

describe('the gauges of health', () => {
  it('are 1 for serving only while callers are let in and every component is well', () => {
    const registry = new StatsRegistry();
    const health = new Health();
    let isOpen = false;
    health.set('redis', false);
    registerHealthStats(registry, health, () => isOpen);
    const lines = () => [...registry.statsLines()];
    expect(lines()).toEqual(['ratelimit.health.redis: 0', 'ratelimit.health.serving: 0']);
    health.set('redis', true);
    expect(lines()).toEqual(['ratelimit.health.redis: 1', 'ratelimit.health.serving: 0']);
    isOpen = true;
    expect(lines()).toEqual(['ratelimit.health.redis: 1', 'ratelimit.health.serving: 1']);
    health.set('config', false);
    health.set('config', false);
    expect(lines()).toEqual([
      'ratelimit.health.config: 0',
      'ratelimit.health.redis: 1',
      'ratelimit.health.serving: 0',
    ]);
  });
});
