import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { expect, it, onTestFinished } from 'vitest';
import { firstAdmitted } from '../../limiter/stores/failure/breaker-state.ts';
import { BreakerStore } from '../../limiter/stores/failure/breaker-store.ts';
import type { Operation } from '../../limiter/stores/operation.ts';
import type { RedisStore } from '../../limiter/stores/redis/redis-store.ts';
import type { Store, SubmitOptions } from '../../limiter/stores/store.ts';
import { systemTimers } from '../../process/time/clock.ts';
import { counterOp, submit } from '../support/counter-ops.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import { compareTimes } from '../support/second-tries.ts';

/** Less than the time after which the breaker lets more through. */
const soonMs = 80;

/** A store of Redis that says how many requests it had at once soon after it answered a probe. */
class WatchedStore implements Store {
  readonly #store: RedisStore;
  underWay = 0;
  maxSoonAfterProbe = 0;
  #answeredProbeMs = Number.NEGATIVE_INFINITY;

  constructor(store: RedisStore) {
    this.#store = store;
  }

  get connected(): boolean {
    return this.#store.connected;
  }

  submit(ops: Operation[], options: SubmitOptions, done: () => void): void {
    this.underWay += 1;
    if (performance.now() - this.#answeredProbeMs < soonMs) {
      this.maxSoonAfterProbe = Math.max(this.maxSoonAfterProbe, this.underWay);
    }
    this.#store.submit(ops, options, () => {
      this.underWay -= 1;
      done();
    });
  }

  async ping(): Promise<void> {
    await this.#store.ping();
    this.#answeredProbeMs = performance.now();
  }

  close = () => this.#store.close();
}

interface Answered {
  op: Operation;
  askedMs: number;
  tookMs: number;
  /** The breaker was open, or only sent a probe, when it was asked. */
  open: boolean;
}

const callers = 50;

/** A Redis that keeps what it answered, and callers that ask all the time, each for a key of its own. */
async function underLoad(path: string) {
  const server = await startRedis({ path, args: ['--appendonly', 'yes', '--appendfsync', 'always'] });
  onTestFinished(() => server.stop());
  const inner = new WatchedStore(
    await openRedisStore({ url: `127.0.0.1:${server.port}` }, { timeoutMs: 10_000 }),
  );
  const changes: string[] = [];
  const store = new BreakerStore({
    store: inner,
    timers: systemTimers,
    random: Math.random,
    silenceMs: 700,
    probeIntervalMs: 100,
    patienceMs: 10_000,
    maxWaiting: 1000,
    maxWaitingBytes: 1_000_000,
    onChange: (open) => changes.push(open ? 'open' : 'closed'),
  });
  onTestFinished(() => store.close());
  const answered: Answered[] = [];
  let stopped = false;
  const call = async () => {
    while (!stopped) {
      const op = counterOp({ key: randomUUID(), ttlSeconds: 3600 });
      const askedMs = performance.now();
      const open = store.phase === 'open' || store.phase === 'probing';
      await submit(store, [op]);
      answered.push({ op, askedMs, tookMs: performance.now() - askedMs, open });
      if (op.error !== undefined) await sleep(2);
    }
  };
  const calls = Array.from({ length: callers }, call);
  const stop = () => {
    stopped = true;
    return Promise.all(calls);
  };
  onTestFinished(() => void stop());
  await eventually(() => expect(answered.length).toBeGreaterThan(500));
  return { server, inner, store, answered, changes, stop };
}

function p99(values: number[]): number {
  return values.sort((a, b) => a - b)[Math.floor(values.length * 0.99)] as number;
}

/** Every hit that was answered is there once, every other at most once. */
async function expectCountedOnce(port: number, answered: readonly Answered[]): Promise<void> {
  const client = new Redis(port, '127.0.0.1', { protocol: 2 });
  const held = await client.mget(answered.map(({ op }) => op.key));
  client.disconnect();
  const wrong = answered.filter(({ op }, i) =>
    op.error === undefined
      ? op.after !== 1 || held[i] !== '1'
      : (held[i] ?? '1') !== '1' || (op.error.notCounted && held[i] !== null),
  );
  expect(wrong).toEqual([]);
}

describeWithServer('BreakerStore around Redis under load', redisProgram, (path) => {
  it('answers at once while Redis is killed, and counts nothing twice when it is back', async () => {
    const { server, store, answered, changes, stop } = await underLoad(path);
    await server.kill('SIGKILL');
    await eventually(() => expect(changes).toEqual(['open']), { intervalMs: 1, timeoutMs: 1000 });
    await sleep(300);
    await server.start();
    await eventually(() => expect(changes).toEqual(['open', 'closed']));
    const back = answered.length;
    await eventually(() => expect(answered.length).toBeGreaterThan(back + 500));
    await stop();
    const whileOpen = answered.filter(({ open }) => open).map(({ tookMs }) => tookMs);
    expect(whileOpen.length).toBeGreaterThan(500);
    compareTimes(() => expect(p99(whileOpen)).toBeLessThan(5));
    expect(store.waiting).toBe(0);
    await expectCountedOnce(server.port, answered);
  });

  it('fails within a second when Redis is paused, not after its timeout, and finds the way back without a herd', async () => {
    const { server, inner, answered, changes, stop } = await underLoad(path);
    const before = answered.length;
    const pausedMs = performance.now();
    await server.kill('SIGSTOP');
    await eventually(() => expect(changes).toEqual(['open']), { intervalMs: 1, timeoutMs: 2000 });
    await sleep(500);
    const failures = answered.slice(before).filter(({ op }) => op.error !== undefined);
    const { askedMs, tookMs } = failures[0] as Answered;
    compareTimes(() => {
      expect(askedMs + tookMs - pausedMs).toBeLessThan(1000);
      expect(Math.max(...failures.map((failure) => failure.tookMs))).toBeLessThan(1000);
    });
    const atOnce = failures.filter(({ open }) => open).map(({ tookMs }) => tookMs);
    expect(atOnce.length).toBeGreaterThan(500);
    compareTimes(() => expect(p99(atOnce)).toBeLessThan(5));

    expect(inner.underWay).toBe(callers);
    await server.kill('SIGCONT');
    await eventually(() => expect(changes).toEqual(['open', 'closed']));
    expect(inner.maxSoonAfterProbe).toBeGreaterThan(0);
    expect(inner.maxSoonAfterProbe).toBeLessThanOrEqual(firstAdmitted);
    const back = answered.length;
    await eventually(() => expect(answered.length).toBeGreaterThan(back + 500));
    await stop();
    expect(answered.at(-1)?.op.error).toBeUndefined();
    await expectCountedOnce(server.port, answered);
  });
});
