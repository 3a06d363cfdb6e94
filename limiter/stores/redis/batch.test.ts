import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { counterOp } from '../../../test/support/counter-ops.ts';
import {
  countersOf,
  operationsOf,
  type ReservedCounter,
  reserveCall,
  reservedCounter,
  settleCall,
  type TestCall,
} from '../../../test/support/reservation-calls.ts';
import { FixedWindow } from '../../algorithms/fixed-window.ts';
import { callAbandoned } from '../operation.ts';
import { StoreError } from '../store-error.ts';
import { CountPart, type PartKind, type PartTerms, StopPart } from './count-parts.ts';
import { severalSections } from './lua/program.ts';
import { ReservationPart } from './reservation-part.ts';
import { Batch, finishBatch, maxKeysPerCall, type PendingSubmit } from './turn-batches.ts';
import { RedisErrors } from './wire/redis-error.ts';
import { ReplyError } from './wire/resp.ts';

const terms: PartTerms = {
  names: { prefix: '', isCluster: false },
  reservations: { maxReservations: 9, recordMs: 1 },
};
const newBatch = () => new Batch(terms);

function batchOf(requests: readonly PendingSubmit[]): Batch {
  const batch = newBatch();
  for (const request of requests) batch.add([counterOp({ key: 'k' })], 0, 1, CountPart, request);
  return batch;
}

describe('finishBatch', () => {
  it('answers a request with the last of its batches, once', () => {
    const answered: string[] = [];
    const request = (name: string): PendingSubmit => ({
      callsLeft: 0,
      caller: undefined,
      done: () => answered.push(name),
    });
    const [split, whole] = [request('split'), request('whole')];
    const batches = [batchOf([split, whole]), batchOf([split])];
    finishBatch(batches[0]!);
    expect(answered).toEqual(['whole']);
    finishBatch(batches[1]!);
    expect(answered).toEqual(['whole', 'split']);
  });

  it('answers the requests behind one that throws, and throws the first error then', () => {
    const answered: string[] = [];
    const throwing = (name: string): PendingSubmit => ({
      callsLeft: 0,
      caller: undefined,
      done: () => {
        answered.push(name);
        throw new Error(`fault of ${name}`);
      },
    });
    const last = { callsLeft: 0, caller: undefined, done: () => answered.push('c') };
    const batch = batchOf([throwing('a'), throwing('b'), last]);
    expect(() => finishBatch(batch)).toThrow('fault of a');
    expect(answered).toEqual(['a', 'b', 'c']);
  });
});

const group = (...keys: string[]) =>
  keys.map((key) => counterOp({ key, bound: new FixedWindow(9), groupSize: keys.length }));

describe('CountPart', () => {
  it('takes no group that makes it too large, nor a key that is a plain one there, and stays plain then', () => {
    const part = new CountPart(terms);
    for (let i = 0; i < 7; i += 1) part.add([counterOp({ key: `k${i}` })], 0, 1, 9);
    expect([part.add(group('a', 'b'), 0, 2, 1), part.add(group('k6'), 0, 1, 9)]).toEqual([false, false]);
    part.pushKeys([]);
    expect(part.section).toBe('count');
  });

  it('makes one step of neighbors that do the same to the same counters', () => {
    const part = new CountPart(terms);
    for (const keys of [['a', 'b'], ['a', 'b'], ['c'], ['a', 'b'], ['b'], ['a', 'b']])
      part.add(group(...keys), 0, keys.length, 99);
    expect(part.add([counterOp({ key: 'b' })], 0, 1, 99)).toBe(false);
    const args: string[] = [];
    part.pushKeys(args);
    part.pushArguments(args);
    expect(args.join(' ')).toBe(
      'a b c b a b 0 0 fixed 9 2 1 3 60 1 60 1 1 1 1 60 1 1 1 1 60 1 2 1 1 60 1 60 1   0',
    );
  });
});

