/** Limiters with leases at one Redis, all of it in disorder: nothing beyond a limit passes, and hardly anything is rejected too early. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { seededRandom } from '../../bench/zipf.ts';
import { LeaseStore } from '../../limiter/leases/lease-store.ts';
import type { Operation } from '../../limiter/stores/operation.ts';
import type { RedisStore } from '../../limiter/stores/redis/redis-store.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { counterOp } from '../support/counter-ops.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { redisProgram } from '../support/find-server.ts';
import { propertySeed } from '../support/property-cases.ts';
import { startRedis } from '../support/redis-server.ts';
import { connectStore, newRedisStore } from '../support/redis-stores.ts';

const limiters = 4;
const callers = 40;
const windowMs = 1_000;
const lastsMs = 7_000;
const largestHit = 3;
/** Of two versions of the rules. */
const versions = [
  { limit: 500, maxLease: 25 },
  { limit: 400, maxLease: 20 },
];
/** Which limiter, which key, how many: the rest is up to the machine. */
const random = seededRandom(propertySeed);
const never = { stopWhenOver: false };

/** What is known of one counter: hits by what became of them, and limiters that were killed while it was in use. */
class Tally {
  counted = 0;
  spent = 0;
  /** Of requests without an answer. */
  unknown = 0;
  toTakeBack = 0;
  kills = 0;
  refused = false;
  readonly passed = [0, 0];
}

class Limiter {
  version = 0;
  readonly store: RedisStore;
  readonly leases: LeaseStore;
  #end = (): void => {};

  constructor(name: string, port: number) {
    this.store = newRedisStore({ url: `127.0.0.1:${port}` }, { timeoutMs: 500 });
    const every = (ms: number, callback: () => void) => {
      this.#end = systemTimers.every(ms, callback);
      return this.#end;
    };
    const timers = { ...systemTimers, every };
    this.leases = new LeaseStore({
      store: this.store,
      clock: systemClock,
      timers,
      limiter: name,
      maxCounters: 50,
    });
  }

  /** As a process that is killed: nothing goes back. */
  async kill(): Promise<void> {
    this.#end();
    await this.store.close();
  }
}

class Race {
  readonly tallies = new Map<string, Tally>();
  readonly #endMs = performance.now() + lastsMs;
  readonly #fleet: Limiter[] = [];
  readonly #port: number;
  #started = 0;
  spent = 0;

  constructor(port: number) {
    this.#port = port;
  }

  get isOver(): boolean {
    return performance.now() > this.#endMs;
  }

