import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Algorithm } from '../../rules/algorithms/registry.ts';
import type { Limit } from '../../rules/model.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { openMemoryStore } from '../../test/support/open-memory-store.ts';
import { bareResponse, ignoredEvents, plainCounting } from '../../test/support/plain-service.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { Code } from '../decide/messages.ts';
import type { DescriptorStatus } from '../decide/response-message.ts';
import { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { BoundedLocalCache } from '../stores/local-cache.ts';
import type { Store } from '../stores/store.ts';
import { RateLimitService } from './rate-limit-service.ts';

/** Half a minute before a minute ends. */
const start = Date.UTC(2026, 2, 31, 23, 59, 30);

/** `leased`: how many hits of each counter are leased. */
function limiter(limits: readonly Limit[], leased = 0) {
  const clock = new ManualClock(start);
  const storeClock = new ManualClock(start);
  const localCache = new BoundedLocalCache({ maxBytes: 100_000 });
  const memory = openMemoryStore({ clock: storeClock });
  const store: Store = {
    submit: (ops, options, done) =>
      memory.submit(ops, options, () => {
        for (const op of ops) op.leased = leased;
        done();
      }),
    ping: () => memory.ping(),
    close: () => memory.close(),
  };
  const service = new RateLimitService({
    store,
    // Of several limits, the cache may know only one to be full, which then has the wait of the answer.
    localCache: limits.length === 1 ? localCache : undefined,
    stats: new StatsRegistry(),
    clock,
    random: () => 0,
    counting: plainCounting,
    response: bareResponse,
    events: ignoredEvents,
  });
  service.useRules(new RuleTable(compileRules([source('d', [rule({ key: 'k', limits: [...limits] })])])));
  const ask = (hits: number, foreseenHits?: number): DescriptorStatus => {
    let status: DescriptorStatus | undefined;
    const descriptor = {
      ...{ entries: [{ key: 'k', value: 'v' }], limit: undefined, hitsAddend: hits, isNegativeHits: false },
    };
    service.decide(
      { domain: 'd', descriptors: [descriptor], hitsAddend: 0, foreseenHits },
      { abandoned: false },
      {
        answer: ({ statuses }) => {
          status = statuses[0];
        },
        reject: (error) => {
          throw error;
        },
      },
    );
    return status!;
  };
  return {
    clock,
    count: (hits: number) => ask(hits),
    foresee: (hits: number) => ask(0, hits),
    pass: (ms: number) => {
      clock.ms += ms;
      storeClock.ms += ms;
    },
    remembered: () => localCache.stats.entryCount,
  };
}

const algorithm = fc.constantFrom(Algorithm.FIXED_WINDOW, Algorithm.SLIDING_WINDOW, Algorithm.TOKEN_BUCKET);
const limits = fc.array(
  fc.record({ algorithm, requestsPerUnit: fc.integer({ min: 1, max: 6 }) }).map((parts) => limit(parts)),
  { minLength: 1, maxLength: 2 },
);
const steps = fc.array(
  fc.record({ ms: fc.constantFrom(0, 0, 1, 4_321, 31_000), hits: fc.integer({ min: 1, max: 7 }) }),
  { minLength: 1, maxLength: 12 },
);

describe('a request that only asks about hits', () => {
  it('gets the code and the wait that counting them then gets, and leaves no trace', () => {
    fc.assert(
      fc.property(limits, steps, (rates, list) => {
        const named = rates.map((one, n) => ({ ...one, name: `l${n}` }));
        const { count, foresee, pass, remembered } = limiter(named);
        for (const { ms, hits } of list) {
          pass(ms);
          const before = remembered();
          const asked = foresee(hits);
          expect(foresee(hits)).toEqual(asked);
          expect(remembered()).toBe(before);
          const counted = count(hits);
          expect(asked.code).toBe(counted.code);
          if (asked.code === Code.OK) expect(asked.limitRemaining).toBeGreaterThanOrEqual(hits);
          else expect(asked.durationUntilResetSeconds).toBe(counted.durationUntilResetSeconds);
        }
      }),
      { numRuns: caseCount(200) },
    );
  });

  it('finds no room in leased hits', () => {
    const { count, foresee } = limiter([limit({ requestsPerUnit: 10 })], 4);
    count(3);
    expect([foresee(3).code, foresee(4).code]).toEqual([Code.OK, Code.OVER_LIMIT]);
  });

  it.each([Algorithm.SLIDING_WINDOW, Algorithm.TOKEN_BUCKET])(
    'waits only if no hit passes, whatever the date of the store (%s)',
    (one) => {
      const { clock, count, foresee } = limiter([limit({ algorithm: one, requestsPerUnit: 5 })]);
      count(4);
      clock.dateMs = -10_000;
      expect(foresee(2)).toMatchObject({ code: Code.OVER_LIMIT, durationUntilResetSeconds: 1 });
      count(1);
      expect(foresee(2).durationUntilResetSeconds).toBeGreaterThan(10);
    },
  );
});
