/** Stop-when-over in pairs of modes, on every store, against a decision that is written without regard to cost. */
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Code, type Descriptor } from '../../limiter/decide/messages.ts';
import type { RateLimitResponse } from '../../limiter/decide/response-message.ts';
import { RateLimitService } from '../../limiter/service/rate-limit-service.ts';
import { LocalFallbackStore } from '../../limiter/stores/failure/local-fallback-store.ts';
import { BoundedLocalCache } from '../../limiter/stores/local-cache.ts';
import { failOp, type Operation } from '../../limiter/stores/operation.ts';
import { PerSecondStore } from '../../limiter/stores/per-second-store.ts';
import type { Store, SubmitOptions } from '../../limiter/stores/store.ts';
import { StoreError } from '../../limiter/stores/store-error.ts';
import type { MatchedRule } from '../../rules/match-result.ts';
import { Unit } from '../../rules/model.ts';
import { openClusterStore } from '../support/cluster-stores.ts';
import { counterOp } from '../support/counter-ops.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { memcachedProgram, redisProgram } from '../support/find-server.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { ManualTimers } from '../support/manual-timers.ts';
import { matchedRule } from '../support/matched-rule.ts';
import { openMemcacheStore } from '../support/memcache-stores.ts';
import { type MemcachedServer, startMemcached } from '../support/memcached-server.ts';
import { openMemoryStore } from '../support/open-memory-store.ts';
import { caseCount } from '../support/property-cases.ts';
import { type RedisCluster, startRedisCluster } from '../support/redis-cluster.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';

const failureModes = ['error', 'allow', 'deny', 'local'] as const;
const ruleNames = ['a', 'b', 'c'] as const;

const modes = fc.record({
  /** STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT. */
  stop: fc.constantFrom(true, true, true, false),
  shadowMode: fc.boolean(),
  quotaMode: fc.constantFrom(false, false, true),
  localCache: fc.boolean(),
  failure: fc.constantFrom(...failureModes),
});
const anyRule = fc.record({
  requestsPerUnit: fc.nat(3),
  shadowMode: fc.boolean(),
  quotaMode: fc.boolean(),
  unlimited: fc.constantFrom(false, false, false, false, true),
  unit: fc.constantFrom(Unit.SECOND, Unit.HOUR),
});
const rules = fc.record({ a: anyRule, b: anyRule, c: anyRule });
const anyDescriptor = fc.record({
  /** `none`: no rule matches. */
  rule: fc.constantFrom(...ruleNames, ...ruleNames, 'none' as const),
  hits: fc.constantFrom(1, 1, 1, 0, 2),
  negative: fc.constantFrom(false, false, false, false, true),
});
const anyRequest = fc.record({
  descriptors: fc.array(anyDescriptor, { minLength: 1, maxLength: 4 }),
  down: fc.constantFrom(false, false, false, false, true),
});

type Modes = typeof modes extends fc.Arbitrary<infer T> ? T : never;
type Rules = typeof rules extends fc.Arbitrary<infer T> ? T : never;
type Request = typeof anyRequest extends fc.Arbitrary<infer T> ? T : never;
type Outcome = { over: boolean; statuses: boolean[]; totals: Record<string, number> } | 'failed';

/** What of one descriptor decides. */
interface Part {
  key: string;
  hits: number;
  negative: boolean;
  /** Undefined: nothing limits it. */
  limit: number | undefined;
  shadow: boolean;
  quota: boolean;
  remembered: boolean;
}

class NaiveLimiter {
  readonly #modes: Modes;
  readonly #rules: Rules;
  readonly #totals: Record<string, number> = { a: 0, b: 0, c: 0 };
  readonly #cache = new Set<string>();

  constructor(given: { modes: Modes; rules: Rules }) {
    this.#modes = given.modes;
    this.#rules = given.rules;
  }

  decide({ descriptors, down }: Request): Outcome {
    const { stop, shadowMode, localCache, failure } = this.#modes;
    const parts = descriptors.map((descriptor) => this.#partOf(descriptor));
    const asked = parts.filter(({ limit, remembered }) => limit !== undefined && !remembered);
    if (asked.length === 0 || !down || failure === 'local') {
      const counted = stop ? this.#notHeldBack(parts) : asked;
      const after = new Map<Part, number>();
      for (const part of asked)
        after.set(part, counted.includes(part) ? this.#count(part) : this.#total(part));
      for (const { key, negative } of asked) if (negative) this.#cache.delete(key);
      const isOver = (part: Part) => part.remembered || (!part.negative && after.get(part)! > part.limit!);
      for (const part of asked) if (localCache && isOver(part)) this.#cache.add(part.key);
      return this.#outcome(parts, shadowMode, (part) => isOver(part));
    }
    for (const { key, negative } of asked) if (negative) this.#cache.delete(key);
    if (failure === 'error') return 'failed';
    return this.#outcome(
      parts,
      shadowMode,
      (part) => part.remembered || (failure === 'deny' && !part.negative),
    );
  }

  #partOf({ rule, hits, negative }: Request['descriptors'][number]): Part {
    const found = rule === 'none' ? undefined : this.#rules[rule];
    return {
      key: rule,
      hits,
      negative,
      limit: found === undefined || found.unlimited ? undefined : found.requestsPerUnit,
      shadow: found?.shadowMode === true,
      quota: found?.unlimited !== true && (this.#modes.quotaMode || found?.quotaMode === true),
      remembered: !negative && found?.unlimited === false && this.#cache.has(rule),
    };
  }

  #notHeldBack(parts: readonly Part[]): Part[] {
    const asked = parts.filter(({ limit, remembered }) => limit !== undefined && !remembered);
    const byTotals = (part: Part) => !part.negative && this.#total(part) + part.hits > part.limit!;
    if (isRefused(parts, (part) => part.remembered)) return asked.filter(({ negative }) => negative);
    const overNow = (part: Part) => part.remembered || byTotals(part);
    if (!isRefused(parts, overNow)) return asked;
    return asked.filter((part) => part.negative || byTotals(part));
  }

