import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { openMemoryStore } from '../../test/support/open-memory-store.ts';
import { Heartbeats } from './heartbeats.ts';
import { CounterResets, confirmationMs } from './resets.ts';
import { MemoryStoreAdmin } from './store-admin/memory-store-admin.ts';
import {
  type StoreAdmin,
  StoreAdminRejection,
  type SubscriptionListener,
} from './store-admin/store-admin.ts';

const turns = async (count = 5): Promise<void> => {
  for (let i = 0; i < count; i += 1) await new Promise((resolve) => setImmediate(resolve));
};

/** Limiters that share the store of one process. */
class World {
  readonly timers = new ManualTimers();
  readonly clock = new ManualClock(1_000_000);
  readonly store = openMemoryStore();
  readonly storeAdmin: StoreAdmin = new MemoryStoreAdmin(this.store);
  /** The keys that each limiter was asked to forget, for each time. */
  readonly orders = new Map<string, (readonly string[] | undefined)[]>();
  /** Limiters that do not carry out orders. */
  readonly paused = new Set<string>();
  /** Let the threads of paused limiters carry out their orders. */
  readonly pending: (() => void)[] = [];
  #ids = 0;

  add(name: string, storeAdmin = this.storeAdmin, dateMs = 0) {
    const clock = new ManualClock();
    clock.dateMs = dateMs;
    Object.defineProperty(clock, 'ms', { get: () => this.clock.ms });
    const { timers } = this;
    const self = { name, instance: `${name}-1`, version: '1' };
    const heartbeats = new Heartbeats({ storeAdmin, self, clock, timers });
    const orders: (readonly string[] | undefined)[] = [];
    this.orders.set(name, orders);
    const forget = async (keys: readonly string[] | undefined): Promise<void> => {
      if (this.paused.has(name)) await new Promise<void>((resolve) => this.pending.push(resolve));
      orders.push(keys);
    };
    const newId = () => String(++this.#ids);
    const resets = new CounterResets({ storeAdmin, heartbeats, self, forget, newId, clock, timers });
    resets.start();
    heartbeats.start();
    return { heartbeats, resets };
  }

  async advance(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 250) {
      this.clock.ms += Math.min(250, left);
      this.timers.advance(Math.min(250, left));
      await turns(1);
    }
    await turns();
  }
}

/** The store admin with the given methods replaced. */
function unlike(storeAdmin: StoreAdmin, given: Partial<StoreAdmin>): StoreAdmin {
  return {
    kind: storeAdmin.kind,
    missing: storeAdmin.missing,
    scan: (question) => storeAdmin.scan(question),
    read: (some) => storeAdmin.read(some),
    remove: (some) => storeAdmin.remove(some),
    publish: (text) => storeAdmin.publish(text),
    subscribe: (listener) => storeAdmin.subscribe(listener),
    records: (table) => storeAdmin.records(table),
    record: (table, field) => storeAdmin.record(table, field),
    putRecord: (...record) => storeAdmin.putRecord(...record),
    removeRecord: (...record) => storeAdmin.removeRecord(...record),
    close: () => storeAdmin.close(),
    ...given,
  };
}

const counters = (...keys: string[]) => keys.map((key) => ({ key, perSecond: false }));