describe('CountPart, answered', () => {
  const errors = new RedisErrors({ timeoutMs: 1000, password: undefined });
  const timeMicros = 1_800_000_000_000_000;
  /** Sends the groups, and returns whether the part takes the reply for an answer. */
  const answered = (reply: unknown, ...groups: ReturnType<typeof group>[]) => {
    const part = new CountPart(terms);
    for (const ops of groups) part.add(ops, 0, ops.length, 99);
    part.pushKeys([]);
    part.pushArguments([]);
    return part.answer(reply, errors);
  };

  it('knows which limits of which groups reservations may have filled', () => {
    const groups = [group('a', 'b'), group('a', 'b'), group('c'), group('d')];
    const held = Buffer.from('9 9 9 9 ');
    expect(answered([held, timeMicros, Buffer.from('2 1 3 2 ')], ...groups)).toBe(true);
    expect(groups.flat().map(({ key, mayReturn, hasExpired }) => [key, mayReturn, hasExpired])).toEqual([
      ...['a', 'b', 'a', 'b'].map((key) => [key, key === 'b', false]),
      ['c', false, true],
      ['d', false, false],
    ]);
  });

  const full = [9, new ReplyError('OOM command not allowed')];
  it.each<[string, unknown, boolean]>([
    ['a total', [3], true],
    ['a total, and a report', [3, Buffer.from('1 1 ')], true],
    ['a report with something before it', [3, Buffer.from('x1 1 ')], false],
    ['a report with something behind it', [3, Buffer.from('1 1 x')], false],
    ['a report and more', [3, Buffer.from('1 1 '), 4], false],
    ['what a full Redis has', [full], true],
    ['what a full Redis has, and no error', [[9, 9]], false],
    ['what a full Redis has, and no total', [['x', full[1]]], false],
    ['what a full Redis has, and more', [[...full, 1]], false],
    ['no list', 3, false],
  ])('takes or leaves %s', (_, reply, isAnswer) => {
    expect(answered(reply, [counterOp({ key: 'k' })])).toBe(isAnswer);
  });
});

describe('ReservationPart', () => {
  /** Returns the argument with the shapes of these calls. */
  const shapesOf = (...calls: TestCall[]): string => {
    const part = new ReservationPart(terms);
    for (const call of calls) part.add(operationsOf(call));
    const args: string[] = [];
    part.pushKeys([]);
    part.pushArguments(args);
    return args.at(-2)!;
  };

  const common = { isMarker: true, descriptors: 1 };
  const counter = { stem: 'a', amount: 1, isQuota: false, isShadow: false };
  it.each<[string, Partial<TestCall>, Partial<ReservedCounter>, string]>([
    ['no marker', { isMarker: false }, {}, 'r - 1 1 1 1 0 - 0 3600000 r'],
    ['a note', { note: 'n' }, {}, 'r mn 1 1 1 1 0 - 0 3600000 r'],
    ['a quota that passes', { otherQuotaPasses: true }, {}, 'r mq 1 1 1 1 0 - 0 3600000 r'],
    ['a rejection elsewhere', { isOverLimitElsewhere: true }, {}, 'r mx 1 1 1 1 0 - 0 3600000 r'],
    ['more descriptors', { descriptors: 2 }, {}, 'r m 1 1 2 1 0 - 0 3600000 r'],
    ['another window', {}, { key: 'a3600:7' }, 'r m 1 1 1 1 7 - 0 3600000 r'],
    ['a quota', {}, { isQuota: true }, 'r m 1 1 1 1 0 -q 0 3600000 r'],
    ['shadow mode', {}, { isShadow: true }, 'r m 1 1 1 1 0 -s 0 3600000 r'],
    ['another group', {}, { group: 3 }, 'r m 1 1 1 1 0 - 3 3600000 r'],
    ['another TTL', {}, { ttlMs: 5 }, 'r m 1 1 1 1 0 - 0 5 r'],
    ['a charge on expiry', {}, { onExpiry: 'charge' }, 'r m 1 1 1 1 0 - 0 3600000 c'],
    ['another bound', {}, { bound: new FixedWindow(11) }, 'r m 1 1 1 2 0 - 0 3600000 r'],
  ])('gives a call with %s a shape of its own, whatever came before', (_, given, of, shape) => {
    const alike = reserveCall({ id: 'r', counters: [reservedCounter(counter)], ...common });
    const other = reserveCall({
      id: 's',
      counters: [reservedCounter({ ...counter, ...of })],
      ...common,
      ...given,
    });
    const first = 'r m 1 1 1 1 0 - 0 3600000 r';
    expect(shapesOf(alike, alike, other, alike)).toBe(`${first};${shape}`);
    expect(shapesOf(alike)).toBe(first);
    // A lone call has the first bound.
    expect(shapesOf(other)).toBe(shape.replace('1 1 1 2 0', '1 1 1 1 0'));
  });

  it.each<[string, Partial<TestCall>, string]>([
    ['a charge for an unknown id', { unknown: 'charge' }, 's -c 1 1 0 1 0 - 0 3600000 r'],
    ['no trace', { undoes: true }, 's -u 1 1 0 1 0 - 0 3600000 r'],
  ])('gives a commit with %s a shape of its own', (_, its, shape) => {
    const commit = (given: Partial<TestCall>) =>
      settleCall({ id: 'r', counters: [reservedCounter(counter)], ...given });
    const calls = [commit({}), commit(its), commit({})];
    expect(shapesOf(...calls)).toBe(`s - 1 1 0 1 0 - 0 3600000 r;${shape}`);
  });
});