  #count({ key, hits, negative }: Part): number {
    const before = this.#totals[key] as number;
    this.#totals[key] = negative ? Math.max(0, before - hits) : before + hits;
    return this.#totals[key] as number;
  }

  #total({ key }: Part): number {
    return this.#totals[key] as number;
  }

  #outcome(parts: readonly Part[], shadowMode: boolean, isOver: (part: Part) => boolean): Outcome {
    return {
      over: isRefused(parts, isOver) && !shadowMode,
      statuses: parts.map((part) => part.limit !== undefined && !part.shadow && isOver(part)),
      totals: { ...this.#totals },
    };
  }
}

/** The request as a whole, SHADOW_MODE left aside. */
function isRefused(parts: readonly Part[], isOver: (part: Part) => boolean): boolean {
  const refused = (part: Part) => part.limit !== undefined && !part.shadow && isOver(part);
  const quotas = parts.filter(({ quota }) => quota);
  return parts.some((part) => !part.quota && refused(part)) || (quotas.length > 0 && quotas.every(refused));
}

/** Fails everything while it is down, and has counted nothing then. */
class SwitchedStore implements Store {
  down = false;
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  submit(ops: Operation[], options: SubmitOptions, done: () => void): void {
    if (!this.down) {
      this.#store.submit(ops, options, done);
      return;
    }
    for (const op of ops) failOp(op, new StoreError('down', { transient: true, notCounted: true }));
    done();
  }

  ping = (): Promise<void> => this.#store.ping();
  close = (): Promise<void> => Promise.resolve();
}

/** The limiter's own decisions, with counters that nobody else has. */
class RealLimiter {
  readonly #switched: SwitchedStore;
  readonly #store: Store;
  readonly #service: RateLimitService;
  readonly #prefix = `${randomUUID()}:`;
  readonly #rules: Rules;
  readonly #staysDown: boolean;

  constructor(given: { modes: Modes; rules: Rules; store: Store }) {
    const { stop, shadowMode, quotaMode, localCache, failure } = given.modes;
    const clock = new ManualClock();
    this.#rules = given.rules;
    this.#switched = new SwitchedStore(given.store);
    // What is owed is never delivered here, so the store may not come back.
    this.#staysDown = failure === 'local';
    const fallback = {
      local: openMemoryStore({ clock }),
      clock,
      timers: new ManualTimers(),
      maxOwedKeys: 100,
      maxOwedBytes: 100_000,
    };
    this.#store =
      failure === 'local' ? new LocalFallbackStore({ store: this.#switched, ...fallback }) : this.#switched;
    const nothing = () => {};
    this.#service = new RateLimitService({
      store: this.#store,
      localCache: localCache ? new BoundedLocalCache({ maxBytes: 100_000 }) : undefined,
      stats: {
        ruleMetric: (key) => ({ key, slot: 0, lastUse: 0 }),
        slotOf: () => 0,
        add: nothing,
        domainNotFound: nothing,
      },
      clock,
      random: () => 0.9,
      counting: {
        counterKeys: 'compatible',
        maxTextBytes: 16_384,
        cacheKeyPrefix: this.#prefix,
        nearLimitRatio: 0.8,
        defaultLease: undefined,
        sanitizeDescriptorMetricDots: false,
        useCalendarMonthRateLimit: false,
        // Longer than the test, for counters of a second, too.
        expirationJitterMaxSeconds: 1000,
        countersEndWithWindow: false,
        stopCacheKeyIncrementWhenOverLimit: stop,
        storeFailureMode: failure === 'local' ? 'error' : failure,
      },
      response: {
        shadowMode,
        quotaMode,
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
      },
      events: {
        onServiceError: nothing,
        onStoreError: nothing,
        onUncounted: nothing,
        onAbandoned: nothing,
        onGlobalShadow: nothing,
      },
    });
    const matched = new Map<string, MatchedRule>(
      Object.entries(given.rules).map(([name, rule]) => [name, matchedRule(rule)]),
    );
    this.#service.useRules({
      hasDomain: () => true,
      hasLevel: () => true,
      match: (_, [entry]) => {
        const rule = matched.get(entry?.key ?? '');
        if (rule === undefined) return undefined;
        return { rule, metricKey: 'k', metricPerValue: false, counterStem: `${entry?.key}_` };
      },
    });
  }

  async decide({ descriptors, down }: Request): Promise<Outcome> {
    this.#switched.down = down || (this.#staysDown && this.#switched.down);
    const response = await this.#ask(
      descriptors.map(({ rule, hits, negative }) => ({
        entries: [{ key: rule, value: 'v' }],
        limit: undefined,
        hitsAddend: hits,
        isNegativeHits: negative,
      })),
    );
    if (response === undefined) return 'failed';
    return {
      over: response.overallCode === Code.OVER_LIMIT,
      statuses: response.statuses.map(({ code }) => code === Code.OVER_LIMIT),
      totals: await this.#totals(),
    };
  }

  #ask(descriptors: Descriptor[]): Promise<RateLimitResponse | undefined> {
    return new Promise((resolve, reject) => {
      this.#service.decide(
        { domain: 'd', descriptors, hitsAddend: 0 },
        { abandoned: false },
        {
          answer: resolve,
          reject: (error) => (error instanceof StoreError ? resolve(undefined) : reject(error)),
        },
      );
    });
  }

  /** Read past the service, which would count. */
  async #totals(): Promise<Record<string, number>> {
    const isDown = this.#switched.down;
    if (!this.#staysDown) this.#switched.down = false;
    const totals = await Promise.all(
      ruleNames.map((name) => this.#totalOf(name, this.#rules[name].unit === Unit.SECOND)),
    );
    this.#switched.down = isDown;
    return Object.fromEntries(totals);
  }

  #totalOf(name: string, perSecond: boolean): Promise<[string, number]> {
    const key = `${this.#prefix}${name}_${this.#windowStart(perSecond)}`;
    const op = counterOp({ key, hits: 0, perSecond });
    return new Promise((resolve) =>
      this.#store.submit([op], { stopWhenOver: false }, () => resolve([name, op.after])),
    );
  }

  #windowStart(perSecond: boolean): number {
    const seconds = Math.floor(new ManualClock().nowMs() / 1000);
    return perSecond ? seconds : seconds - (seconds % 3600);
  }
}

