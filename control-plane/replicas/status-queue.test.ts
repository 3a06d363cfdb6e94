import { describe, expect, it } from 'vitest';
import { configObject } from '../../test/support/config-object-builder.ts';
import type { ConfigObject, ConfigStatus } from '../model/config-object.ts';
import type { StatusWrite } from '../model/write-ledger.ts';
import { StatusQueue } from './status-queue.ts';

type ConfigWrite = StatusWrite<ConfigObject>;

function status(rules: number): ConfigStatus {
  return { observedGeneration: 1, rules, conditions: [] };
}

/** Nobody has changed it since its status was written. */
function settled(name: string): ConfigObject {
  return configObject({ name, status: status(0) });
}

/** It says so of its present generation. */
function ready(name: string): ConfigObject {
  const lastTransitionTime = '2026-01-02T03:04:05Z';
  const fields = { reason: 'Ready', message: '', lastTransitionTime, observedGeneration: 1 };
  const conditions = [{ type: 'Ready', status: 'True', ...fields } as const];
  return configObject({ name, status: { ...status(0), conditions } });
}

function changed(name: string): ConfigObject {
  return { ...settled(name), generation: 2 };
}

function offer(queue: StatusQueue<ConfigWrite>, object: ConfigObject, next: ConfigStatus): void {
  queue.offer({ object, status: next });
}

/** Takes and finishes what may be written at that time. */
function drain(queue: StatusQueue<ConfigWrite>, nowMs: number): string[] {
  const names: string[] = [];
  for (let entry = queue.next(nowMs); entry !== undefined; entry = queue.next(nowMs)) {
    names.push(`${entry.object.name}${entry.status.rules}`);
    queue.done(entry.object.uid);
  }
  return names;
}

const plenty = { writesPerSecond: 1_000 };