describe('Batch', () => {
  const sectionsOf = (batch: Batch): string => {
    const args: string[] = [];
    batch.leaveOutAbandoned();
    batch.pushArguments(args);
    return args.at(-1) === severalSections ? args.at(-2)! : 'one';
  };
  const add = (batch: Batch, kind: PartKind, ...ops: ReturnType<typeof group>) =>
    batch.add(ops, 0, ops.length, kind, { callsLeft: 0, caller: ops[0]!.caller, done: () => {} });

  it('has a part for each kind, whatever comes in between', () => {
    const batch = newBatch();
    const plain = (key: string) => counterOp({ key });
    add(batch, CountPart, plain('a'));
    expect([sectionsOf(batch), batch.isMixed]).toEqual(['one', false]);
    add(batch, StopPart, plain('b'), plain('c'));
    add(batch, CountPart, ...group('d'));
    add(batch, StopPart, plain('e'));
    expect([sectionsOf(batch), batch.isMixed]).toEqual(['bounded 2 9 stop 3 14 ', true]);
  });

  it('lets nothing pass what came before on the same counter', () => {
    const batch = newBatch();
    add(batch, CountPart, counterOp({ key: 'a' }));
    add(batch, StopPart, counterOp({ key: 'a' }));
    add(batch, CountPart, counterOp({ key: 'a' }));
    add(batch, CountPart, counterOp({ key: 'b' }));
    expect(sectionsOf(batch)).toBe('count 1 4 stop 1 5 count 2 7 ');
  });

  it('leaves out those whose callers gave up, and their keys', () => {
    const given = { abandoned: true };
    const batch = newBatch();
    const ops = (...keys: string[]) => group(...keys);
    const gone = (...keys: string[]) => ops(...keys).map((op) => Object.assign(op, { caller: given }));
    const left = [gone('a', 'b'), gone('c'), gone('d'), [counterOp({ key: 'e', caller: given })]];
    const kept = [ops('f'), ops('a', 'b'), ops('a', 'b'), ops('c')];
    for (const one of [kept[0]!, left[0]!, ...kept.slice(1), ...left.slice(1)]) add(batch, CountPart, ...one);
    expect(sectionsOf(batch)).toBe('one');
    expect(left.flat().map(({ error }) => error)).toEqual(left.flat().map(() => callAbandoned));
    const args: string[] = [];
    batch.pushArguments(args);
    expect(args.slice(1).join(' ')).toBe(
      '4 f a b c 0 0 fixed 9 1 1 1 60 1 2 1 2 60 1 60 1 1 1 1 60 1   0 bounded',
    );
    for (const op of kept.flat()) op.caller = given;
    expect(batch.leaveOutAbandoned()).toBe(false);
  });

  it('leaves out what callers gave up, but no commit, whose amount was used', () => {
    const batch = newBatch();
    const caller = { abandoned: true };
    const given = { id: 'r', caller, counters: countersOf(['1{a}'], { amount: 1 }) };
    const calls = [reserveCall(given), settleCall(given)].map(operationsOf);
    for (const call of calls) add(batch, ReservationPart, ...call);
    expect(batch.leaveOutAbandoned()).toBe(true);
    expect(calls.flat().map(({ error }) => error)).toEqual([callAbandoned, undefined]);
  });

  it('keeps all others, whatever it has', () => {
    const key = fc.constantFrom('a', 'b', 'c');
    const plain = fc.record({ kind: fc.constant(CountPart), keys: fc.tuple(key), isGone: fc.boolean() });
    const whole = fc.record({
      kind: fc.constant(StopPart),
      keys: fc.uniqueArray(key, { minLength: 1 }),
      isGone: fc.boolean(),
    });
    const groups = fc.constantFrom(['d'], ['e'], ['d', 'e']);
    const bound = fc.record({ kind: fc.constant(CountPart), keys: groups, isGone: fc.boolean() });
    const error = new StoreError('failed', { transient: false });
    fc.assert(
      fc.property(fc.array(fc.oneof(plain, whole, bound), { maxLength: 12 }), (list) => {
        const batch = newBatch();
        const added = list.map(({ kind, keys, isGone }) => {
          const hasBound = keys.some((one) => one > 'c');
          const ops = hasBound ? group(...keys) : keys.map((one) => counterOp({ key: one }));
          for (const op of ops) op.caller = { abandoned: isGone };
          add(batch, kind, ...ops);
          return { ops, isGone };
        });
        expect(batch.leaveOutAbandoned()).toBe(list.length === 0 || list.some(({ isGone }) => !isGone));
        batch.fail(error);
        for (const { ops, isGone } of added)
          for (const op of ops) expect(op.error).toBe(isGone ? callAbandoned : error);
      }),
    );
  });

  it('asks each caller once, so that no part of a request is left out alone', () => {
    let asked = 0;
    const caller = {
      get abandoned() {
        asked += 1;
        return asked > 1;
      },
    };
    const batch = newBatch();
    const ops = group('a', 'b').map((op) => Object.assign(op, { caller }));
    add(batch, CountPart, ...ops);
    expect(batch.leaveOutAbandoned()).toBe(true);
    expect([asked, ...ops.map(({ error }) => error)]).toEqual([1, undefined, undefined]);
  });

  it('takes no reply with another number of answers than it has parts', () => {
    const errors = new RedisErrors({ timeoutMs: 1000, password: undefined });
    const batch = newBatch();
    add(batch, CountPart, counterOp({ key: 'a' }));
    add(batch, StopPart, counterOp({ key: 'a' }));
    batch.pushArguments([]);
    for (const reply of [[[1]], [[1], [2], [3]], 1]) expect(batch.answer(reply, errors)).toBe(false);
    expect(batch.answer([[1], [2]], errors)).toBe(true);
  });

  it('names no more keys than one call may have', () => {
    const batch = newBatch();
    for (let i = 0; i < maxKeysPerCall - 1; i += 1) add(batch, CountPart, counterOp({ key: `k${i}` }));
    expect([
      add(batch, StopPart, counterOp({ key: 'a' }), counterOp({ key: 'b' })),
      add(batch, StopPart, counterOp({ key: 'a' })),
      add(batch, CountPart, counterOp({ key: 'b' })),
      add(batch, CountPart, counterOp({ key: 'k1' })),
    ]).toEqual([false, true, false, true]);
  });
});