function decidesAsTheModel(open: () => Store, defaultRuns: number): void {
  it('decides and counts as a naive limiter, in all modes together', async () => {
    await fc.assert(
      fc.asyncProperty(
        modes,
        rules,
        fc.array(anyRequest, { minLength: 1, maxLength: 8 }),
        async (givenModes, givenRules, requests) => {
          const given = { modes: givenModes, rules: givenRules };
          const model = new NaiveLimiter(given);
          const limiter = new RealLimiter({ ...given, store: open() });
          for (const request of requests) {
            expect(await limiter.decide(request)).toEqual(model.decide(request));
          }
        },
      ),
      { numRuns: caseCount(defaultRuns) },
    );
  });
}

describe('memory', () => {
  decidesAsTheModel(() => openMemoryStore(), 1_000);
});

describeWithServer('redis', redisProgram, (path) => {
  let servers: [RedisServer, RedisServer];
  let cluster: RedisCluster;
  let scripted: Store;
  let plain: Store;
  let second: Store;
  let clustered: Store;
  beforeAll(async () => {
    servers = [await startRedis({ path }), await startRedis({ path })];
    const url = `127.0.0.1:${servers[0].port}`;
    scripted = await openRedisStore({ url });
    plain = await openRedisStore({ url }, { scripts: 'never' });
    second = await openRedisStore({ url: `127.0.0.1:${servers[1].port}` });
    cluster = await startRedisCluster({ path });
    clustered = await openClusterStore({ url: cluster.url });
  });
  afterAll(async () => {
    await Promise.all([scripted, plain, second, clustered].map((store) => store?.close()));
    await Promise.all(servers.map((server) => server.stop()));
    await cluster?.stop();
  });

  describe('with scripts', () => decidesAsTheModel(() => scripted, 200));
  describe('without scripts', () => decidesAsTheModel(() => plain, 150));
  describe('and a second one for limits per second', () =>
    decidesAsTheModel(() => new PerSecondStore({ main: scripted, perSecond: second }), 150));
  describe('as a cluster', () => decidesAsTheModel(() => withoutReservations(clustered), 100));
});

/** Nothing is reserved here, which a cluster's store asks once a second, and does not know in between. */
function withoutReservations(store: Store): Store {
  return {
    get connected() {
      return store.connected ?? true;
    },
    submit: (ops, options, done) =>
      store.submit(ops, options, () => {
        for (const op of ops) op.mayReturn = false;
        done();
      }),
    ping: () => store.ping(),
    close: () => store.close(),
  };
}

describeWithServer('memcache', memcachedProgram, (path) => {
  let server: MemcachedServer;
  let store: Store;
  beforeAll(async () => {
    server = await startMemcached({ path });
    store = openMemcacheStore(server.address);
  });
  afterAll(async () => {
    await store?.close();
    await server?.stop();
  });
  decidesAsTheModel(() => store, 150);
});
