/**
 * Every kind of operation on the same few counters, in random turns of two limiters: hits, refunds, looks, groups, stop-when-over,
 * leases, reservations and resets. Whatever their order, each counter holds the sum of what the answers say, and every key ends.
 */
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { AlgorithmBound } from '../../limiter/algorithms/algorithm-bound.ts';
import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import { SlidingWindow } from '../../limiter/algorithms/sliding-window.ts';
import { TokenBucket } from '../../limiter/algorithms/token-bucket.ts';
import type { RedisStoreAdmin } from '../../limiter/operate/store-admin/redis-store-admin.ts';
import { type LeaseTerms, newLeaseTerms, type Operation } from '../../limiter/stores/operation.ts';
import { parseClusterAddress } from '../../limiter/stores/redis/wire/redis-address.ts';
import { ledgerKeyOf, type Store } from '../../limiter/stores/store.ts';
import { openClusterStore } from '../support/cluster-stores.ts';
import { counterOp, type GivenTerms, submit } from '../support/counter-ops.ts';
import { describeWithBothRedis, describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { openRedisStoreAdmin } from '../support/open-store-admin.ts';
import { caseCount } from '../support/property-cases.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import { startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import { bookProblems } from '../support/reservation-books.ts';
import {
  lookCall,
  reserveCall,
  reservedCounter,
  settleCall,
  submitCall,
  type TestCall,
} from '../support/reservation-calls.ts';

const limit = 30;
const year = 31_536_000_000_000;
/** Three fixed windows, whose keys hold sums, and a counter of each other algorithm. */
const counters: readonly { name: string; bound: AlgorithmBound }[] = [
  { name: 'a3600:0', bound: new FixedWindow(limit) },
  { name: 'b3600:0', bound: new FixedWindow(limit) },
  { name: 'c3600:0', bound: new FixedWindow(limit) },
  { name: '31536000:sliding', bound: new SlidingWindow({ requests: limit, windowMicros: year }) },
  { name: '31536000:bucket', bound: new TokenBucket({ requests: limit, burst: limit, windowMicros: year }) },
];
const fixed = 3;

const anyStep = fc.record({
  kind: fc.constantFrom(
    ...([
      'hit',
      'refund',
      'look',
      'bounded',
      'group',
      'stop',
      'lease',
      'reserve',
      'commit',
      'budget',
    ] as const),
  ),
  limiter: fc.nat(1),
  at: fc.nat(counters.length - 1),
  others: fc.subarray([0, 1, 2, 3, 4], { minLength: 1 }),
  hits: fc.nat(8),
  id: fc.nat(4),
  ttlMs: fc.constantFrom<number>(1, 3_600_000, 3_600_000),
  onExpiry: fc.constantFrom('release' as const, 'charge' as const),
  isShadow: fc.boolean(),
});
type Step = typeof anyStep extends fc.Arbitrary<infer T> ? T : never;
/** Gives back what has expired. */
const lookAtBudget: Step = {
  ...{ kind: 'budget', limiter: 0, at: 0, others: [], hits: 0, id: 0, ttlMs: 0 },
  ...{ onExpiry: 'release', isShadow: false },
};
const anyTurn = fc.record({
  steps: fc.array(anyStep, { minLength: 1, maxLength: 8 }),
  /** Of a counter, before the turn. */
  reset: fc.option(fc.nat(fixed - 1), { freq: 8, nil: undefined }),
});

interface Servers {
  readonly clients: readonly Redis[];
  readonly isCluster: boolean;
  readonly admin: RedisStoreAdmin;
  open(): Promise<Store>;
  stop(): Promise<void>;
}

/** What the answers say of one counter with a fixed window. */
class Sum {
  total = 0;
  /** Hits that may be refunded, so that no refund is cut off at 0. */
  refundable = 0;
  /** By limiter: the number of its last message, what is granted to it, and all that it ever spent. */
  leases = [0, 1].map(() => ({ sequence: 0, granted: 0, spent: 0, isAsking: false }));

  reset(): void {
    this.total = 0;
    this.refundable = 0;
    for (const lease of this.leases) lease.granted = 0;
  }
}

class Mix {
  readonly sums = counters.map(() => new Sum());
  readonly #limiters: readonly Store[];
  readonly #stem: string;

  constructor(limiters: readonly Store[], stem: string) {
    this.#limiters = limiters;
    this.#stem = stem;
  }

  key(at: number): string {
    return `${this.#stem}${counters[at]!.name}`;
  }

  async step(step: Step): Promise<void> {
    const { kind, others, hits, limiter, at } = step;
    const store = this.#limiters[limiter]!;
    if (kind === 'group') {
      const groupSize = others.length;
      await this.#count(
        store,
        others,
        others.map((one) => this.#op(one, { hits, groupSize, isBounded: true })),
      );
    } else if (kind === 'stop') {
      await this.#count(
        store,
        others,
        others.map((one) => this.#op(one, { hits })),
        true,
      );
    } else if (kind === 'reserve' || kind === 'commit' || kind === 'budget') {
      await this.#reserved(store, step, kind);
    } else if (kind === 'lease' && at < fixed) {
      await this.#lease(store, at, limiter, hits);
    } else if (kind === 'refund') {
      const sum = this.sums[at]!;
      const some = Math.min(hits, sum.refundable);
      sum.refundable -= some;
      await this.#count(store, [at], [this.#op(at, { hits: some, negative: true })]);
    } else {
      await this.#count(
        store,
        [at],
        [this.#op(at, { hits, lookOnly: kind === 'look', isBounded: kind === 'bounded' })],
      );
    }
  }

  #op(at: number, { isBounded = false, ...terms }: GivenTerms & { isBounded?: boolean }): Operation {
    const { bound } = counters[at]!;
    return counterOp({ key: this.key(at), limit, ...terms, ...((isBounded || at >= fixed) && { bound }) });
  }

  async #count(store: Store, at: readonly number[], ops: Operation[], stopWhenOver = false): Promise<void> {
    await submit(store, ops, { stopWhenOver });
    for (const [i, { error, verb, hits, applied }] of ops.entries()) {
      expect(error).toBeUndefined();
      const sum = this.sums[at[i]!]!;
      if (verb === 'refund') sum.total -= hits;
      if (verb !== 'add') continue;
      sum.total += applied;
      sum.refundable += applied;
    }
  }

  /** A message to the ledger, which says that a part of the last lease is spent. The rest goes back. */
  async #lease(store: Store, at: number, limiter: number, want: number): Promise<void> {
    const sum = this.sums[at]!;
    const own = sum.leases[limiter]!;
    if (own.isAsking) return;
    own.isAsking = true;
    own.sequence += 1;
    const former = own.granted;
    const spent = Math.ceil(former / 2);
    own.spent += spent;
    const terms = {
      limiter: `limiter-${limiter}`,
      sequence: own.sequence,
      spent: own.spent,
      forgets: want === 0,
    };
    const lease: LeaseTerms = newLeaseTerms({
      ledgerKey: ledgerKeyOf(this.key(at))!,
      want,
      max: 5,
      limit,
      ...terms,
    });
    await this.#count(store, [at], [this.#op(at, { hits: 1, lease })]);
    own.granted = lease.granted;
    own.isAsking = false;
    sum.total += spent - former + lease.granted;
  }

  async #reserved(store: Store, step: Step, kind: 'reserve' | 'commit' | 'budget'): Promise<void> {
    const { others, hits, id, ttlMs, onExpiry, isShadow } = step;
    const isMarker = id === 4;
    const all = others.map((at, group) =>
      reservedCounter({
        ...{ stem: this.#stem, key: this.key(at), bound: counters[at]!.bound, group },
        ...{ amount: kind === 'budget' ? undefined : hits, ttlMs, onExpiry, isShadow },
      }),
    );
    const terms = { id: `${this.#stem}${id}`, isMarker, counters: all };
    const call: TestCall =
      kind === 'reserve'
        ? reserveCall({ ...terms, note: isMarker ? undefined : `${others}` })
        : kind === 'commit'
          ? settleCall({ ...terms, unknown: 'charge' })
          : lookCall(all);
    await submitCall(store, call);
    for (const [i, { changed, givenBack }] of call.counters.entries()) {
      this.sums[others[i]!]!.total += (kind === 'budget' ? 0 : changed) - givenBack;
    }
  }
}

