import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { Algorithm } from '../../rules/algorithms/registry.ts';
import type { MatchedRule, RuleMatcher } from '../../rules/match-result.ts';
import { isPlainLimit, Unit } from '../../rules/model.ts';
import { budgetLimiter } from '../../test/support/budget-limiter.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { matchedRule as rule } from '../../test/support/matched-rule.ts';
import { openMemoryStore } from '../../test/support/open-memory-store.ts';
import { rule as builtRule, limit as matchedLimit } from '../../test/support/rule-builder.ts';
import { Code, type Descriptor, type RateLimitRequest, ServiceError } from '../decide/messages.ts';
import type { ResponseOptions } from '../decide/response.ts';
import type { RateLimitResponse } from '../decide/response-message.ts';
import {
  leasedHitsName,
  type RuleMetric,
  type RuleStats,
  ruleStatNames,
} from '../stats/registry/rule-stats.ts';
import { BoundedLocalCache } from '../stores/local-cache.ts';
import { callAbandoned, type Operation } from '../stores/operation.ts';
import type { ReservationStore, Store, SubmitOptions } from '../stores/store.ts';
import { StoreError } from '../stores/store-error.ts';
import type { CountingOptions } from './decision.ts';
import { RateLimitService } from './rate-limit-service.ts';

/** 2026-03-31T23:59:30Z: half a minute before a minute, an hour, a day and a month end. */
const start = Date.UTC(2026, 2, 31, 23, 59, 30);

const statNames = [...ruleStatNames, leasedHitsName];

/** Statistics by the full name's last parts: `d.k.total_hits`. */
class NamedStats implements RuleStats {
  readonly counted: Record<string, number> = {};
  readonly #keys: string[] = [];

  ruleMetric(key: string): RuleMetric {
    const known = this.#keys.indexOf(key);
    const slot = (known >= 0 ? known : this.#keys.push(key) - 1) * statNames.length;
    return { key, slot, lastUse: Number.POSITIVE_INFINITY };
  }

  slotOf({ slot }: RuleMetric): number {
    return slot;
  }

  domainNotFound(domain: string): void {
    this.#add(`${domain}.domain_not_found`, 1);
  }

  add(slot: number, amount: number): void {
    const stat = statNames[slot % statNames.length]!;
    this.#add(`${this.#keys[Math.floor(slot / statNames.length)]}.${stat}`, amount);
  }

  #add(name: string, amount: number): void {
    if (amount !== 0) this.counted[name] = (this.counted[name] ?? 0) + amount;
  }
}

/** Passes everything to a real store, and can fail keys, hold answers back, and say what was asked. */
class WatchedStore implements Store {
  readonly #store: Store;
  readonly asked: {
    ops: (Pick<Operation, 'key' | 'hits' | 'ttlSeconds'> &
      Record<'negative' | 'lookOnly', boolean> & { limit: number })[];
    stopWhenOver: boolean;
  }[] = [];
  readonly held: (() => void)[] = [];
  failing = new Map<string, Error>();
  onSubmit: (ops: readonly Operation[]) => void = () => {};
  onAnswered: (op: Operation) => void = () => {};
  holding = false;

  constructor(store: Store) {
    this.#store = store;
  }

  submit(ops: Operation[], options: SubmitOptions, done: () => void): void {
    this.onSubmit(ops);
    this.asked.push({
      ops: ops.map(({ key, hits, verb, ttlSeconds, counter }) => ({
        key,
        hits,
        negative: verb === 'refund',
        ttlSeconds,
        limit: counter.capacity,
        lookOnly: verb === 'peek',
      })),
      stopWhenOver: options.stopWhenOver,
    });
    this.#store.submit(ops, options, () => {
      for (const op of ops) {
        this.onAnswered(op);
        const error = this.failing.get(op.key);
        if (error !== undefined) op.error = error as StoreError;
      }
      if (this.holding) this.held.push(done);
      else done();
    });
  }

  ping = (): Promise<void> => this.#store.ping();
  close = (): Promise<void> => this.#store.close();
}

/** One rule a key, whatever the value, in the domain `d`. */
function matcher(rules: Record<string, MatchedRule>): RuleMatcher {
  return {
    hasDomain: (domain) => domain === 'd',
    hasLevel: (domain, level) => domain === 'd' && level <= 1,
    match: (domain, entries) => {
      const [entry] = entries;
      const found = entry && rules[entry.key];
      if (entry === undefined || found === undefined) return undefined;
      return {
        rule: found,
        metricKey: `${domain}.${entry.key}`,
        metricPerValue: false,
        counterStem: isPlain(found)
          ? `${domain}_${entry.key}_${entry.value}_`
          : `1{${domain};${entry.key}=${entry.value}}`,
      };
    },
  };
}

function isPlain({ limits }: MatchedRule): boolean {
  return limits.length < 2 && limits.every(isPlainLimit);
}

function descriptor(key: string, fields: Partial<Descriptor> = {}): Descriptor {
  return {
    entries: [{ key, value: 'v' }],
    limit: undefined,
    hitsAddend: undefined,
    isNegativeHits: false,
    ...fields,
  };
}

function request(...descriptors: (string | Descriptor)[]): RateLimitRequest {
  return {
    domain: 'd',
    descriptors: descriptors.map((one) => (typeof one === 'string' ? descriptor(one) : one)),
    hitsAddend: 0,
  };
}

const minuteSuffix = Date.UTC(2026, 2, 31, 23, 59) / 1000;

let clock: ManualClock;
let stats: NamedStats;
let store: WatchedStore;
let events: string[];
/** Counter keys with the hits that were over, as they were reported. */
let offences: [domain: string, key: string, hits: number][];
let cache: BoundedLocalCache;

beforeEach(() => {
  clock = new ManualClock(start);
  stats = new NamedStats();
  store = new WatchedStore(openMemoryStore({ clock }));
  events = [];
  offences = [];
  cache = new BoundedLocalCache({ maxBytes: 100_000 });
});

interface ServiceFields {
  rules?: Record<string, MatchedRule>;
  counting?: Partial<CountingOptions>;
  response?: Partial<ResponseOptions>;
  localCache?: boolean;
  random?: () => number;
  reservations?: ReservationStore;
}

function service(fields: ServiceFields): RateLimitService {
  const { rules, counting, response, localCache, random, reservations } = fields;
  const made = new RateLimitService({
    store,
    reservations,
    localCache: localCache ? cache : undefined,
    stats,
    clock,
    random: random ?? (() => 0),
    counting: {
      cacheKeyPrefix: '',
      counterKeys: 'compatible',
      maxTextBytes: 16_384,
      nearLimitRatio: 0.8,
      defaultLease: undefined,
      sanitizeDescriptorMetricDots: false,
      useCalendarMonthRateLimit: false,
      expirationJitterMaxSeconds: 0,
      countersEndWithWindow: false,
      stopCacheKeyIncrementWhenOverLimit: false,
      storeFailureMode: 'error',
      ...counting,
    },
    response: {
      shadowMode: false,
      quotaMode: false,
      dynamicMetadata: false,
      identityMetadata: false,
      identityHeader: undefined,
      responseHeaders: undefined,
      ietfUnit: undefined,
      describesLongestWait: false,
      retryAfter: false,
      requestHeaders: undefined,
      perUnitHeaders: false,
      warningHeader: undefined,
      ...response,
    },
    events: {
      onServiceError: () => events.push('service error'),
      onOverLimit: (domain, { key }, overLimit) => offences.push([domain, key, overLimit]),
      onStoreError: (error) => events.push(`store error: ${error.message}`),
      onAbandoned: () => events.push('abandoned'),
      onUncounted: () => events.push('uncounted'),
      onGlobalShadow: () => events.push('global shadow'),
    },
  });
  if (rules !== undefined) made.useRules(matcher(rules));
  return made;
}