describe('CounterResets', () => {
  it('has every limiter forget what was removed, and names those that did', async () => {
    const world = new World();
    const [one] = [world.add('one'), world.add('two'), world.add('three')];
    await turns();
    expect(await one.resets.reset(counters('a', 'b'))).toMatchObject({
      reset: 0,
      limiters: ['one', 'three', 'two'].map((name) => ({
        name,
        instance: `${name}-1`,
        confirmed: true,
        afterMs: 0,
      })),
      missing: [],
    });
    for (const orders of world.orders.values()) expect(orders).toEqual([['a', 'b']]);
  });

  it('has the counters gone before anybody forgets them', async () => {
    const world = new World();
    const done: string[] = [];
    const storeAdmin = unlike(world.storeAdmin, {
      remove: async (some) => {
        await turns();
        return done.push('removed') + some.length;
      },
      publish: async (text) => done.push('published') > 0 && world.storeAdmin.publish(text),
    });
    const one = world.add('one', storeAdmin);
    world.orders.get('one')!.push = () => done.push('forgotten');
    await one.resets.reset(counters('a'));
    expect(done).toEqual(['removed', 'forgotten', 'published']);
  });

  it('reports limiters that did not confirm in a second, itself among them', async () => {
    const world = new World();
    const one = world.add('one');
    world.add('two');
    await turns();
    for (const paused of ['two', 'one']) {
      world.paused.clear();
      world.paused.add(paused);
      let answer: Awaited<ReturnType<CounterResets['reset']>> | undefined;
      void one.resets.reset(counters('a')).then((given) => {
        answer = given;
      });
      await turns();
      await world.advance(confirmationMs - 250);
      expect(answer).toBeUndefined();
      await world.advance(250);
      const other = paused === 'one' ? 'two' : 'one';
      expect(answer?.limiters).toContainEqual({ name: paused, instance: `${paused}-1`, confirmed: false });
      expect(answer?.limiters).toContainEqual(expect.objectContaining({ name: other, confirmed: true }));
      // The confirmation comes after the answer.
      for (const done of world.pending.splice(0)) done();
      await turns();
    }
  });

  it('names many counters in several messages, all of which have to be confirmed', async () => {
    const world = new World();
    const one = world.add('one');
    world.add('two');
    await turns();
    const keys = Array.from({ length: 1_200 }, (_, i) => `k${i}`);
    const { limiters } = await one.resets.reset(counters(...keys));
    expect(limiters.map(({ confirmed }) => confirmed)).toEqual([true, true]);
    const reported = world.orders.get('two')!;
    expect(reported).toHaveLength(3);
    expect(reported.flatMap((some) => some ?? [])).toEqual(keys);
    world.paused.add('two');
    const answered = one.resets.reset(counters(...keys));
    await turns();
    // Carries out two of the three messages.
    for (const done of world.pending.splice(0, 2)) done();
    await turns();
    await world.advance(confirmationMs);
    expect((await answered).limiters[1]).toEqual({ name: 'two', instance: 'two-1', confirmed: false });
  });

  it('forgets everything when it listens again, as it may have missed a reset', async () => {
    const world = new World();
    let listener: SubscriptionListener | undefined;
    const storeAdmin = unlike(world.storeAdmin, {
      subscribe: (given) => {
        listener = given;
        return () => {};
      },
    });
    world.add('one', storeAdmin);
    listener?.back();
    expect(world.orders.get('one')).toEqual([]);
    listener?.back();
    expect(world.orders.get('one')).toEqual([undefined]);
  });

  it('skips foreign messages', async () => {
    const world = new World();
    world.add('one');
    for (const text of ['', '{', 'null', '[]', '{"is":"reset"}', '{"is":"confirmed","id":"none"}'])
      await world.storeAdmin.publish(text);
    await turns();
    expect(world.orders.get('one')).toEqual([]);
  });

  it('names the right that it lacks, and counts the others as silent at once', async () => {
    const world = new World();
    const message = 'NOPERM this user has no permissions';
    const missing = [{ command: 'PUBLISH', message }];
    const storeAdmin = unlike(world.storeAdmin, { missing, publish: async () => false });
    const one = world.add('one', storeAdmin);
    world.add('two');
    await turns();
    expect(await one.resets.reset(counters('a'))).toEqual({
      reset: 0,
      limiters: [
        { name: 'one', instance: 'one-1', confirmed: true, afterMs: 0 },
        { name: 'two', instance: 'two-1', confirmed: false },
      ],
      missing,
    });
  });

  it('says of memcache that others cannot be determined, after it has forgotten itself', async () => {
    const world = new World();
    const refuse = () => Promise.reject(new StoreAdminRejection('no records'));
    const storeAdmin = unlike(world.storeAdmin, {
      kind: 'memcache',
      publish: async () => false,
      records: refuse,
      putRecord: refuse,
    });
    const one = world.add('one', storeAdmin);
    const { limiters, missing } = await one.resets.reset(counters('a'));
    expect(limiters).toEqual([{ name: 'one', instance: 'one-1', confirmed: true, afterMs: 0 }]);
    expect(missing).toEqual([
      { command: 'PUBLISH', message: expect.stringContaining('memcached cannot notify other limiters') },
    ]);
  });

  it('waits its second for connected limiters if the records cannot be read', async () => {
    const world = new World();
    const records = () => Promise.reject(new Error('NOPERM'));
    const one = world.add('one', unlike(world.storeAdmin, { records }));
    world.add('two');
    await turns();
    const answered = one.resets.reset(counters('a'));
    await turns();
    await world.advance(confirmationMs);
    expect((await answered).limiters.map(({ name, confirmed }) => [name, confirmed])).toEqual([
      ['one', true],
      ['two', true],
    ]);
  });
});

describe('Heartbeats', () => {
  const names = async (heartbeats: Heartbeats) => (await heartbeats.living()).map(({ name }) => name).sort();

  it('know which limiters were there in the last 15 seconds, and drop the records of others after a minute', async () => {
    const world = new World();
    const { heartbeats } = world.add('one');
    const two = world.add('two');
    await turns();
    expect(await names(heartbeats)).toEqual(['one', 'two']);
    await two.heartbeats.close();
    expect(await names(heartbeats)).toEqual(['one']);
    await world.storeAdmin.putRecord('limiters', 'x', JSON.stringify({ name: 'x', at: world.clock.ms }));
    expect(await names(heartbeats)).toEqual(['one', 'x']);
    await world.advance(14_750);
    expect(await names(heartbeats)).toEqual(['one', 'x']);
    await world.advance(250);
    expect(await names(heartbeats)).toEqual(['one']);
    await world.advance(40_000);
    expect([...(await world.storeAdmin.records('limiters')).keys()]).toEqual(['one-1', 'x']);
    await world.advance(10_000);
    expect([...(await world.storeAdmin.records('limiters')).keys()]).toEqual(['one-1']);
  });

  it('know one whose clock is wrong once it was renewed', async () => {
    const world = new World();
    const { heartbeats } = world.add('one');
    world.add('early', world.storeAdmin, -3_600_000);
    await turns();
    expect(await names(heartbeats)).toEqual(['one']);
    await world.advance(5_000);
    expect(await names(heartbeats)).toEqual(['early', 'one']);
    await world.advance(120_000);
    expect(await names(heartbeats)).toEqual(['early', 'one']);
  });

  it('take no record of an unknown form for a limiter, and begin no record at the end', async () => {
    const world = new World();
    for (const text of ['', 'x', '{}', '{"name":7,"at":"now"}'])
      await world.storeAdmin.putRecord('limiters', `of ${text}`, text);
    const { heartbeats } = world.add('one');
    await turns();
    expect(await names(heartbeats)).toEqual(['one']);
    const { timers, clock } = world;
    const asked: string[] = [];
    const removeRecord = async (_: string, field: string) => asked.push(field) > 0;
    const storeAdmin = unlike(world.storeAdmin, { removeRecord });
    const self = { name: 'idle', instance: 'idle', version: '1' };
    await new Heartbeats({ storeAdmin, self, clock, timers }).close();
    expect(asked).toEqual([]);
  });
});
