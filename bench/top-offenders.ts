/**
 * Measures the cost of recording which callers are over limit: nanoseconds of CPU time for a decision of one descriptor, counted in
 * memory, with and without the sketch. Requests are within the limit, or over limit from several kinds of callers.
 *
 *   npx node bench/top-offenders.ts
 */
import { createDecisionService } from '../limiter/assembly/decision-service.ts';
import type { RateLimitRequest } from '../limiter/decide/messages.ts';
import { parseLimiterSettings } from '../limiter/settings/settings.ts';
import { StatsRegistry } from '../limiter/stats/registry/stats-registry.ts';
import { thread } from '../limiter/top-offenders/threads.ts';
import { Health } from '../process/grpc/health.ts';
import { createLogger } from '../process/log/pino-logger.ts';
import { systemClock, systemTimers } from '../process/time/clock.ts';
import { compileRules } from '../rules/table/compile-rules.ts';
import { RuleTable } from '../rules/table/rule-table.ts';
import { openMemoryStore } from '../test/support/open-memory-store.ts';
import { limit, rule, source } from '../test/support/rule-builder.ts';
import { median } from './bench-figures.ts';
import { zipfSequence } from './zipf.ts';

const requests = 200_000;
const rounds = 9;

function sequence(of: 'one' | 'zipf' | 'all'): Uint32Array {
  if (of === 'one') return new Uint32Array(requests);
  if (of === 'zipf') return zipfSequence({ count: 100_000, length: requests, random: Math.random });
  return Uint32Array.from({ length: requests }, (_, index) => index);
}

function requestsOf(key: string, of: 'one' | 'zipf' | 'all'): RateLimitRequest[] {
  return Array.from(sequence(of), (user) => ({
    domain: 'api',
    hitsAddend: 1,
    descriptors: [
      {
        entries: [{ key, value: `user-${user}@example.org` }],
        limit: undefined,
        hitsAddend: undefined,
        isNegativeHits: false,
      },
    ],
  }));
}

function service(keysPerDomain: number): (request: RateLimitRequest) => void {
  const { settings } = parseLimiterSettings({ BACKEND_TYPE: 'memory' });
  if (settings === undefined) throw new Error('the settings are wrong');
  const context = {
    ...{ settings, clock: systemClock, timers: systemTimers, random: Math.random, worker: 0 },
    ...{ registry: new StatsRegistry(), health: new Health() },
    log: createLogger({ level: 'warn', format: 'text', clock: systemClock }),
  };
  const decisions = createDecisionService(context, {
    store: openMemoryStore(),
    observer: thread({ ...context, settings: { ...settings, statsTopKeys: keysPerDomain } }).observes,
  });
  const blocked = rule({ key: 'blocked', rateLimit: limit({ unit: 'day', requestsPerUnit: 0 }) });
  const free = rule({ key: 'free', rateLimit: limit({ unit: 'day', requestsPerUnit: 1e9 }) });
  decisions.useRules(new RuleTable(compileRules([source('api', [blocked, free])])));
  const asker = { abandoned: false };
  const decided = { answer: () => {}, reject: () => {} };
  return (request) => decisions.decide(request, asker, decided);
}

function nanoseconds(
  decide: (request: RateLimitRequest) => void,
  asked: readonly RateLimitRequest[],
): number {
  const started = process.cpuUsage();
  for (const request of asked) decide(request);
  const { user, system } = process.cpuUsage(started);
  return ((user + system) * 1e3) / asked.length;
}

for (const [name, key, of] of [
  ['within the limit, 100,000 callers by Zipf', 'free', 'zipf'],
  ['over limit, one caller', 'blocked', 'one'],
  ['over limit, 100,000 callers by Zipf', 'blocked', 'zipf'],
  ['over limit, a new caller each time', 'blocked', 'all'],
] as const) {
  const asked = requestsOf(key, of);
  const [without, sketch128, sketch1000] = [0, 128, 1_000].map(service);
  const taken: [number[], number[], number[]] = [[], [], []];
  for (let round = 0; round < rounds; round++) {
    taken[0].push(nanoseconds(without!, asked));
    taken[1].push(nanoseconds(sketch128!, asked));
    taken[2].push(nanoseconds(sketch1000!, asked));
  }
  const [none, common, max] = taken.map((values) => Math.round(median(values.slice(2))));
  console.log(`${name}: ${none} ns, with STATS_TOP_KEYS=128 ${common}, =1000 ${max}`);
}
