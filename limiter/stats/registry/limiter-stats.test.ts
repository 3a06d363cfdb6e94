import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { grpcCallStats } from './call-stats.ts';
import {
  createLimiterStats,
  createRulesStats,
  createRuntimeStats,
  registerLocalCacheStats,
  registerMemoryStoreStats,
  registerNodeStats,
  registerPoolStats,
  registerProcessStats,
  registerXdsStats,
} from './limiter-stats.ts';
import { StatsRegistry } from './stats-registry.ts';

describe('names of the service’s statistics', () => {
  it('are all there before anything happened', () => {
    const registry = new StatsRegistry();
    createLimiterStats(registry);
    ['ShouldRateLimit', 'Check', 'List'].map(grpcCallStats(registry));
    registerPoolStats(registry, 'redis_pool', {
      connections: { active: 1, total: 2, localClose: 1 },
      calls: { active: 3, waiting: 4, rejected: 5 },
    });
    registerNodeStats(registry, 'redis_pool', () => ({ known: 7, reached: 6 }));
    registerMemoryStoreStats(registry, { size: 9, bytes: 1800, evicted: 2 });
    createRuntimeStats(registry, () => 4);
    expect([...registry.statsLines()]).toEqual([
      'ratelimit.memory_store.bytes: 1800',
      'ratelimit.memory_store.counters: 9',
      'ratelimit.memory_store.evicted: 2',
      ...['block', 'grant', 'limit', 'shadow', 'unlimited'].map(
        (effect) => `ratelimit.overrides.hits.__effect=${effect}: 0`,
      ),
      'ratelimit.redis_pool.calls_active: 3',
      'ratelimit.redis_pool.calls_refused: 5',
      'ratelimit.redis_pool.calls_waiting: 4',
      'ratelimit.redis_pool.cx_active: 1',
      'ratelimit.redis_pool.cx_local_close: 1',
      'ratelimit.redis_pool.cx_total: 2',
      'ratelimit.redis_pool.nodes: 7',
      'ratelimit.redis_pool.nodes_reached: 6',
      'ratelimit.service.call.should_rate_limit.abandoned: 0',
      'ratelimit.service.call.should_rate_limit.redis_error: 0',
      'ratelimit.service.call.should_rate_limit.service_error: 0',
      'ratelimit.service.call.should_rate_limit.store_failure_mode: 0',
      'ratelimit.service.call.should_rate_limit.too_large.__bound=HTTP_MAX_BODY_BYTES: 0',
      'ratelimit.service.call.should_rate_limit.too_large.__bound=REQUEST_MAX_BYTES: 0',
      'ratelimit.service.call.should_rate_limit.too_large.__bound=REQUEST_MAX_DESCRIPTORS: 0',
      'ratelimit.service.call.should_rate_limit.too_large.__bound=REQUEST_MAX_ENTRIES: 0',
      'ratelimit.service.config_load_error: 0',
      'ratelimit.service.config_load_success: 0',
      'ratelimit.service.global_shadow_mode: 0',
      'ratelimit.service.invalid_utf8_values: 0',
      'ratelimit.service.long_texts: 0',
      'ratelimit_server.Check.total_requests: 0',
      'ratelimit_server.List.total_requests: 0',
      'ratelimit_server.ShouldRateLimit.total_requests: 0',
      'runtime.load_attempts: 0',
      'runtime.load_failures: 0',
      'runtime.num_values: 4',
    ]);
  });

  it('report the program, and the rules in force once there are any', () => {
    const registry = new StatsRegistry();
    const clock = new ManualClock();
    registerProcessStats(registry, {
      version: '1.2.3',
      node: 'v26.0.0',
      backend: 'redis',
      failureMode: 'local',
    });
    let lastLoadFailed = true;
    const inForce = createRulesStats(registry, clock, () => lastLoadFailed);
    const figures = { connected: false, resourceBytes: 7 };
    registerXdsStats(registry, figures);
    const lines = (): string[] => [...registry.statsLines()].filter((line) => /rules|xds|weir/.test(line));
    expect(lines()).toEqual([
      'ratelimit.rules.domains: 0',
      'ratelimit.rules.load_failed: 1',
      'ratelimit.rules.rules: 0',
      'ratelimit.xds.connected: 0',
      'ratelimit.xds.resource_bytes: 7',
      'weir.build_info.__node=v26_0_0.__version=1_2_3: 1',
      'weir.store_info.__backend=redis.__failure_mode=local: 1',
    ]);
    lastLoadFailed = false;
    inForce({ version: 'a', domains: 1, rules: 2 });
    clock.ms = 61_999;
    figures.connected = true;
    expect(lines().slice(0, 6)).toEqual([
      'ratelimit.rules.age_seconds: 61',
      'ratelimit.rules.domains: 1',
      'ratelimit.rules.info.__version=a: 1',
      'ratelimit.rules.load_failed: 0',
      'ratelimit.rules.rules: 2',
      'ratelimit.xds.connected: 1',
    ]);
    inForce({ version: 'b', domains: 1, rules: 2 });
    expect(lines().slice(0, 3)).toEqual([
      'ratelimit.rules.age_seconds: 0',
      'ratelimit.rules.domains: 1',
      'ratelimit.rules.info.__version=b: 1',
    ]);
  });

  it('of the local cache are gauges under ratelimit.localcache', () => {
    const registry = new StatsRegistry();
    registerLocalCacheStats(registry, {
      evacuateCount: 1,
      expiredCount: 2,
      entryCount: 3,
      averageAccessTime: 0,
      hitCount: 4,
      missCount: 5,
      lookupCount: 9,
      overwriteCount: 6,
    });
    expect([...registry.statsLines()]).toEqual([
      'ratelimit.localcache.averageAccessTime: 0',
      'ratelimit.localcache.entryCount: 3',
      'ratelimit.localcache.evacuateCount: 1',
      'ratelimit.localcache.expiredCount: 2',
      'ratelimit.localcache.hitCount: 4',
      'ratelimit.localcache.lookupCount: 9',
      'ratelimit.localcache.missCount: 5',
      'ratelimit.localcache.overwriteCount: 6',
    ]);
  });
});
