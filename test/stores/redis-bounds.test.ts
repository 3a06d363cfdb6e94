/** Limits that count hits only if they pass, in a real Redis: what its keys hold, what it is asked, and what many at once get. */
import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import type { AlgorithmBound, CounterState } from '../../limiter/algorithms/algorithm-bound.ts';
import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import { SlidingWindow } from '../../limiter/algorithms/sliding-window.ts';
import { TokenBucket } from '../../limiter/algorithms/token-bucket.ts';
import type { Operation } from '../../limiter/stores/operation.ts';
import { program } from '../../limiter/stores/redis/lua/program.ts';
import type { RedisStore } from '../../limiter/stores/redis/redis-store.ts';
import type { Store } from '../../limiter/stores/store.ts';
import { systemClock } from '../../process/time/clock.ts';
import { isExactBucket } from '../../rules/algorithms/token-bucket.ts';
import { kindOf } from '../support/bound-kind.ts';
import { counterOp, type GivenTerms, submit } from '../support/counter-ops.ts';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { redisProgram } from '../support/find-server.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { caseCount } from '../support/property-cases.ts';
import { commandCalls, type RedisServer, startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { BucketModel, SlidingModel } from './counter-model.ts';

const minute = 60_000_000;
const stop = { stopWhenOver: true };
const sliding = new SlidingWindow({ requests: 10, windowMicros: 60 * minute });
const bucket = new TokenBucket({ requests: 10, burst: 5, windowMicros: 60 * minute });

/** Ops of one group under a hash tag, each with a bound of its own. */
function groupOf(tag: string, bounds: readonly AlgorithmBound[], given: GivenTerms = {}): Operation[] {
  return bounds.map((bound, i) =>
    counterOp({ key: `{${tag}}:${i}`, bound, groupSize: bounds.length, limit: bound.capacity, ...given }),
  );
}

function textOf({ holdsTotal }: AlgorithmBound, held: CounterState): string {
  return holdsTotal ? String(held[0]) : held.join(':');
}

describeWithEachRedis('limits with bounds in Redis', (path) => {
  let server: RedisServer;
  let store: RedisStore;
  let client: Redis;

  beforeAll(async () => {
    server = await startRedis({ path, lifetimes: { own: ['{own:'] } });
    store = await openRedisStore({ url: `127.0.0.1:${server.port}` });
    client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
  });
  afterAll(async () => {
    client.disconnect();
    await store.close();
    await server.stop();
  });

  async function calls(command: string): Promise<number> {
    const stats = await client.info('commandstats');
    return commandCalls(stats, command);
  }

  it('leaves what the answers say, from whatever the keys held', async () => {
    const seconds = fc.oneof(fc.constantFrom(1, 60, 86_400), fc.integer({ min: 1, max: 315_360_000 }));
    const max = Number.MAX_SAFE_INTEGER;
    const requests = fc.oneof(
      fc.nat(20),
      fc.integer({ min: 1, max: 4_294_967_295 }),
      fc.integer({ min: 1, max: max }),
    );
    const numbers = fc.record({ requests, burst: requests, windowMicros: seconds.map((n) => n * 1_000_000) });
    /** Shares of a window, or of a limit, that the key holds; times and windows also ahead of now. */
    const share = fc.oneof(fc.constantFrom(0, 0.5, 1), fc.double({ min: 0, max: 1.2, noNaN: true }));
    const counter = fc.record({
      kind: fc.constantFrom('fixed', 'sliding', 'bucket' as const),
      numbers,
      held: fc.option(fc.tuple(fc.integer({ min: -3, max: 2 }), share, share), { nil: undefined }),
    });
    const change = fc.record({
      /** Of the limit, in eighths, or so many. */
      eighths: fc.option(fc.nat(8), { nil: undefined }),
      hits: fc.nat(3),
      negative: fc.oneof(
        { weight: 3, arbitrary: fc.constant(false) },
        { weight: 1, arbitrary: fc.constant(true) },
      ),
    });

    const boundOf = ({
      kind,
      numbers,
    }: {
      kind: ReturnType<typeof kindOf>;
      numbers: { requests: number; burst: number; windowMicros: number };
    }) =>
      kind === 'fixed'
        ? new FixedWindow(numbers.requests)
        : kind === 'sliding'
          ? new SlidingWindow(numbers)
          : new TokenBucket(numbers);
    const heldText = ({
      kind,
      numbers,
      held,
    }: Parameters<typeof boundOf>[0] & { held: [number, number, number] | undefined }) => {
      if (held === undefined) return undefined;
      const [steps, a, b] = held;
      const { requests, burst, windowMicros } = numbers;
      const now = Date.now() * 1000;
      if (kind === 'fixed') return String(Math.floor(requests * a) + steps);
      if (kind === 'sliding')
        return [
          Math.floor(now / windowMicros) + steps,
          Math.min(max, Math.floor(requests * a)),
          Math.min(max, Math.floor(requests * b)),
        ].join(':');
      const full = requests === 0 ? 0 : Math.floor((burst * windowMicros) / requests);
      const parts = steps === 1 ? 7 : Math.max(1, requests);
      return [
        Math.max(0, now + Math.floor(full * a) - (steps < 0 ? full : 0)),
        Math.floor((parts - 1) * Math.min(1, b)),
        parts,
      ].join(':');
    };

    await fc.assert(
      fc.asyncProperty(
        fc.array(counter, { minLength: 1, maxLength: 3 }),
        fc.array(change, { minLength: 1, maxLength: 8 }),
        async (counters, changes) => {
          fc.pre(counters.every(({ kind, numbers }) => kind !== 'bucket' || isExactBucket(numbers)));
          const tag = randomUUID();
          const bounds = counters.map(boundOf);
          const texts = counters.map(heldText);
          for (const [i, text] of texts.entries())
            if (text !== undefined) await client.set(`{${tag}}:${i}`, text, 'EX', 50);
          const min = Math.min(...bounds.map(({ capacity }) => capacity));
          const answered = await Promise.all(
            changes.map(({ eighths, hits, negative }) => {
              const share = eighths === undefined ? hits : Math.floor((min * eighths) / 8);
              return submit(store, groupOf(tag, bounds, { hits: share, negative, ttlSeconds: 70 }));
            }),
          );
          const lives: number[] = texts.map((text) => (text === undefined ? -2 : 50));
          for (const [i, bound] of bounds.entries()) {
            for (const op of answered.map((ops) => ops[i]!)) {
              expect(op.error).toBeUndefined();
              if (op.applied === 0 || op.held === undefined) continue;
              // A total below 0 is taken for 0, which the key does not become.
              texts[i] =
                kindOf(bound) === 'fixed' && Number(texts[i]) < 0
                  ? String(op.held[0])
                  : textOf(bound, op.held);
              if (kindOf(bound) !== 'fixed' || lives[i] === -2) lives[i] = 70;
            }
            const key = `{${tag}}:${i}`;
            expect(await client.get(key)).toBe(texts[i] ?? null);
            const life = await client.ttl(key);
            expect(life).toBeLessThanOrEqual(lives[i]!);
            expect(life).toBeGreaterThan(lives[i]! - 20);
          }
        },
      ),
      { numRuns: caseCount(600) },
    );
  });

  it('sends one call for all of a turn, and other scripts only if a bound is in it', async () => {
    await client.script('FLUSH');
    await client.config('RESETSTAT');
    const tag = randomUUID();
    await Promise.all([
      submit(store, groupOf(tag, [bucket, sliding])),
      submit(store, [counterOp({ key: randomUUID() }), ...groupOf(tag, [bucket, sliding])]),
      submit(store, groupOf(tag, [bucket, sliding], { hits: 2 })),
    ]);
    expect(await Promise.all(['evalsha', 'eval', 'time', 'get', 'setex'].map(calls))).toEqual([
      1, 1, 1, 4, 4,
    ]);
    await submit(store, [counterOp({ key: randomUUID() })]);
    await submit(store, [counterOp({ key: randomUUID() })], stop);
    const known = await client.script('EXISTS', program.sha1);
    expect([known, await calls('time')]).toEqual([[1], 1]);
  });

  it('answers a group with an error, and counts none of it, if one key holds something else', async () => {
    for (const [i, [foreign, error]] of [
      ['10', 'ERR value is not what a sliding limit holds'],
      ['1:2:9007199254740992', 'ERR value is not what a sliding limit holds'],
      ['', 'ERR value is not what a sliding limit holds'],
      [undefined, 'WRONGTYPE Operation against a key holding the wrong kind of value'],
    ].entries()) {
      const options = i % 2 === 0 ? {} : stop;
      const [tag, other] = [`own:${randomUUID()}`, randomUUID()];
      if (foreign === undefined) await client.rpush(`{${tag}}:1`, 'x');
      else await client.set(`{${tag}}:1`, foreign);
      const [bad, good] = await Promise.all([
        submit(store, [...groupOf(tag, [new FixedWindow(9), sliding]), counterOp({ key: other })], options),
        submit(store, groupOf(other, [bucket]), options),
      ]);
      const messages = bad!.map((op) => op.error?.message);
      expect(messages).toEqual([`Redis answered: ${error}`, `Redis answered: ${error}`, undefined]);
      expect([good![0]?.error, good![0]?.after, await client.exists(`{${tag}}:0`)]).toEqual([
        undefined,
        1,
        0,
      ]);
    }
  });

  it('counts none of a group in a full Redis', async () => {
    const tag = randomUUID();
    await submit(store, groupOf(tag, [new FixedWindow(9), bucket]));
    await client.config('SET', 'maxmemory', '1');
    try {
      for (const options of [{}, stop]) {
        const ops = await submit(store, groupOf(tag, [new FixedWindow(9), bucket]), options);
        for (const op of ops) expect(op.error).toMatchObject({ transient: true, notCounted: true });
      }
    } finally {
      await client.config('SET', 'maxmemory', '0');
    }
    const ops = await submit(store, groupOf(tag, [new FixedWindow(9), bucket]));
    expect(ops.map(({ after }) => after)).toEqual([2, 2]);
  });

  it('counts plain windows for a user that may not ask for the time, and nothing with a bound', async () => {
    await client.acl('SETUSER', 'timeless', 'on', '>pw', '~*', '+@all', '-time');
    const timeless = await openRedisStore({ url: `redis://timeless:pw@127.0.0.1:${server.port}` });
    onTestFinished(() => timeless.close());
    for (const options of [{}, stop]) {
      const [plain, tag] = [randomUUID(), randomUUID()];
      for (const after of [1, 2]) {
        const ops = await submit(
          timeless,
          [...groupOf(tag, [sliding, bucket]), counterOp({ key: plain })],
          options,
        );
        expect(ops.map((op) => op.error?.message)).toEqual([
          expect.stringMatching(/^Redis answered: NOPERM limits with bounds need TIME: /),
          expect.stringMatching(/^Redis answered: NOPERM limits with bounds need TIME: /),
          undefined,
        ]);
        expect(ops[2]?.after).toBe(after);
      }
      expect(await client.exists(`{${tag}}:0`)).toBe(0);
    }
  });

  it('never lets more pass than a bound allows, whichever caller asks, by the clock of Redis', async () => {
    const windowMicros = 1_000_000;
    const limits = {
      sliding: { requests: 50, windowMicros },
      bucket: { requests: 100, burst: 20, windowMicros },
    };
    const bounds = { sliding: new SlidingWindow(limits.sliding), bucket: new TokenBucket(limits.bucket) };
    const tag = randomUUID();
    const stores = await Promise.all(
      Array.from({ length: 4 }, () => openRedisStore({ url: `127.0.0.1:${server.port}` })),
    );
    onTestFinished(async () => void (await Promise.all(stores.map((each) => each.close()))));
    const admitted: { kind: 'sliding' | 'bucket'; hits: number; atMicros: number }[] = [];
    let refused = 0;
    const endMs = performance.now() + 2_500;
    const askOnAndOn = async (from: Store, number: number) => {
      for (let i = number; performance.now() < endMs; i += 1) {
        const kind = i % 2 === 0 ? 'sliding' : 'bucket';
        const hits = 1 + (i % 3);
        const [op] = await submit(
          from,
          [counterOp({ key: `${tag} ${kind}`, hits, bound: bounds[kind], limit: bounds[kind].capacity })],
          { stopWhenOver: i % 5 === 0 },
        );
        const { applied, error } = op!;
        expect(error).toBeUndefined();
        if (applied === 0) refused += 1;
        else admitted.push({ kind, hits, atMicros: decidedAt(bounds[kind], op!) });
      }
    };
    await Promise.all(Array.from({ length: 40 }, (_, i) => askOnAndOn(stores[i % 4]!, i)));
    expect(refused).toBeGreaterThan(100);
    for (const kind of ['sliding', 'bucket'] as const) {
      const model =
        kind === 'sliding'
          ? new SlidingModel(limits.sliding.requests, windowMicros)
          : new BucketModel(limits.bucket.requests, limits.bucket.burst, windowMicros);
      const own = admitted.filter((each) => each.kind === kind).sort((a, b) => a.atMicros - b.atMicros);
      for (const { hits, atMicros } of own) {
        expect(model.room(atMicros)).toBeGreaterThanOrEqual(BigInt(hits));
        model.take(atMicros, hits);
      }
      expect(own.length).toBeGreaterThan(10);
    }
  });
});

interface Pass {
  /** By the clock that Redis has, too: it passed between the two. */
  fromMs: number;
  toMs: number;
}

describeWithServer('four limiters whose clocks are up to 5 s apart', redisProgram, (path) => {
  it('let no more pass together than a bucket and a sliding window allow', { timeout: 30_000 }, async () => {
    const server = await startRedis({ path });
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'config'));
    writeFileSync(
      join(folder, 'config/d.yaml'),
      `domain: d
descriptors:
  - key: bucket
    rate_limit: { unit: second, requests_per_unit: 40, algorithm: token_bucket, burst: 15 }
  - key: sliding
    rate_limit: { unit: second, requests_per_unit: 30, algorithm: sliding_window }
`,
    );
    const limiters: InProcessLimiter[] = [];
    onTestFinished(async () => {
      // In this order, as each gives back what it found.
      for (const limiter of limiters.reverse()) await limiter.stop();
      await server.stop();
    });
    for (const aheadMs of [0, 1_700, 3_400, 5_000]) {
      limiters.push(
        await InProcessLimiter.start({
          env: {
            RUNTIME_ROOT: folder,
            BACKEND_TYPE: 'redis',
            REDIS_SOCKET_TYPE: 'tcp',
            REDIS_URL: `127.0.0.1:${server.port}`,
          },
          clock: { nowMs: () => Date.now() + aheadMs, monotonicMs: systemClock.monotonicMs },
        }),
      );
    }
    const passed = { bucket: [] as Pass[], sliding: [] as Pass[] };
    const endMs = performance.now() + 3_000;
    const askOnAndOn = async (limiter: InProcessLimiter, number: number) => {
      for (let i = number; performance.now() < endMs; i += 1) {
        const key = i % 2 === 0 ? 'bucket' : 'sliding';
        const fromMs = Date.now();
        const { body } = await limiter.ask('d', [{ [key]: 'all' }]);
        if (body.overallCode === 'OK') passed[key].push({ fromMs, toMs: Date.now() });
      }
    };
    await Promise.all(Array.from({ length: 40 }, (_, i) => askOnAndOn(limiters[i % 4]!, i)));

    expect(passed.bucket.length).toBeGreaterThan(15);
    expect(passed.sliding.length).toBeGreaterThan(15);
    for (const { fromMs } of passed.bucket) {
      const later = passed.bucket.filter((pass) => pass.fromMs >= fromMs).sort((a, b) => a.toMs - b.toMs);
      for (const [i, { toMs }] of later.entries())
        expect(i + 1).toBeLessThanOrEqual(15 + 0.04 * (toMs + 1 - fromMs));
    }
    for (const one of passed.sliding) {
      const window = Math.floor(one.toMs / 1000);
      const within = (number: number) => (pass: Pass) =>
        Math.floor(pass.fromMs / 1000) === number && Math.floor(pass.toMs / 1000) === number;
      if (!within(window)(one)) continue;
      const former = passed.sliding.filter(within(window - 1)).length;
      const current = passed.sliding.filter((pass) => within(window)(pass) && pass.toMs < one.fromMs).length;
      const rest = 1 - ((one.toMs + 1) % 1000) / 1000;
      if (rest < 1) expect(former * rest + current + 1).toBeLessThanOrEqual(30);
    }
  });
});

/** When Redis let it pass, from the answer, which says how long from then another one passes, or nothing is used. */
function decidedAt(bound: SlidingWindow | TokenBucket, { held, after, waitMicros }: Operation): number {
  const isBucket = bound instanceof TokenBucket;
  const beforeMicros = isBucket ? held![0] - 1_000_000 : held![0] * 1_000_000;
  const isFull = after === bound.capacity;
  const wait = isFull
    ? bound.untilRoomMicros(held!, beforeMicros)
    : bound.untilUnusedMicros(held!, beforeMicros);
  return beforeMicros + wait - waitMicros;
}