  get #window(): number {
    return Math.floor(performance.now() / windowMs);
  }

  async start(at: number): Promise<void> {
    const limiter = new Limiter(`limiter-${this.#started++}`, this.#port);
    this.#fleet[at] = limiter;
    await connectStore(limiter.store);
  }

  /** Keys end with their window; those of `refunded` are given hits back as well. */
  #key(): string {
    const name = random() < 0.6 ? 'busy' : random() < 0.7 ? 'refunded' : 'quiet';
    return `${name}:${this.#window}`;
  }

  #tally(key: string): Tally {
    const tally = this.tallies.get(key) ?? new Tally();
    this.tallies.set(key, tally);
    return tally;
  }

  async call(): Promise<void> {
    while (!this.isOver) {
      const key = this.#key();
      const hits = random() < 0.8 ? 1 : largestHit;
      const passed = await this.#count(key, hits, false);
      if (passed && key.startsWith('refunded') && random() < 0.3) await this.#count(key, hits, true);
      await sleep(random() * 15);
    }
  }

  #count(key: string, hits: number, negative: boolean): Promise<boolean> {
    const limiter = this.#fleet[Math.floor(random() * limiters)]!;
    const { version } = limiter;
    const op = counterOp({ key, hits, negative, ...versions[version]! });
    const tally = this.#tally(key);
    if (negative) tally.toTakeBack += hits;
    return new Promise((resolve) => {
      limiter.leases.submit([op], never, () => resolve(this.#note(op, tally, version)));
    });
  }

  #note(op: Operation, tally: Tally, version: number): boolean {
    const { hits, verb, error, fromLease, after, counter } = op;
    const negative = verb === 'refund';
    const { capacity: limit } = counter;
    if (error !== undefined) {
      if (!error.notCounted && !negative) tally.unknown += hits;
      return false;
    }
    if (negative) return false;
    if (fromLease) tally.spent += hits;
    else tally.counted += hits;
    if (after > limit) {
      tally.refused = true;
      return false;
    }
    tally.passed[version]! += hits;
    return true;
  }

  async killOften(): Promise<void> {
    while (!this.isOver) {
      await sleep(100 + random() * 500);
      const at = Math.floor(random() * limiters);
      const killed = this.#fleet[at]!;
      // Leases outlive their window until they have been idle.
      for (const [key, tally] of this.tallies)
        if (Number(key.split(':')[1]) >= this.#window - 3) tally.kills += 1;
      await Promise.all([killed.kill(), this.start(at)]);
    }
  }

  async changeRulesOften(): Promise<void> {
    while (!this.isOver) {
      await sleep(random() * 800);
      const limiter = this.#fleet[Math.floor(random() * limiters)]!;
      limiter.version = 1 - limiter.version;
      limiter.leases.endAll();
    }
  }

  async end(): Promise<void> {
    for (const { leases } of this.#fleet) {
      await leases.close();
      this.spent += leases.book.spent;
    }
  }
}

describeWithServer('leases in disorder', redisProgram, (path) => {
  it('let nothing pass beyond a limit, and charge what they keep from others', {
    timeout: 60_000,
  }, async () => {
    const args = ['--appendonly', 'yes', '--appendfsync', 'always'];
    const server = await startRedis({ path, args });
    const race = new Race(server.port);
    for (let at = 0; at < limiters; at += 1) await race.start(at);
    const restart = async (): Promise<void> => {
      await sleep(lastsMs / 2);
      await server.kill('SIGKILL');
      await sleep(100);
      await server.start();
    };
    const calls = Array.from({ length: callers }, () => race.call());
    await Promise.all([...calls, race.killOften(), race.changeRulesOften(), restart()]);
    await race.end();
    const client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
    for (const [key, tally] of race.tallies) {
      const counter = Number(await client.get(key));
      const outstanding = Number((await client.hget(`weir:lease:{${key}}`, 't')) ?? 0);
      expectInOrder(key, tally, { counter, outstanding });
    }
    client.disconnect();
    await server.stop();
    expect(race.spent).toBeGreaterThan(0);
    expect([...race.tallies.values()].some(({ refused }) => refused)).toBe(true);
  });
});

function expectInOrder(key: string, tally: Tally, held: { counter: number; outstanding: number }): void {
  const { counted, spent, unknown, toTakeBack, kills, passed, refused } = tally;
  const reported = JSON.stringify({ key, ...tally, ...held });
  const passedByAll = passed[0]! + passed[1]!;
  for (const [version, { limit }] of versions.entries())
    expect(passed[version], reported).toBeLessThanOrEqual(limit + toTakeBack);
  expect(passedByAll, reported).toBeLessThanOrEqual(versions[0]!.limit + toTakeBack);
  const known = counted + spent;
  const { counter, outstanding } = held;
  // Exactly so where nothing was killed or lost.
  expect(counter, reported).toBeGreaterThanOrEqual(known - toTakeBack);
  expect(counter, reported).toBeLessThanOrEqual(known + unknown + outstanding);
  const maxHeld = versions[0]!.maxLease * (limiters + kills);
  expect(outstanding, reported).toBeLessThanOrEqual(maxHeld);
  if (refused && toTakeBack === 0)
    expect(passedByAll, reported).toBeGreaterThan(versions[1]!.limit - maxHeld - unknown - largestHit);
}