function outcome(decider: RateLimitService, asked: RateLimitRequest): RateLimitResponse | Error {
  const outcomes: (RateLimitResponse | Error)[] = [];
  const asker = { abandoned: false };
  decider.decide(asked, asker, {
    answer: (response) => outcomes.push(response),
    reject: (error) => outcomes.push(error as Error),
  });
  expect(outcomes).toHaveLength(1);
  return outcomes[0]!;
}

function answer(decider: RateLimitService, asked: RateLimitRequest): RateLimitResponse {
  const result = outcome(decider, asked);
  if (result instanceof Error) throw result;
  return result;
}

/** `OK 9`: code and remaining of each status. */
function statuses(decider: RateLimitService, asked: RateLimitRequest): string[] {
  return answer(decider, asked).statuses.map(
    ({ code, limitRemaining }) => `${code === Code.OK ? 'OK' : 'OVER'} ${limitRemaining}`,
  );
}

function times<T>(count: number, action: () => T): T[] {
  return Array.from({ length: count }, action);
}

describe('RateLimitService', () => {
  it('allows up to the limit, and nothing beyond until the window ends', () => {
    const decider = service({ rules: { k: rule({ requestsPerUnit: 2, name: 'n' }) } });
    expect(answer(decider, request('k'))).toEqual({
      overallCode: Code.OK,
      statuses: [
        {
          code: Code.OK,
          currentLimit: matchedLimit({ requestsPerUnit: 2, name: 'n' }),
          limitRemaining: 1,
          durationUntilResetSeconds: 30,
        },
      ],
      responseHeadersToAdd: [],
      requestHeadersToAdd: [],
      dynamicMetadata: undefined,
    });
    expect(statuses(decider, request('k'))).toEqual(['OK 0']);
    expect(statuses(decider, request('k'))).toEqual(['OVER 0']);
    expect(answer(decider, request('k')).overallCode).toBe(Code.OVER_LIMIT);
    clock.ms += 29_999;
    expect(answer(decider, request('k')).statuses[0]).toMatchObject({
      code: Code.OVER_LIMIT,
      durationUntilResetSeconds: 1,
    });
    clock.ms += 1;
    expect(answer(decider, request('k')).statuses[0]).toMatchObject({
      code: Code.OK,
      durationUntilResetSeconds: 60,
    });
    expect(stats.counted).toEqual({
      'd.k.total_hits': 6,
      'd.k.within_limit': 3,
      'd.k.near_limit': 1,
      'd.k.over_limit': 3,
      'd.k.passed': 3,
      'd.k.limited': 3,
    });
  });

  it('counts what a lease covers in a statistic of its own, besides the others', () => {
    const decider = service({
      rules: { k: rule({ requestsPerUnit: 1_000 }) },
      counting: { defaultLease: 5_000 },
    });
    answer(decider, request('k'));
    store.onSubmit = ([op]) => {
      expect(op?.counter.maxLease).toBe(5);
      op!.fromLease = true;
      op!.leased = 4;
    };
    expect(statuses(decider, { ...request('k'), hitsAddend: 3 })).toEqual(['OK 992']);
    expect(stats.counted).toEqual({
      ...{ 'd.k.total_hits': 4, 'd.k.within_limit': 4, 'd.k.passed': 4 },
      'd.k.leased_hits': 3,
    });
  });

  it('reports the hits over a limit, and no others', () => {
    const refused: string[] = [];
    const { service: decider } = budgetLimiter({
      rules: [builtRule({ key: 'k', limits: [matchedLimit({ requestsPerUnit: 2 })] })],
      events: {
        onRequestOverLimit: ({ counter }, entries, used) =>
          refused.push(`${counter.capacity} ${entries[0]?.key} ${used}`),
      },
    });
    times(2, () => answer(decider, request('k')));
    expect(refused).toEqual([]);
    times(2, () => answer(decider, request('k')));
    // The local cache knows the second one, and not how much is used.
    expect(refused).toEqual(['2 k 3', '2 k 2']);
  });

  it('blocks everything by a limit of 0', () => {
    const decider = service({ rules: { k: rule({ requestsPerUnit: 0 }) } });
    expect(statuses(decider, request('k'))).toEqual(['OVER 0']);
  });

  it('is over when one of several descriptors is, and counts all of them', () => {
    const decider = service({ rules: { a: rule(), b: rule({ requestsPerUnit: 0 }) } });
    const response = answer(decider, request('a', 'b'));
    expect(response.overallCode).toBe(Code.OVER_LIMIT);
    expect(response.statuses.map(({ code }) => code)).toEqual([Code.OK, Code.OVER_LIMIT]);
    expect(statuses(decider, request('a'))).toEqual(['OK 8']);
  });

  it('answers for unmatched and unlimited descriptors without asking the store', () => {
    const decider = service({ rules: { u: rule({ unlimited: true, unit: Unit.UNKNOWN }) } });
    const none = {
      code: Code.OK,
      currentLimit: undefined,
      limitRemaining: 0,
      durationUntilResetSeconds: undefined,
    };
    expect(answer(decider, request('other', 'u')).statuses).toEqual([
      none,
      { ...none, limitRemaining: 0xffff_ffff },
    ]);
    expect(store.asked).toEqual([]);
    expect(stats.counted).toEqual({});
  });

  it('counts a domain without rules, once a descriptor', () => {
    const decider = service({ rules: {} });
    expect(statuses(decider, { ...request('a', 'b'), domain: 'other' })).toEqual(['OK 0', 'OK 0']);
    expect(stats.counted).toEqual({ 'other.domain_not_found': 2 });
  });

  it('counts nothing for a replaced limit', () => {
    const decider = service({ rules: { a: rule({ name: 'a' }), b: rule({ replaces: ['a'] }) } });
    expect(statuses(decider, request('a', 'b'))).toEqual(['OK 0', 'OK 9']);
    expect(store.asked.map(({ ops }) => ops.map(({ key }) => key))).toEqual([[`d_b_v_${minuteSuffix}`]]);
    expect(stats.counted).toEqual({ 'd.b.total_hits': 1, 'd.b.within_limit': 1, 'd.b.passed': 1 });
  });

  it('prefers the limit of the request', () => {
    const decider = service({ rules: { k: rule() }, counting: { cacheKeyPrefix: 'p:' } });
    const asked = request(descriptor('k', { limit: { requestsPerUnit: 3, unit: Unit.DAY } }));
    expect(answer(decider, asked).statuses[0]).toMatchObject({
      limitRemaining: 2,
      currentLimit: { requestsPerUnit: 3, unit: Unit.DAY },
    });
    expect(store.asked[0]?.ops[0]?.key).toBe(`p:d_k_v_${Date.UTC(2026, 2, 31) / 1000}`);
    expect(stats.counted).toEqual({
      'd.k_v.total_hits': 1,
      'd.k_v.within_limit': 1,
      'd.k_v.passed': 1,
    });
  });

  it('counts the same counter twice in one request, in order', () => {
    const decider = service({ rules: { k: rule({ requestsPerUnit: 1 }) } });
    expect(statuses(decider, request('k', 'k'))).toEqual(['OK 0', 'OVER 0']);
  });

  describe('hits', () => {
    it('are the addend of the descriptor, else of the request, else 1', () => {
      const decider = service({ rules: { k: rule() } });
      const asked = {
        ...request('k', descriptor('k', { hitsAddend: 3 }), descriptor('k', { hitsAddend: 0 })),
        hitsAddend: 2,
      };
      expect(statuses(decider, asked)).toEqual(['OK 8', 'OK 5', 'OK 5']);
      expect(statuses(decider, request('k'))).toEqual(['OK 4']);
      expect(stats.counted).toMatchObject({ 'd.k.total_hits': 6, 'd.k.within_limit': 6 });
    });

    it('of 2^53 - 1 are counted', () => {
      const asked = { ...request(descriptor('k', { hitsAddend: Number.MAX_SAFE_INTEGER })), hitsAddend: 7 };
      expect(statuses(service({ rules: { k: rule() } }), asked)).toEqual(['OVER 0']);
      expect(stats.counted['d.k.total_hits']).toBe(Number.MAX_SAFE_INTEGER);
    });

    it('of 0 look without counting', () => {
      const decider = service({ rules: { k: rule({ requestsPerUnit: 1 }) } });
      const look = request(descriptor('k', { hitsAddend: 0 }));
      expect(statuses(decider, look)).toEqual(['OK 1']);
      times(2, () => answer(decider, request('k')));
      expect(statuses(decider, look)).toEqual(['OVER 0']);
    });
  });

  describe('negative hits', () => {
    const refund = (hits: number) => request(descriptor('k', { hitsAddend: hits, isNegativeHits: true }));

    it('are taken back, never below 0, and make no counter', () => {
      const decider = service({ rules: { k: rule({ requestsPerUnit: 5 }) } });
      expect(statuses(decider, refund(3))).toEqual(['OK 5']);
      times(4, () => answer(decider, request('k')));
      expect(statuses(decider, refund(1))).toEqual(['OK 2']);
      expect(statuses(decider, refund(100))).toEqual(['OK 5']);
      expect(statuses(decider, request('k'))).toEqual(['OK 4']);
    });

    it('are OK above the limit, without any statistic but their own', () => {
      const decider = service({ rules: { k: rule({ requestsPerUnit: 1 }) }, localCache: true });
      answer(decider, { ...request('k'), hitsAddend: 9 });
      const before = { ...stats.counted };
      expect(statuses(decider, refund(2))).toEqual(['OK 0']);
      expect(stats.counted).toEqual({ ...before, 'd.k.total_negative_hits': 2 });
      expect(events).toEqual([]);
    });

    it('neither read nor set the local cache, and make it forget the counter', () => {
      const decider = service({ rules: { k: rule({ requestsPerUnit: 1 }) }, localCache: true });
      times(2, () => answer(decider, request('k')));
      const key = `d_k_v_${minuteSuffix}`;
      expect(cache.until(key, clock.ms)).toBeGreaterThan(0);
      expect(statuses(decider, refund(1))).toEqual(['OK 0']);
      expect(cache.until(key, clock.ms)).toBe(0);
      expect(statuses(decider, refund(1))).toEqual(['OK 1']);
      expect(statuses(decider, request('k'))).toEqual(['OK 0']);
    });
  });

  it('make the local cache forget their counter also when the request fails by another one', () => {
    const decider = service({
      rules: { k: rule({ requestsPerUnit: 1 }), broken: rule() },
      localCache: true,
    });
    times(2, () => answer(decider, request('k')));
    store.failing.set(`d_broken_v_${minuteSuffix}`, new StoreError('broken', { transient: true }));
    const refund = descriptor('k', { hitsAddend: 2, isNegativeHits: true });
    expect(outcome(decider, request(refund, 'broken'))).toBeInstanceOf(StoreError);
    expect(statuses(decider, request('k'))).toEqual(['OK 0']);
  });

  describe('shadow mode', () => {
    it('of a rule makes its status OK, counts what it changed, and is no over-limit of the request', () => {
      const decider = service({ rules: { k: rule({ requestsPerUnit: 1, shadowMode: true }) } });
      answer(decider, request('k'));
      const response = answer(decider, request('k'));
      expect(response.overallCode).toBe(Code.OK);
      expect(response.statuses[0]).toMatchObject({ code: Code.OK, limitRemaining: 0 });
      expect(stats.counted).toMatchObject({ 'd.k.over_limit': 1, 'd.k.shadow_mode': 1 });
    });

    it('of the service changes the overall code alone', () => {
      const decider = service({ rules: { k: rule({ requestsPerUnit: 0 }) }, response: { shadowMode: true } });
      const response = answer(decider, request('k', 'k'));
      expect(response.overallCode).toBe(Code.OK);
      expect(response.statuses.map(({ code }) => code)).toEqual([Code.OVER_LIMIT, Code.OVER_LIMIT]);
      expect(events).toEqual(['global shadow']);
    });
  });

  describe('hits over limit', () => {
    const key = `d_k_v_${minuteSuffix}`;

    it('are notified of one by one, with the local cache or without', () => {
      const rules = { k: rule({ requestsPerUnit: 3 }) };
      for (const localCache of [false, true]) {
        offences = [];
        store = new WatchedStore(openMemoryStore({ clock }));
        const decider = service({ rules, localCache });
        for (const hitsAddend of [2, 2, 5]) answer(decider, { ...request('k'), hitsAddend });
        expect(offences).toEqual([
          ['d', key, 1],
          ['d', key, 5],
        ]);
      }
    });

    it('are reported in shadow mode too, and never for those that pass or are taken back', () => {
      const decider = service({ rules: { k: rule({ requestsPerUnit: 1, shadowMode: true }) } });
      times(2, () => answer(decider, request('k')));
      expect(offences).toEqual([['d', key, 1]]);
      answer(decider, request(descriptor('k', { isNegativeHits: true })));
      expect(offences).toHaveLength(1);
    });
  });

  describe('hits that are over because of reservations that have expired', () => {
    /** Says of the first hits of each counter that something has expired, which leaves `used` of it. */
    function expiring(used: number): { given: number; reservations: ReservationStore } {
      const told = new Set<string>();
      store.onAnswered = (op) => {
        op.hasExpired = !told.has(op.key);
        told.add(op.key);
      };
      const fixture = {
        given: 0,
        reservations: Object.assign(store, {
          giveBack(ops: Operation[], _: SubmitOptions, done: () => void) {
            fixture.given += 1;
            for (const op of ops) Object.assign(op, { after: used, hasExpired: false });
            setImmediate(done);
          },
        }),
      };
      return fixture;
    }

    it.each([
      [1, 'OK 2'],
      [4, 'OVER 0'],
    ])('are judged by what is used once it was given back: %i', async (used, expected) => {
      const fixture = expiring(used);
      const decider = service({ rules: { k: rule({ requestsPerUnit: 3 }) }, ...fixture });
      const answered = new Promise<RateLimitResponse>((resolve) => {
        decider.decide(
          { ...request('k'), hitsAddend: 5 },
          { abandoned: false },
          { answer: resolve, reject: expect.fail },
        );
      });
      const [status] = (await answered).statuses;
      expect(`${status!.code === Code.OK ? 'OK' : 'OVER'} ${status!.limitRemaining}`).toBe(expected);
      expect(fixture.given).toBe(1);
    });
  });

  describe('local cache', () => {
    it('remembers no counter on which what expired was charged, as it may be committed for less', () => {
      const reserve = { ttlSeconds: 60, onExpiry: 'charge' } as const;
      for (const [key, cached] of [
        ['k', 1],
        ['charging', 0],
      ] as const) {
        const rules = {
          k: rule({ requestsPerUnit: 1 }),
          charging: { ...rule({ requestsPerUnit: 1 }), reserve } as MatchedRule,
        };
        const decider = service({ rules, localCache: true });
        times(2, () => answer(decider, request(key)));
        store.asked.length = 0;
        answer(decider, request(key));
        expect(store.asked).toHaveLength(1 - cached);
      }
    });

    it('answers for a counter known to be over, and leaves the store alone', () => {
      const decider = service({
        rules: { k: rule({ requestsPerUnit: 1 }), other: rule() },
        localCache: true,
      });
      times(2, () => answer(decider, request('k')));
      store.asked.length = 0;
      expect(statuses(decider, { ...request('k', 'other'), hitsAddend: 4 })).toEqual(['OVER 0', 'OK 6']);
      expect(store.asked.map(({ ops }) => ops.map(({ key }) => key))).toEqual([
        [`d_other_v_${minuteSuffix}`],
      ]);
      expect(stats.counted).toMatchObject({
        'd.k.total_hits': 6,
        'd.k.over_limit': 5,
        'd.k.over_limit_with_local_cache': 4,
      });
    });

    it('forgets when the window ends', () => {
      const decider = service({ rules: { k: rule({ requestsPerUnit: 1 }) }, localCache: true });
      times(2, () => answer(decider, request('k')));
      expect(cache.until(`d_k_v_${minuteSuffix}`, clock.ms + 29_999)).toBeGreaterThan(0);
      expect(cache.until(`d_k_v_${minuteSuffix}`, clock.ms + 30_000)).toBe(0);
      clock.ms += 30_000;
      expect(statuses(decider, request('k'))).toEqual(['OK 0']);
    });

    it('remembers counters of rules in shadow mode as well', () => {
      const decider = service({
        rules: { k: rule({ requestsPerUnit: 0, shadowMode: true }) },
        localCache: true,
      });
      times(3, () => expect(statuses(decider, request('k'))).toEqual(['OK 0']));
      expect(stats.counted).toMatchObject({ 'd.k.over_limit_with_local_cache': 2, 'd.k.shadow_mode': 3 });
    });

    it('is empty after new rules', () => {
      const decider = service({ rules: { k: rule({ requestsPerUnit: 1 }) }, localCache: true });
      times(2, () => answer(decider, request('k')));
      decider.useRules(matcher({ k: rule({ requestsPerUnit: 5 }) }));
      expect(statuses(decider, request('k'))).toEqual(['OK 2']);
    });

    it('learns nothing from a request that was decided by older rules', () => {
      const decider = service({ rules: { k: rule({ requestsPerUnit: 0 }) }, localCache: true });
      store.holding = true;
      const codes: Code[] = [];
      const asker = { abandoned: false };
      decider.decide(request('k'), asker, {
        answer: ({ overallCode }) => codes.push(overallCode),
        reject: () => {},
      });
      store.holding = false;
      decider.useRules(matcher({ k: rule({ requestsPerUnit: 5 }) }));
      for (const done of store.held) done();
      expect(codes).toEqual([Code.OVER_LIMIT]);
      expect(statuses(decider, request('k'))).toEqual(['OK 3']);
    });

    it.each([
      [undefined, 1],
      [5_000, 0],
    ])(
      'does not learn that a counter is full whose leased hits may return (lease %s)',
      (defaultLease, known) => {
        const rules = { k: rule({ requestsPerUnit: 1_000 }) };
        const decider = service({ rules, localCache: true, counting: { defaultLease } });
        const codes = times(2, () => answer(decider, { ...request('k'), hitsAddend: 900 }).overallCode);
        expect([codes, cache.stats.entryCount]).toEqual([[Code.OK, Code.OVER_LIMIT], known]);
      },
    );

    it('forgets a counter that was reset, and no other one', () => {
      const rules = { a: rule({ requestsPerUnit: 0 }), b: rule({ requestsPerUnit: 0 }) };
      const decider = service({ rules, localCache: true });
      answer(decider, request('a', 'b'));
      const askedFor = () => {
        answer(decider, request('a', 'b'));
        return store.asked.splice(0).flatMap(({ ops }) => ops.map(({ key }) => key));
      };
      store.asked.length = 0;
      expect(askedFor()).toEqual([]);
      decider.forgetCounters([`d_a_v_${minuteSuffix}`]);
      expect(askedFor()).toEqual([`d_a_v_${minuteSuffix}`]);
      expect(askedFor()).toEqual([]);
      decider.forgetCounters(undefined);
      expect(askedFor()).toHaveLength(2);
    });

    it('learns nothing from a reply to what the store was asked before a reset', () => {
      const decider = service({ rules: { k: rule({ requestsPerUnit: 0 }) }, localCache: true });
      const codes: Code[] = [];
      const ask = () =>
        decider.decide(
          request('k'),
          { abandoned: false },
          { answer: ({ overallCode }) => codes.push(overallCode), reject: () => {} },
        );
      store.holding = true;
      ask();
      decider.forgetCounters([`d_k_v_${minuteSuffix}`]);
      ask();
      const [before, after] = store.held;
      before?.();
      expect([codes, cache.stats.entryCount]).toEqual([[Code.OVER_LIMIT], 0]);
      after?.();
      expect(cache.stats.entryCount).toBe(1);
    });
  });

  describe('stop when over', () => {
    const rules = { a: rule({ requestsPerUnit: 5 }), b: rule({ requestsPerUnit: 1 }) };

    it('counts no other descriptor once one is over', () => {
      const decider = service({ rules, counting: { stopCacheKeyIncrementWhenOverLimit: true } });
      expect(statuses(decider, request('a', 'b'))).toEqual(['OK 4', 'OK 0']);
      times(3, () => expect(statuses(decider, request('a', 'b'))).toEqual(['OK 4', 'OVER 0']));
      expect(statuses(decider, request('a'))).toEqual(['OK 3']);
      expect(stats.counted).toMatchObject({
        'd.a.total_hits': 5,
        'd.a.within_limit': 5,
        'd.b.over_limit': 3,
      });
      expect(store.asked.map(({ stopWhenOver }) => stopWhenOver)).toEqual([true, true, true, true, false]);
    });

    it.each([false, true])(
      'counts the others beside a shadow rule that is over (local cache %s)',
      (localCache) => {
        const shadowed = {
          a: rule({ requestsPerUnit: 3 }),
          b: rule({ requestsPerUnit: 1, shadowMode: true }),
        };
        const decider = service({
          rules: shadowed,
          counting: { stopCacheKeyIncrementWhenOverLimit: true },
          localCache,
        });
        const codes = times(40, () => answer(decider, request('a', 'b')).overallCode);
        expect(codes.filter((code) => code === Code.OK)).toHaveLength(3);
      },
    );

    it('only looks at the others when the local cache knows one to be over', () => {
      const decider = service({
        rules,
        counting: { stopCacheKeyIncrementWhenOverLimit: true },
        localCache: true,
      });
      times(2, () => answer(decider, request('b')));
      store.asked.length = 0;
      expect(statuses(decider, request('a', 'b'))).toEqual(['OK 5', 'OVER 0']);
      expect(store.asked).toMatchObject([
        { ops: [{ key: `d_a_v_${minuteSuffix}`, limit: 5, lookOnly: true }], stopWhenOver: false },
      ]);
      expect(statuses(decider, request('a'))).toEqual(['OK 4']);
    });

    it('counts the others nevertheless unless it is set', () => {
      const decider = service({ rules, localCache: true });
      times(2, () => answer(decider, request('b')));
      expect(statuses(decider, request('a', 'b'))).toEqual(['OK 4', 'OVER 0']);
      expect(store.asked.at(-1)).toMatchObject({ ops: [{ lookOnly: false }], stopWhenOver: false });
    });

    it('only looks at all limits of another rule then', () => {
      const pair = rule({ limits: [matchedLimit({ name: 'm' }), matchedLimit({ unit: 'hour', name: 'h' })] });
      const decider = service({
        rules: { ...rules, pair },
        counting: { stopCacheKeyIncrementWhenOverLimit: true },
        localCache: true,
      });
      times(2, () => answer(decider, request('b')));
      expect(statuses(decider, request('pair', 'b'))).toEqual(['OK 10', 'OVER 0']);
      expect(store.asked.at(-1)?.ops).toMatchObject([{ lookOnly: true }, { lookOnly: true }]);
    });

    it('takes hits back all the same', () => {
      const decider = service({
        rules,
        counting: { stopCacheKeyIncrementWhenOverLimit: true },
        localCache: true,
      });
      times(2, () => answer(decider, request('b')));
      times(3, () => answer(decider, request('a')));
      const refund = descriptor('a', { isNegativeHits: true });
      expect(statuses(decider, request(refund, 'b'))).toEqual(['OK 3', 'OVER 0']);
      expect(store.asked.at(-1)?.ops).toMatchObject([{ negative: true, lookOnly: false }]);
    });

    it('never makes the statistics of held-back hits fall below 0', () => {
      const decider = service({ rules, counting: { stopCacheKeyIncrementWhenOverLimit: true } });
      times(2, () => answer(decider, request('b')));
      expect(statuses(decider, { ...request('a', 'b'), hitsAddend: 5 })).toEqual(['OK 5', 'OVER 0']);
      expect(stats.counted).toEqual({
        'd.a.total_hits': 5,
        'd.a.within_limit': 5,
        'd.a.limited': 5,
        'd.b.total_hits': 7,
        'd.b.within_limit': 1,
        'd.b.near_limit': 1,
        'd.b.over_limit': 6,
        'd.b.passed': 1,
        'd.b.limited': 6,
      });
    });
  });

  describe('life of a counter', () => {
    it.each([
      ['MINUTE', false, 60],
      ['YEAR', false, 31_536_000],
      ['MONTH', false, 2_592_000],
      ['MONTH', true, 30],
    ] as const)('in a %s (calendar %s) is %d seconds', (unit, calendarMonth, ttlSeconds) => {
      const decider = service({
        rules: { k: rule({ unit: Unit[unit] }) },
        counting: { useCalendarMonthRateLimit: calendarMonth },
      });
      answer(decider, request('k'));
      expect(store.asked[0]?.ops[0]?.ttlSeconds).toBe(ttlSeconds);
    });

    it('is drawn out by jitter below its bound', () => {
      let random = 0;
      const decider = service({
        rules: { k: rule() },
        counting: { expirationJitterMaxSeconds: 300 },
        random: () => random,
      });
      for (random of [0, 0.5, 0.9999]) answer(decider, request('k'));
      expect(store.asked.map(({ ops }) => ops[0]?.ttlSeconds)).toEqual([60, 210, 359]);
    });

    it('is not cut short by a jitter below 0', () => {
      const counting = { expirationJitterMaxSeconds: -5 };
      const decider = service({ rules: { k: rule() }, counting, random: () => 0.5 });
      answer(decider, request('k'));
      expect(store.asked[0]?.ops[0]?.ttlSeconds).toBe(60);
    });

    it('is of the window before, once the clock is set back to it', () => {
      const { plans, hits } = service({ rules: { k: rule() } }).parts;
      const [plan] = plans.plan(request('k'), start);
      const [limit] = plan?.kind === 'limited' ? plan.limits : [];
      const keys = [0, -30, -31, -91, 29, 30].map(
        (seconds) => hits.hit(limit!, 1, 'add', start + seconds * 1_000).key,
      );
      const minutes = [0, 0, -1, -2, 0, 1];
      expect(keys).toEqual(minutes.map((n) => `d_k_v_${minuteSuffix + n * 60}`));
    });

    it.each(['MINUTE', 'DAY', 'YEAR'] as const)(
      'ends with its %s where the store is asked for that',
      (unit) => {
        const decider = service({
          rules: { k: rule({ unit: Unit[unit] }) },
          counting: { countersEndWithWindow: true, expirationJitterMaxSeconds: 300 },
          random: () => 0.5,
        });
        const reset = answer(decider, request('k')).statuses[0]?.durationUntilResetSeconds;
        expect(store.asked[0]?.ops[0]?.ttlSeconds).toBe(reset);
      },
    );

    it('reports the end of a calendar month as the reset', () => {
      const decider = service({
        rules: { k: rule({ unit: Unit.MONTH }) },
        counting: { useCalendarMonthRateLimit: true },
      });
      expect(answer(decider, request('k')).statuses[0]?.durationUntilResetSeconds).toBe(30);
      expect(store.asked[0]?.ops[0]?.key).toBe(`d_k_v_${Date.UTC(2026, 2) / 1000}`);
    });
  });

  describe('errors', () => {
    it.each<[string, RateLimitRequest, boolean, string]>([
      ['an empty domain', { ...request(), domain: '' }, false, 'rate limit domain must not be empty'],
      ['no descriptors', request(), false, 'rate limit descriptor list must not be empty'],
      ['no rules yet', request('k'), false, 'no rate limit configuration loaded'],
      [
        'too many hits',
        request('k', descriptor('other', { hitsAddend: Number.POSITIVE_INFINITY })),
        true,
        'hits_addend of descriptor 1 must be at most 9223372036854775807',
      ],
      [
        'a limit without unit',
        request('k', descriptor('k', { limit: { requestsPerUnit: 1, unit: 0 } })),
        true,
        "the limit of a request's descriptor must have a unit from 1 (SECOND) to 7 (WEEK), not 0",
      ],
    ])('rejects %s and counts nothing', (_, asked, loaded, message) => {
      const decider = service(loaded ? { rules: { k: rule() } } : {});
      const transient = message === 'no rate limit configuration loaded';
      expect(outcome(decider, asked)).toEqual(new ServiceError(message, { transient }));
      expect(events).toEqual(['service error']);
      expect(stats.counted).toEqual({});
      expect(store.asked).toEqual([]);
    });

    it('fails a request whose counter failed, once, and no other', () => {
      const decider = service({ rules: { a: rule(), b: rule(), c: rule() } });
      for (const key of ['b', 'c']) {
        store.failing.set(
          `d_${key}_v_${minuteSuffix}`,
          new StoreError(`${key} is broken`, { transient: true }),
        );
      }
      expect(outcome(decider, request('a', 'b', 'c'))).toEqual(
        new StoreError('b is broken', { transient: true }),
      );
      expect(events).toEqual(['store error: b is broken']);
      expect(statuses(decider, request('a'))).toEqual(['OK 8']);
      expect(stats.counted).toEqual({
        'd.a.total_hits': 2,
        'd.a.within_limit': 1,
        'd.a.passed': 1,
        'd.b.total_hits': 1,
        'd.c.total_hits': 1,
      });
    });

    it('passes on unexpected errors', () => {
      const decider = service({ rules: { k: rule() } });
      store.failing.set(`d_k_v_${minuteSuffix}`, new TypeError('a fault'));
      expect(outcome(decider, request('k'))).toEqual(new TypeError('a fault'));
      expect(events).toEqual([]);
    });
  });

  describe('with an answer for counters that fail', () => {
    const rules = {
      a: rule(),
      b: rule(),
      shadow: rule({ shadowMode: true }),
      quota: rule({ quotaMode: true }),
    };

    const failing = (storeFailureMode: 'allow' | 'deny', keys: string[]) => {
      const error = new StoreError('broken', { transient: true });
      for (const key of keys) store.failing.set(`d_${key}_v_${minuteSuffix}`, error);
      const headers = { limit: 'Limit', remaining: 'Remaining', reset: 'Reset' };
      return service({
        rules,
        counting: { storeFailureMode },
        response: { responseHeaders: headers },
        localCache: true,
      });
    };

    it('allows without claiming a count', () => {
      const answer = outcome(failing('allow', ['a']), request('a')) as RateLimitResponse;
      expect(answer).toEqual({
        overallCode: Code.OK,
        statuses: [
          { code: Code.OK, currentLimit: undefined, limitRemaining: 0, durationUntilResetSeconds: undefined },
        ],
        responseHeadersToAdd: [],
        requestHeadersToAdd: [],
        dynamicMetadata: undefined,
      });
      expect(events).toEqual(['uncounted']);
      expect(stats.counted).toEqual({ 'd.a.total_hits': 1, 'd.a.passed': 1 });
    });

    it('denies without claiming a count, and remembers nothing', () => {
      const decider = failing('deny', ['a']);
      const answer = outcome(decider, request('a')) as RateLimitResponse;
      expect(answer.overallCode).toBe(Code.OVER_LIMIT);
      expect(answer.statuses).toEqual([
        {
          code: Code.OVER_LIMIT,
          currentLimit: matchedLimit(),
          limitRemaining: 0,
          durationUntilResetSeconds: 30,
        },
      ]);
      expect(answer.responseHeadersToAdd.map(({ value }) => value)).toEqual(['10', '0', '30']);
      expect(stats.counted).toEqual({ 'd.a.total_hits': 1, 'd.a.limited': 1 });
      store.failing.clear();
      expect(statuses(decider, request('a'))).toEqual(['OK 8']);
    });

    it('denies no rule in shadow mode and no hits taken back', () => {
      const decider = failing('deny', ['shadow', 'a']);
      const refund = request('shadow', descriptor('a', { isNegativeHits: true }));
      expect(statuses(decider, refund)).toEqual(['OK 0', 'OK 0']);
      expect(events).toEqual(['uncounted']);
    });

    it('denies a quota only together with all others', () => {
      const decider = failing('deny', ['quota']);
      expect(outcome(decider, request('quota'))).toMatchObject({ overallCode: Code.OVER_LIMIT });
      expect(outcome(decider, request('quota', 'b'))).toMatchObject({ overallCode: Code.OVER_LIMIT });
      rules.b = rule({ quotaMode: true });
      decider.useRules(matcher(rules));
      expect(outcome(decider, request('quota', 'b'))).toMatchObject({ overallCode: Code.OK });
    });

    it('decides by the counters that did not fail', () => {
      const decider = failing('allow', ['a']);
      expect(statuses(decider, request('a', descriptor('b', { hitsAddend: 11 })))).toEqual([
        'OK 0',
        'OVER 0',
      ]);
    });

    it('passes on unexpected errors', () => {
      const decider = failing('allow', ['a']);
      store.failing.set(`d_b_v_${minuteSuffix}`, new TypeError('a fault'));
      expect(outcome(decider, request('a', 'b'))).toEqual(new TypeError('a fault'));
      expect(events).toEqual([]);
    });
  });

  it('allows exactly the limit, whatever the hits', () => {
    const step = fc.record({ hits: fc.nat(4), negative: fc.boolean() });
    fc.assert(
      fc.property(fc.nat(12), fc.array(step, { maxLength: 30 }), fc.boolean(), (limit, steps, localCache) => {
        store = new WatchedStore(openMemoryStore({ clock }));
        cache.clear();
        const decider = service({ rules: { k: rule({ requestsPerUnit: limit }) }, localCache });
        let total = 0;
        let over = false;
        for (const { hits, negative } of steps) {
          const [status] = statuses(
            decider,
            request(descriptor('k', { hitsAddend: hits, isNegativeHits: negative })),
          );
          if (negative) over = false;
          if (!(over && localCache)) total = negative ? Math.max(0, total - hits) : total + hits;
          if (!negative) over = total > limit;
          const code = !negative && over ? 'OVER' : 'OK';
          expect(status).toBe(`${code} ${Math.max(0, limit - total)}`);
        }
      }),
    );
  });

  describe('a sliding window', () => {
    const sliding = (fields = {}) =>
      rule({ algorithm: Algorithm.SLIDING_WINDOW, requestsPerUnit: 10, ...fields });

    it('counts the former window by the share of it that is left, and no hits over limit', () => {
      const decider = service({ rules: { k: sliding() } });
      expect(times(11, () => statuses(decider, request('k'))[0]).slice(-2)).toEqual(['OK 0', 'OVER 0']);
      clock.ms += 30_000 + 15_000;
      // 7.5 of the former.
      expect(times(3, () => statuses(decider, request('k'))[0])).toEqual(['OK 1', 'OK 0', 'OVER 0']);
      expect(store.asked.at(-1)?.ops[0]?.key).toBe('1{d;k=v}60:sliding');
    });

    it('says how long until a hit passes, else until all is free again, in whole seconds', () => {
      const decider = service({ rules: { k: sliding() } });
      const reset = (asked: RateLimitRequest) =>
        answer(decider, asked).statuses[0]?.durationUntilResetSeconds;
      expect(reset(request(descriptor('k', { hitsAddend: 9 })))).toBe(30 + 60);
      // In the next window 10 x rest has to be 9: what takes the last one says so, too.
      expect(reset(request('k'))).toBe(30 + 6);
      expect(reset(request('k'))).toBe(30 + 6);
      clock.ms += 30_000 + 5_999;
      expect(reset(request('k'))).toBe(1);
      clock.ms += 1;
      expect(statuses(decider, request('k'))).toEqual(['OK 0']);
    });

    it('says what is left when more hits than that are over limit', () => {
      const decider = service({ rules: { k: sliding() }, localCache: true });
      expect(statuses(decider, request(descriptor('k', { hitsAddend: 7 })))).toEqual(['OK 3']);
      expect(statuses(decider, request(descriptor('k', { hitsAddend: 4 })))).toEqual(['OVER 3']);
      expect(statuses(decider, request(descriptor('k', { hitsAddend: 3 })))).toEqual(['OK 0']);
      expect(stats.counted).toEqual({
        'd.k.total_hits': 14,
        'd.k.within_limit': 10,
        'd.k.near_limit': 2,
        'd.k.over_limit': 4,
        'd.k.passed': 10,
        'd.k.limited': 4,
      });
    });

    it('is remembered by the local cache until the moment when a hit passes', () => {
      const decider = service({ rules: { k: sliding() }, localCache: true });
      answer(decider, request(descriptor('k', { hitsAddend: 10 })));
      times(2, () => answer(decider, request('k')));
      expect(store.asked).toHaveLength(2);
      expect(stats.counted['d.k.over_limit_with_local_cache']).toBe(1);
      clock.ms += 36_000 - 1;
      expect(answer(decider, request('k')).statuses[0]).toMatchObject({
        code: Code.OVER_LIMIT,
        durationUntilResetSeconds: 1,
      });
      expect(store.asked).toHaveLength(2);
      clock.ms += 1;
      expect(statuses(decider, request('k'))).toEqual(['OK 0']);
    });

    it('lets a request of 0 hits look though the local cache knows the counter to be full', () => {
      const decider = service({ rules: { k: sliding() }, localCache: true });
      for (const hits of [10, 1]) answer(decider, request(descriptor('k', { hitsAddend: hits })));
      expect(statuses(decider, request(descriptor('k', { hitsAddend: 0 })))).toEqual(['OK 0']);
      expect(statuses(decider, request('k'))).toEqual(['OVER 0']);
    });

    it('is remembered for as long as it takes, whatever becomes of the date', () => {
      const decider = service({ rules: { k: sliding() }, localCache: true });
      for (const hits of [10, 1]) answer(decider, request(descriptor('k', { hitsAddend: hits })));
      clock.dateMs -= 3_600_000;
      expect(answer(decider, request('k')).statuses[0]?.durationUntilResetSeconds).toBe(36);
    });

    it('takes hits back, and lets a shadow rule pass without counting', () => {
      const decider = service({ rules: { k: sliding({ shadowMode: true }) } });
      const back = request(descriptor('k', { hitsAddend: 4, isNegativeHits: true }));
      expect(statuses(decider, request(descriptor('k', { hitsAddend: 8 })))).toEqual(['OK 2']);
      expect(statuses(decider, request(descriptor('k', { hitsAddend: 8 })))).toEqual(['OK 2']);
      expect(stats.counted['d.k.shadow_mode']).toBe(8);
      expect(statuses(decider, back)).toEqual(['OK 6']);
    });
  });

  describe('a token bucket', () => {
    const bucket = (fields = {}) =>
      rule({ algorithm: Algorithm.TOKEN_BUCKET, requestsPerUnit: 60, burst: 5, ...fields });

    it('lets its burst pass at once, then as many as the rate gives', () => {
      const decider = service({ rules: { k: bucket() } });
      expect(times(6, () => statuses(decider, request('k'))[0])).toEqual([
        'OK 4',
        'OK 3',
        'OK 2',
        'OK 1',
        'OK 0',
        'OVER 0',
      ]);
      clock.ms += 999;
      expect(statuses(decider, request('k'))).toEqual(['OVER 0']);
      clock.ms += 1;
      expect(statuses(decider, request('k'))).toEqual(['OK 0']);
      expect(store.asked.at(-1)?.ops[0]?.key).toBe('1{d;k=v}60:bucket');
    });

    it('never lets more than the burst pass, and is near by what is used of it', () => {
      const decider = service({ rules: { k: bucket() } });
      expect(statuses(decider, request(descriptor('k', { hitsAddend: 6 })))).toEqual(['OVER 5']);
      expect(answer(decider, request(descriptor('k', { hitsAddend: 5 }))).statuses[0]).toMatchObject({
        code: Code.OK,
        limitRemaining: 0,
        // Of the next hit; until all five are there again it is 5.
        durationUntilResetSeconds: 1,
      });
      expect(stats.counted['d.k.near_limit']).toBe(1);
      clock.ms += 3600_000;
      expect(statuses(decider, request('k'))).toEqual(['OK 4']);
    });
  });

  describe('several limits of a rule', () => {
    const three = (fields = {}) =>
      rule({
        limits: [
          matchedLimit({
            requestsPerUnit: 1,
            unit: Unit.SECOND,
            algorithm: Algorithm.TOKEN_BUCKET,
            burst: 3,
          }),
          matchedLimit({ requestsPerUnit: 5, unit: Unit.MINUTE }),
          matchedLimit({ requestsPerUnit: 100, unit: Unit.DAY, name: 'daily' }),
        ],
        ...fields,
      });
    const status = (decider: RateLimitService, hits = 1) =>
      answer(decider, request(descriptor('k', { hitsAddend: hits }))).statuses[0]!;

    it.each([false, true])(
      'count a request in no limit if it exceeds one of them, stop when over %s',
      (stop) => {
        const decider = service({
          rules: { k: three() },
          counting: { stopCacheKeyIncrementWhenOverLimit: stop },
        });
        expect(status(decider, 3)).toMatchObject({ limitRemaining: 0, currentLimit: { requestsPerUnit: 1 } });
        times(9, () => status(decider));
        expect(status(decider)).toMatchObject({ code: Code.OVER_LIMIT, durationUntilResetSeconds: 1 });
        clock.ms += 3000;
        // The minute has 2 left, though 13 were asked for.
        expect(status(decider, 2)).toMatchObject({ code: Code.OK, limitRemaining: 0 });
        clock.ms += 3000;
        expect(status(decider)).toMatchObject({
          code: Code.OVER_LIMIT,
          currentLimit: { requestsPerUnit: 5 },
          durationUntilResetSeconds: 24,
        });
        expect(stats.counted).toMatchObject({
          'd.k.1s.over_limit': 10,
          'd.k.1m.over_limit': 1,
          'd.k.daily.total_hits': 16,
        });
        expect(stats.counted['d.k.daily.over_limit']).toBeUndefined();
        // 3 and 2 passed.
        expect(stats.counted['d.k.daily.within_limit']).toBe(5);
      },
    );

    it('answer by the exceeded limit with the longest wait, else by the limit with the least left', () => {
      clock.ms -= 3600_000;
      const decider = service({ rules: { k: three() } });
      expect(status(decider, 0)).toMatchObject({ limitRemaining: 3, currentLimit: { requestsPerUnit: 1 } });
      expect(status(decider, 6)).toMatchObject({ limitRemaining: 5, currentLimit: { requestsPerUnit: 5 } });
      expect(status(decider, 101)).toMatchObject({ limitRemaining: 100, currentLimit: { name: 'daily' } });
    });

    it('are over limit by the local cache as soon as it knows that one of them is full', () => {
      const decider = service({ rules: { k: three() }, localCache: true });
      times(2, () => status(decider, 3));
      expect(store.asked).toHaveLength(2);
      expect(status(decider)).toMatchObject({ code: Code.OVER_LIMIT, currentLimit: { requestsPerUnit: 1 } });
      expect(store.asked).toHaveLength(2);
      clock.ms += 1000;
      expect(status(decider)).toMatchObject({ code: Code.OK });
    });

    it('go to the store of limits per second only when all of them are shorter than a minute', () => {
      const perSecond: boolean[] = [];
      for (const unitMultiplier of [30, 60]) {
        const limits = [
          matchedLimit({ unit: Unit.SECOND }),
          matchedLimit({ unit: Unit.SECOND, unitMultiplier }),
        ];
        const decider = service({ rules: { k: rule({ limits }) } });
        store.onSubmit = (ops) => perSecond.push(...ops.map((op) => op.counter.perSecond));
        answer(decider, request('k'));
      }
      expect(perSecond).toEqual([true, true, false, false]);
    });

    it('name none in headers that another rule replaces', () => {
      const limits = [matchedLimit({ name: 'a' }), matchedLimit({ name: 'b', unit: Unit.DAY })];
      const names = { limit: 'L', remaining: 'R', reset: 'T' };
      const decider = service({
        rules: { k: rule({ limits }), other: rule({ replaces: ['a'], requestsPerUnit: 99 }) },
        response: { responseHeaders: names },
      });
      const { responseHeadersToAdd: headers } = answer(decider, request('k', 'other'));
      expect(headers[0]).toEqual({ key: 'L', value: '10, 10;w=86400;name="b"' });
    });

    it('hold other descriptors back as one', () => {
      const decider = service({
        rules: { k: three(), other: rule() },
        counting: { stopCacheKeyIncrementWhenOverLimit: true },
      });
      const both = () => statuses(decider, request(descriptor('k', { hitsAddend: 3 }), 'other'));
      expect([both(), both(), both()]).toEqual([
        ['OK 0', 'OK 9'],
        ['OVER 2', 'OK 9'],
        ['OVER 2', 'OK 9'],
      ]);
    });

    it('get one answer if the store fails', () => {
      const decider = service({ rules: { k: three() }, counting: { storeFailureMode: 'deny' } });
      const error = new StoreError('gone', { transient: true });
      for (const suffix of ['1:bucket', `60:${minuteSuffix}`, `86400:${Date.UTC(2026, 2, 31) / 1000}`])
        store.failing.set(`1{d;k=v}${suffix}`, error);
      expect(status(decider)).toMatchObject({
        code: Code.OVER_LIMIT,
        limitRemaining: 0,
        durationUntilResetSeconds: 30,
      });
    });
  });

  it('reports the true window in our own headers, and UNKNOWN if it is no unit', () => {
    const names = { limit: 'L', remaining: 'R', reset: 'T' };
    const decider = service({
      rules: { k: rule({ unitMultiplier: 5, requestsPerUnit: 100 }), hour: rule({ unitMultiplier: 60 }) },
      response: { responseHeaders: names, perUnitHeaders: true },
    });
    const { statuses: reported, responseHeadersToAdd: headers } = answer(decider, request('k'));
    expect(reported[0]?.currentLimit?.unit).toBe(Unit.UNKNOWN);
    expect(headers).toEqual([
      { key: 'RateLimit-Limit-5m', value: '100' },
      { key: 'RateLimit-Remaining-5m', value: '99' },
      { key: 'L', value: '100, 100;w=300' },
      { key: 'R', value: '99' },
      { key: 'T', value: '30' },
    ]);
    expect(answer(decider, request('hour')).statuses[0]?.currentLimit?.unit).toBe(Unit.HOUR);
  });

  describe('a caller that gives up', () => {
    function decided(decider: RateLimitService, caller: { abandoned: boolean }): unknown[] {
      const outcomes: unknown[] = [];
      decider.decide(request('k', 'l'), caller, {
        answer: ({ overallCode }) => outcomes.push(overallCode),
        reject: (error) => outcomes.push(error),
      });
      return outcomes;
    }

    it('is known to every op that goes to the store', () => {
      const caller = { abandoned: false };
      const seen: unknown[] = [];
      store.submit = (ops) => {
        caller.abandoned = true;
        seen.push(ops.map((op) => op.caller?.abandoned));
      };
      decided(service({ rules: { k: rule(), l: rule() } }), caller);
      expect(seen).toEqual([[true, true]]);
    });

    it('is over limit when an op was left out: counted as requested, and as nothing else', () => {
      const decider = service({ rules: { k: rule(), l: rule() }, counting: { storeFailureMode: 'allow' } });
      store.failing.set(`d_l_v_${minuteSuffix}`, callAbandoned);
      expect(decided(decider, { abandoned: true })).toEqual([callAbandoned]);
      expect(events).toEqual(['abandoned']);
      expect(stats.counted).toEqual({ 'd.k.total_hits': 1, 'd.l.total_hits': 1 });
    });

    it('is decided for as any other once its hits were counted', () => {
      const decider = service({ rules: { k: rule({ requestsPerUnit: 0 }), l: rule() } });
      expect(decided(decider, { abandoned: true })).toEqual([Code.OVER_LIMIT]);
      expect(events).toEqual([]);
    });
  });
});