function mixSuite(start: () => Promise<Servers>): void {
  let servers: Servers;
  let limiters: readonly Store[];
  let runs = 0;

  beforeAll(async () => {
    servers = await start();
    limiters = await Promise.all([servers.open(), servers.open()]);
  });
  afterAll(async () => {
    await servers?.admin.close();
    await Promise.all((limiters ?? []).map((store) => store.close()));
    await servers?.stop();
  });

  it('leaves in each counter the sum of all answers, and no key without an end', async () => {
    const { clients, isCluster, admin } = servers;
    await fc.assert(
      fc.asyncProperty(fc.array(anyTurn, { minLength: 1, maxLength: 12 }), async (turns) => {
        runs += 1;
        const stem = `1{mix;run=${runs}}`;
        const mix = new Mix(limiters, stem);
        for (const { steps, reset } of turns) {
          if (reset !== undefined) {
            await admin.remove([{ key: mix.key(reset), perSecond: false }]);
            mix.sums[reset]!.reset();
          }
          await Promise.all(steps.map((step) => mix.step(step)));
        }
        for (const at of counters.keys()) {
          await mix.step({ ...lookAtBudget, others: [at] });
        }
        const heldBy = async (at: number) => {
          const values = await Promise.all(
            clients.map((client) => client.get(mix.key(at)).catch(() => null)),
          );
          return Number(values.find((value) => value !== null) ?? 0);
        };
        const sums = mix.sums.slice(0, fixed);
        expect(await Promise.all(sums.map((_, at) => heldBy(at)))).toEqual(sums.map(({ total }) => total));
        for (const client of clients) {
          const keys = await client.keys(`*${stem}*`);
          for (const key of keys)
            expect([key, await client.pttl(key)]).toEqual([
              key,
              expect.toSatisfy((ms) => ms >= -2 && ms !== -1),
            ]);
          const options = { recordMs: 600_000, nowMs: Date.now(), isClockOfServer: !isCluster };
          expect(await bookProblems(client, options, `weir:reserve:${stem}*`)).toEqual([]);
        }
      }),
      { numRuns: caseCount(80) },
    );
  });
}

describeWithBothRedis('mixed operations in Redis', (path) => {
  mixSuite(async () => {
    const server = await startRedis({ path, lifetimes: { jitterSeconds: 3_600 } });
    const client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
    const url = `127.0.0.1:${server.port}`;
    return {
      clients: [client],
      isCluster: false,
      admin: openRedisStoreAdmin(url, { leases: true }),
      open: () => openRedisStore({ url }),
      stop: async () => {
        client.disconnect();
        await server.stop();
      },
    };
  });
});

describeWithEachRedis('mixed operations in a Redis Cluster', (path) => {
  mixSuite(async () => {
    const cluster = await startRedisCluster({ path, lifetimes: { jitterSeconds: 3_600 } });
    return {
      clients: cluster.members.slice(0, 3).map(({ client }) => client),
      isCluster: true,
      admin: openRedisStoreAdmin(parseClusterAddress({ url: cluster.url, auth: '' }), { leases: true }),
      open: () => openClusterStore({ url: cluster.url }),
      stop: () => cluster.stop(),
    };
  });
});