describe('StatusQueue', () => {
  it('gives those first that say Ready=True and are wrong, then new generations, then those that wait longest', () => {
    const queue = new StatusQueue<ConfigWrite>(plenty);
    offer(queue, settled('a'), status(1));
    offer(queue, ready('still'), ready('still').status!);
    offer(queue, settled('b'), status(1));
    offer(queue, changed('c'), status(1));
    offer(queue, { ...ready('newer'), generation: 2 }, status(1));
    offer(queue, configObject({ name: 'new' }), status(1));
    offer(queue, ready('wrong'), status(1));
    expect(queue.size).toBe(7);
    expect(drain(queue, 0)).toEqual(['wrong1', 'c1', 'newer1', 'new1', 'a1', 'still0', 'b1']);
    expect(queue.size).toBe(0);
  });

  it('lets namespaces take turns within a rank, so that many changes of one delay no other', () => {
    const queue = new StatusQueue<ConfigWrite>(plenty);
    const within = (namespace: string, object: ConfigObject): ConfigObject => ({ ...object, namespace });
    for (const name of ['a', 'b', 'c', 'd', 'e']) offer(queue, within('busy', settled(name)), status(1));
    offer(queue, within('first', settled('f')), status(1));
    offer(queue, within('second', settled('s')), status(1));
    offer(queue, within('busy', changed('g')), status(1));
    offer(queue, within('busy', changed('h')), status(1));
    offer(queue, within('first', changed('i')), status(1));
    queue.withdraw(settled('b').uid);
    offer(queue, within('second', settled('s')), status(2));
    expect(drain(queue, 0)).toEqual(['g1', 'i1', 'h1', 'a1', 'f1', 's2', 'c1', 'd1', 'e1']);
  });

  it('gives a namespace whose statuses are offered while it waits for its turn no second turn', () => {
    const queue = new StatusQueue<ConfigWrite>(plenty);
    const within = (namespace: string, name: string): ConfigObject => ({ ...settled(name), namespace });
    const order: string[] = [];
    offer(queue, within('busy', 'a'), status(1));
    offer(queue, within('other', 'x'), status(1));
    offer(queue, within('other', 'y'), status(1));
    for (let entry = queue.next(0); entry !== undefined; entry = queue.next(0)) {
      const { name, namespace, uid } = entry.object;
      order.push(name);
      queue.done(uid);
      if (namespace === 'busy' && order.length < 6) offer(queue, within('busy', `${name}a`), status(1));
    }
    expect(order).toEqual(['a', 'x', 'aa', 'y', 'aaa', 'aaaa']);
    expect([queue.size, queue.nextDueMs(0)]).toEqual([0, undefined]);
  });

  it('replaces what waits without moving it back', () => {
    const queue = new StatusQueue<ConfigWrite>(plenty);
    offer(queue, settled('a'), status(1));
    offer(queue, settled('b'), status(1));
    offer(queue, settled('a'), status(2));
    expect(drain(queue, 0)).toEqual(['a2', 'b1']);
  });

  it('moves an object to the front when a user changes it', () => {
    const queue = new StatusQueue<ConfigWrite>(plenty);
    offer(queue, settled('a'), status(1));
    offer(queue, settled('b'), status(1));
    offer(queue, changed('b'), status(2));
    expect(drain(queue, 0)).toEqual(['b2', 'a1']);
  });

  it('says which statuses are being written', () => {
    const queue = new StatusQueue<ConfigWrite>(plenty);
    const a = settled('a');
    offer(queue, a, status(1));
    expect(queue.next(0)?.status).toEqual(status(1));
    expect([queue.inFlight.has(a.uid), queue.size, queue.nextDueMs(0)]).toEqual([true, 0, undefined]);
    queue.done(a.uid);
    expect(queue.inFlight.has(a.uid)).toBe(false);
  });

  it('forgets what is withdrawn, and everything when it is cleared', () => {
    const queue = new StatusQueue<ConfigWrite>(plenty);
    for (const object of [settled('a'), changed('b'), settled('c'), changed('d')])
      offer(queue, object, status(1));
    queue.withdraw(settled('a').uid);
    queue.withdraw(changed('b').uid);
    expect(queue.size).toBe(2);
    queue.clear();
    expect(drain(queue, 0)).toEqual([]);
  });

  it('stays within the budget whatever is offered', () => {
    const queue = new StatusQueue<ConfigWrite>({ writesPerSecond: 50 });
    for (let index = 0; index < 500; index++) offer(queue, settled(`o${index}`), status(1));
    let nowMs = 1_000;
    const times: number[] = [];
    for (let waitMs = queue.nextDueMs(nowMs); waitMs !== undefined; waitMs = queue.nextDueMs(nowMs)) {
      nowMs += waitMs;
      expect(queue.next(nowMs)).toBeDefined();
      times.push(nowMs);
    }
    expect(times).toHaveLength(500);
    // A fifth of a second's writes at once, then one in 20 ms.
    expect(times.filter((time) => time === 1_000)).toHaveLength(10);
    expect(times.at(-1)).toBe(1_000 + 490 * 20);
  });

  it('says how long to wait', () => {
    const queue = new StatusQueue<ConfigWrite>({ writesPerSecond: 2 });
    expect(queue.nextDueMs(0)).toBeUndefined();
    for (const name of ['a', 'b']) offer(queue, settled(name), status(1));
    expect(queue.nextDueMs(0)).toBe(0);
    expect(drain(queue, 0)).toEqual(['a1']);
    expect(queue.nextDueMs(100)).toBe(400);
    expect(queue.next(499)).toBeUndefined();
    expect(drain(queue, 500)).toEqual(['b1']);
  });

  it('writes once in two seconds when reported so', () => {
    const queue = new StatusQueue<ConfigWrite>({ writesPerSecond: 0.5 });
    for (const name of ['a', 'b']) offer(queue, settled(name), status(1));
    expect(drain(queue, 0)).toEqual(['a1']);
    expect(queue.nextDueMs(0)).toBe(2_000);
  });
});
