import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Entry, Rule } from '../../rules/model.ts';
import type { Override, OverrideEffect } from '../../rules/override.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { openMemoryStore } from '../../test/support/open-memory-store.ts';
import { bareResponse, ignoredEvents, plainCounting } from '../../test/support/plain-service.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { Code, type Descriptor, type RateLimitRequest } from '../decide/messages.ts';
import type { RateLimitResponse } from '../decide/response-message.ts';
import { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { BoundedLocalCache } from '../stores/local-cache.ts';
import { StoreError } from '../stores/store-error.ts';
import type { CountingOptions } from './decision.ts';
import { RateLimitService } from './rate-limit-service.ts';

/** Half a minute before a minute ends. */
const start = Date.UTC(2026, 2, 31, 23, 59, 30);
const prefix = 'ratelimit.service.rate_limit.d.';

interface Setting {
  rules: Rule[];
  counting?: Partial<CountingOptions>;
  shadowMode?: boolean;
  quotaMode?: boolean;
  localCache?: boolean;
}

function limiter({ rules, counting, localCache = false, ...response }: Setting) {
  const clock = new ManualClock(start);
  const registry = new StatsRegistry({ countsLeases: true });
  const store = openMemoryStore({ clock, reservations: { maxReservations: 3, recordMs: 600_000 } });
  /** The hits of the next request. */
  const next = { fails: false, leased: false };
  const service = new RateLimitService({
    store: {
      submit: (ops, options, done) => {
        store.submit(ops, options, () => {
          for (const op of ops) {
            if (next.fails) op.error = new StoreError('away', { transient: true });
            if (next.leased && op.counter.maxLease > 0) op.fromLease = true;
          }
          done();
        });
      },
      notes: store.notes,
      ping: () => store.ping(),
      close: () => store.close(),
    },
    localCache: localCache ? new BoundedLocalCache({ maxBytes: 100_000 }) : undefined,
    stats: registry,
    clock,
    random: () => 0,
    counting: { ...plainCounting, ...counting },
    response: { ...bareResponse, ...response },
    events: ignoredEvents,
  });
  service.useRules(new RuleTable(compileRules([source('d', rules)])));
  const ask = (request: RateLimitRequest): RateLimitResponse | undefined => {
    let answer: RateLimitResponse | undefined;
    service.decide(
      request,
      { abandoned: false },
      {
        answer: (response) => {
          answer = response;
        },
        reject: (error) => {
          if (!(error instanceof StoreError)) throw error;
        },
      },
    );
    return answer;
  };
  const counted = (stat: string, metric: string): number => {
    const slot = registry.slotOfRule(`d.${metric}`);
    return slot === undefined
      ? 0
      : Number(
          [...registry.statsLines()]
            .find((line) => line.startsWith(`${prefix}${metric}.${stat}: `))!
            .split(': ')[1],
        );
  };
  return { clock, service, next, ask, counted };
}

/** What callers ask of one descriptor. */
interface Asked {
  key: string;
  value: string;
  addend: number | undefined;
  negative: boolean;
  marker: 'none' | 'reserve' | 'settle';
  id: string;
}

const addends = fc.oneof(
  fc.constant(undefined),
  fc.constantFrom(0, 1, 2, 7, 2 ** 31, 2 ** 40),
  fc.integer({ min: 0, max: 4 }),
);

function descriptorOf({ key, value, addend, negative, marker, id }: Asked): Descriptor {
  const entries: Entry[] = [{ key, value }];
  // No rule but this one reserves anything.
  if (key !== 'held') return { entries, limit: undefined, hitsAddend: addend, isNegativeHits: negative };
  if (marker !== 'none') entries.unshift({ key: 'reservation_id', value: id });
  if (marker === 'settle') entries.push({ key: 'settle', value: 'true' });
  return { entries, limit: undefined, hitsAddend: addend, isNegativeHits: negative };
}

const names = ['one', 'quota', 'both', 'over', 'held', 'free'];
const estimate = 3;

const askedDescriptor: fc.Arbitrary<Asked> = fc.record({
  key: fc.constantFrom(...names, 'unknown'),
  value: fc.constantFrom('x', 'y'),
  addend: addends,
  negative: fc.boolean(),
  marker: fc.constantFrom('none' as const, 'none' as const, 'reserve' as const, 'settle' as const),
  id: fc.constantFrom('i', 'j'),
});

const request = fc.record({
  descriptors: fc.array(askedDescriptor, { minLength: 1, maxLength: 4 }),
  addend: fc.constantFrom(0, 1, 5),
  seconds: fc.constantFrom(0, 0, 1, 40),
  fails: fc.boolean(),
  leased: fc.boolean(),
  override: fc.constantFrom(undefined, undefined, 'none', 'unlimited', 'shadow', 'block', 'limit'),
});

const setting = fc.record({
  max: fc.integer({ min: 0, max: 6 }),
  shadow: fc.boolean(),
  quota: fc.boolean(),
  replaces: fc.boolean(),
  shadowMode: fc.boolean(),
  quotaMode: fc.boolean(),
  localCache: fc.boolean(),
  stops: fc.boolean(),
  failure: fc.constantFrom('error' as const, 'allow' as const, 'deny' as const),
});

function effectOf(kind: string): OverrideEffect {
  if (kind === 'limit') return { kind, requestsPerUnit: 2, unit: undefined };
  return { kind: kind as 'unlimited' | 'shadow' | 'block' };
}

function overridesOf(kind: string): Override[] {
  if (kind === 'none') return [];
  const rest = { domain: 'd', limit: '', endsMs: undefined, reason: '', by: '', createdMs: start };
  return ['one', 'both'].map((key) => ({
    ...{ id: key, source: 'api', name: key, match: [{ key, value: 'x' }], effect: effectOf(kind) },
    ...rest,
  }));
}

/** By rule, the ends of its metric keys. */
const metricsOf: Readonly<Record<string, string[]>> = {
  one: ['one'],
  quota: ['quota'],
  both: ['both.burst', 'both.all'],
  over: ['over'],
  held: ['held'],
  free: [],
  unknown: [],
};
const metrics = Object.values(metricsOf).flat();

/** What a descriptor asks of each of its limits; undefined: nothing that an answer lets pass or limits. */
function hitsOf({ key, addend, negative, marker }: Asked, requested: number): number | undefined {
  if (negative) return undefined;
  if (key === 'held' && marker === 'settle') return undefined;
  if (key === 'held' && marker === 'reserve') return addend ?? (requested > 0 ? requested : estimate);
  return addend ?? Math.max(1, requested);
}

describe('passed and limited', () => {
  it('have the hits of every answered request, in one of the two, whatever decides it', () => {
    const property = fc.property(setting, fc.array(request, { maxLength: 12 }), (set, requests) => {
      const { max: requestsPerUnit } = set;
      const day = { unit: 'day', requestsPerUnit: 10 } as const;
      const at = limiter({
        rules: [
          rule({ key: 'one', shadowMode: set.shadow, limits: [limit({ requestsPerUnit, name: 'one' })] }),
          rule({ key: 'quota', quotaMode: set.quota, limits: [limit({ requestsPerUnit })] }),
          rule({
            key: 'both',
            limits: [limit({ requestsPerUnit, unit: 'second', name: 'burst' }), limit({ name: 'all' })],
          }),
          rule({
            key: 'over',
            limits: [limit({ requestsPerUnit: 5, replaces: set.replaces ? ['one'] : [] })],
          }),
          rule({
            key: 'held',
            limits: [limit(day)],
            reserve: { ttlSeconds: 20, estimate, onExpiry: 'release' },
          }),
          rule({ key: 'free', limits: [limit({ unlimited: true, unit: '', requestsPerUnit: 0 })] }),
        ],
        counting: {
          defaultLease: 200_000,
          stopCacheKeyIncrementWhenOverLimit: set.stops,
          storeFailureMode: set.failure,
        },
        shadowMode: set.shadowMode,
        quotaMode: set.quotaMode,
        localCache: set.localCache,
      });
      let inForce = 'none';
      const expected = { passed: new Map<string, number>(), limited: new Map<string, number>() };
      for (const { descriptors: drawn, addend, seconds, fails, leased, override } of requests) {
        // What is settled counts even where the rest of the request then fails, which the model does not follow.
        const isLost = fails && set.failure === 'error';
        const descriptors = drawn.filter(({ marker }) => !isLost || marker !== 'settle');
        if (descriptors.length === 0) continue;
        at.clock.ms += seconds * 1_000;
        if (override !== undefined) {
          at.service.useOverrides(overridesOf(override));
          inForce = override;
        }
        Object.assign(at.next, { fails, leased });
        const before = at.counted('total_hits', 'held');
        const answer = at.ask({
          domain: 'd',
          descriptors: descriptors.map(descriptorOf),
          hitsAddend: addend,
        });
        const into = answer?.overallCode === Code.OVER_LIMIT ? expected.limited : expected.passed;
        const add = (map: Map<string, number>, metric: string, hits: number) =>
          map.set(metric, (map.get(metric) ?? 0) + hits);
        const isReplaced = set.replaces && descriptors.some(({ key }) => key === 'over');
        let asked = 0;
        for (const one of descriptors) {
          const hits = hitsOf(one, addend);
          if (hits === undefined) continue;
          if (one.key === 'held') asked += hits;
          // A limit that an override lifted is replaced by nothing.
          const isLifted = inForce === 'unlimited' && one.value === 'x';
          if (answer === undefined || (one.key === 'one' && isReplaced && !isLifted)) continue;
          for (const metric of metricsOf[one.key]!) add(into, metric, hits);
        }
        if (answer === undefined) continue;
        // What is charged beyond what was held passed already.
        const settled = at.counted('total_hits', 'held') - before - asked;
        expect(settled).toBeGreaterThanOrEqual(0);
        add(expected.passed, 'held', settled);
      }
      for (const metric of metrics) {
        expect([metric, at.counted('passed', metric), at.counted('limited', metric)]).toEqual([
          metric,
          expected.passed.get(metric) ?? 0,
          expected.limited.get(metric) ?? 0,
        ]);
      }
    });
    fc.assert(property, { numRuns: caseCount(150) });
  });
});
