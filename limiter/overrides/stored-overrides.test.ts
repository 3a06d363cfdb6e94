import { describe, expect, it } from 'vitest';
import type { Override } from '../../rules/override.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { MemoryStoreAdmin } from '../operate/store-admin/memory-store-admin.ts';
import type { StoreAdmin, SubscriptionListener } from '../operate/store-admin/store-admin.ts';
import { StoredOverrides } from './stored-overrides.ts';

const turns = async (): Promise<void> => {
  for (let i = 0; i < 20; i += 1) await new Promise((resolve) => setImmediate(resolve));
};

const override = (id: string): Override => ({
  ...{ id, source: 'api', name: id, domain: 'd', match: [{ key: 'k', value: id }], limit: '' },
  ...{ effect: { kind: 'block' }, createdMs: 1, endsMs: undefined, reason: 'r', by: '' },
});

/** Two limiters with one store. */
function world() {
  const store = new MemoryStoreAdmin({
    look: () => undefined,
    remove: () => 0,
    keys: () => [].values(),
  } as never);
  const timers = new ManualTimers();
  const limiter = () => {
    const asked = { all: 0, one: 0 };
    const uses: string[] = [];
    const listeners: SubscriptionListener[] = [];
    const storeAdmin: StoreAdmin = {
      ...{ kind: 'redis', missing: [], close: async () => {} },
      scan: (question) => store.scan(question),
      read: (counters) => store.read(counters),
      remove: (counters) => store.remove(counters),
      publish: (text) => store.publish(text),
      subscribe: (listener) => {
        listeners.push(listener);
        return store.subscribe({ ...listener, received: (text) => listeners[0]?.received(text) });
      },
      records: (table) => {
        if (table === 'overrides') asked.all += 1;
        return store.records(table);
      },
      record: (table, field) => {
        if (table === 'overrides') asked.one += 1;
        return store.record(table, field);
      },
      putRecord: (...given) => store.putRecord(...given),
      removeRecord: (...given) => store.removeRecord(...given),
    };
    const kept = new StoredOverrides({
      ...{ storeAdmin, clock: new ManualClock(1_000), timers, pollMs: 1_000, onGivenBack: () => {} },
      use: async (overrides, when) => void uses.push(`${overrides.length} ${when}`),
    });
    kept.start();
    return { kept, asked, uses, listeners };
  };
  return { one: limiter(), other: limiter(), store, timers };
}

describe('StoredOverrides', () => {
  it('reads the one record that a change names, here and elsewhere', async () => {
    const { one, other } = world();
    await turns();
    await one.kept.put(override('first'), 'absent');
    await turns();
    const before = [one.asked.all, other.asked.all];
    for (const id of ['a', 'b', 'c']) await one.kept.put(override(id), 'absent');
    await one.kept.remove([override('b')]);
    await turns();
    expect([one.asked.all, other.asked.all]).toEqual(before);
    expect(other.asked.one).toBeLessThanOrEqual(5);
    for (const { kept } of [one, other]) expect(kept.all.map(({ id }) => id)).toEqual(['first', 'a', 'c']);
    expect(one.uses.at(-1)).toBe('3 now');
    expect(other.uses.at(-1)).toBe('3 soon');
  });

  it('reports changes of a moment as one', async () => {
    const { one, other } = world();
    await turns();
    const ids = Array.from({ length: 50 }, (_, n) => `o${n}`);
    await Promise.all(ids.map((id) => one.kept.put(override(id), 'absent')));
    await turns();
    expect(one.uses.length).toBeLessThanOrEqual(2);
    expect(other.kept.all).toHaveLength(50);
  });

  it('reads all if a message was missed, or does not say what was changed', async () => {
    const { one, other, store } = world();
    await turns();
    await one.kept.put(override('first'), 'absent');
    await turns();
    const [listener] = other.listeners.splice(0);
    await one.kept.put(override('missed'), 'absent');
    await turns();
    expect(other.kept.all).toHaveLength(1);
    other.listeners.push(listener!);
    await one.kept.put(override('notified'), 'absent');
    await turns();
    expect(other.kept.all.map(({ id }) => id)).toEqual(['first', 'missed', 'notified']);
    const all = other.asked.all;
    await store.putRecord('revisions', 'overrides', 'of a former version');
    await store.publish(JSON.stringify({ is: 'overrides', revision: 'of a former version' }));
    await turns();
    expect(other.asked.all).toBe(all + 1);
    await one.kept.put(override('next'), 'absent');
    await turns();
    expect(other.kept.all).toHaveLength(4);
  });

  it('removes no record that another writer put in place of the intended one', async () => {
    const { one, other, store } = world();
    await turns();
    await one.kept.put(override('a'), 'absent');
    await turns();
    const [listener] = other.listeners.splice(0);
    const newer = { ...override('a'), id: 'newer' };
    await one.kept.put(newer, 'always');
    expect(await other.kept.remove([override('a')])).toEqual([]);
    expect((await store.records('overrides')).size).toBe(1);
    other.listeners.push(listener!);
    expect(await one.kept.remove([newer])).toEqual([newer]);
    expect((await store.records('overrides')).size).toBe(0);
  });

  it('has what both of two limiters change at once', async () => {
    const { one, other } = world();
    await turns();
    await Promise.all(
      ['a', 'b', 'c', 'd'].map((id, n) => (n % 2 ? one : other).kept.put(override(id), 'absent')),
    );
    await turns();
    for (const { kept } of [one, other])
      expect(kept.all.map(({ id }) => id).sort()).toEqual(['a', 'b', 'c', 'd']);
  });
});
