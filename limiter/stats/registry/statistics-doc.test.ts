/** Compares docs/statistics.md with the names in the program, in both directions. */
import { describe, expect, it } from 'vitest';
import { Health } from '../../../process/grpc/health.ts';
import { httpRejections } from '../../../process/http/http-connections.ts';
import { loggerOf } from '../../../process/log/logger.ts';
import {
  documentedRuleStatistics,
  documentedStatistics,
  documentedTags,
} from '../../../test/support/documented-statistics.ts';
import { createCallerStats, registerCallersFile } from '../../callers/stats.ts';
import { createForwardAuthStats, registerProfilesFile } from '../../forward-auth/stats.ts';
import { registerLeaseStats } from '../../leases/threads.ts';
import { registerOverrideStats } from '../../overrides/threads.ts';
import { createQuotaStats } from '../../quota-service/quota-stats.ts';
import { grpcCallStats } from './call-stats.ts';
import * as stats from './limiter-stats.ts';
import { registerHealthStats } from './limiter-stats.ts';
import { createMemcacheStats, registerMemcacheNodes } from './memcache-stats.ts';
import { createAdminStats } from './operator-stats.ts';
import { leasedHitsName, ruleStatNames } from './rule-stats.ts';
import { StatsRegistry } from './stats-registry.ts';

/** Has every statistic except those of rules. Variable parts of names are in angle brackets, as in the document. */
function registryOfTheProgram(): StatsRegistry {
  const registry = new StatsRegistry();
  const clock = { nowMs: () => 0, monotonicMs: () => 0 };
  stats.createLimiterStats(registry);
  grpcCallStats(registry)('<method>');
  stats.createRejectionStats(registry, 'ratelimit_server.http2', ['<reason>'], () => 0);
  for (const prefix of ['certs', 'http_certs'] as const) {
    stats.createCertificateStats(registry, prefix, {
      expiresAtSeconds: () => 0,
      wasLastRejected: () => false,
    });
  }
  stats.createRejectionStats(registry, 'ratelimit.http', [
    'tls_handshake',
    'tls_client_certificate',
    'foreign_host',
  ]);
  createAdminStats(registry);
  stats.createBudgetStats(registry, { reserve: ['reserved'] });
  registerOverrideStats(registry, {
    inForce: { count: 0, conflicted: 0 },
    files: { wasLastRejected: false },
  });
  createCallerStats(registry);
  registerCallersFile(registry, { callers: () => 0, wasLastRejected: () => false });
  stats.createHttpStats(registry);
  stats.createWarningStats(registry)({ rule: '1', policy: '2', mark: 80 });
  const quota = createQuotaStats(
    registry,
    loggerOf(
      () => {},
      () => false,
    ),
    clock,
  );
  quota.watch({ streams: 0, ids: { buckets: 0, bytes: 0 } });
  quota.hits('rule', 'assigned', 1);
  createForwardAuthStats(registry).missing('<header>');
  registerProfilesFile(registry, { profiles: () => 0, wasLastRejected: () => false });
  stats.createRuntimeStats(registry, () => 0);
  stats.createRulesStats(registry, clock, () => false)({ version: '1', domains: 0, rules: 0 });
  stats.registerXdsStats(registry, { connected: true, resourceBytes: 0 });
  stats.registerProcessStats(registry, { version: '1', node: '2', backend: 'redis', failureMode: 'error' });
  const health = new Health();
  health.set('<component>', true);
  registerHealthStats(registry, health, () => true);
  stats.createWorkerStats(registry, () => 0);
  stats.registerPoolStats(registry, 'redis_pool', {
    connections: { active: 0, total: 0, localClose: 0 },
    calls: { active: 0, waiting: 0, rejected: 0 },
  });
  stats.registerNodeStats(registry, 'redis_pool', () => ({ known: 0, reached: 0 }));
  const leases = {
    counters: 0,
    outstanding: 0,
    granted: 0,
    spent: 0,
    returned: 0,
    lostAtMost: 0,
    unwatched: 0,
  };
  registerLeaseStats(registry, leases);
  const breaker = { phase: 'closed', connected: true, waiting: 0, opened: 0, rejected: 0 };
  stats.registerBreakerStats(registry, 'store', breaker);
  const fallback = { countedLocally: 0, owedCounters: 0, undelivered: 0 };
  stats.registerLocalFallbackStats(registry, fallback);
  stats.registerMemoryStoreStats(registry, { size: 0, bytes: 0, evicted: 0 });
  stats.registerLocalCacheStats(registry, {} as stats.LocalCacheFigures);
  createMemcacheStats(registry);
  registerMemcacheNodes(registry, { figures: { nodes: 0, down: 0, connections: 0 } });
  stats.registerConnectionMemoryStats(registry, { bytes: 0 });
  stats.createRejectionStats(registry, 'ratelimit.http', httpRejections, () => 0);
  for (const sink of ['statsd', 'output']) stats.registerSinkStats(registry, sink, { linesDropped: 0 });
  return registry;
}

/** Without tags. */
function namesOfTheProgram(): string[] {
  const registry = registryOfTheProgram();
  const slots = Array.from({ length: registry.slotCount }, (_, slot) => registry.plainNameOf(slot));
  return [...new Set([...slots, ...registry.timerNames(0)])];
}

/** Of those that have tags from the start. */
function tagsOfTheProgram(): Record<string, string[]> {
  const registry = registryOfTheProgram();
  const slots = Array.from({ length: registry.slotCount }, (_, slot) => slot);
  return Object.fromEntries(
    slots
      .map(
        (slot) =>
          [
            registry.plainNameOf(slot),
            registry
              .tagsOf(slot)
              .map(([key]) => key)
              .sort(),
          ] as const,
      )
      .filter(([, tags]) => tags.length > 0),
  ) as Record<string, string[]>;
}

describe('docs/statistics.md', () => {
  const documented = documentedStatistics();

  it('has every statistic of the program', () => {
    expect(namesOfTheProgram().filter((name) => !documented.includes(name))).toEqual([]);
  });

  it('has no statistic twice', () => {
    expect(documented.filter((name, at) => documented.indexOf(name) !== at)).toEqual([]);
  });

  it('has the statistics of rules', () => {
    const prefix = 'ratelimit.service.rate_limit.';
    const ofRules = [...ruleStatNames, leasedHitsName].map((name) => `${prefix}<metric key>.${name}`);
    const all = [...ofRules, `${prefix}<domain>.domain_not_found`];
    expect(documentedRuleStatistics().sort()).toEqual(all.sort());
  });

  it('has the tags of each', () => {
    const sorted = Object.fromEntries(
      Object.entries(documentedTags()).map(([name, tags]) => [name, tags.toSorted()]),
    );
    const ofProgram = tagsOfTheProgram();
    expect(Object.keys(ofProgram).length).toBeGreaterThan(8);
    expect(sorted).toMatchObject(ofProgram);
  });

  it('has none that the program does not have', () => {
    const known = new Set(namesOfTheProgram());
    const others = /^ratelimit\.(dogstatsd|top_offenders|refusals|prometheus|tracing)\./;
    expect(documented.filter((name) => !known.has(name) && !others.test(name))).toEqual([]);
  });
});
