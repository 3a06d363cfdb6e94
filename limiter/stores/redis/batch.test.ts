import { describe, expect, it } from 'vitest';
import { counterOp } from '../../../test/support/counter-ops.ts';
import { FixedWindow } from '../../algorithms/fixed-window.ts';
import { CountPart, type PartKind, StopPart } from './count-parts.ts';
import { Batch, finishBatch, maxKeysPerCall, type PendingSubmit } from './gathered-calls.ts';
import { severalSections } from './lua/program.ts';

const newBatch = () => new Batch((kind: PartKind) => (kind === 'stop' ? new StopPart() : new CountPart()));

function batchOf(requests: readonly PendingSubmit[]): Batch {
  const batch = newBatch();
  for (const request of requests) batch.add([counterOp({ key: 'k' })], 0, 1, 'count', request);
  return batch;
}

describe('finishBatch', () => {
  it('answers a request with the last of its batches, once', () => {
    const answered: string[] = [];
    const request = (name: string): PendingSubmit => ({ callsLeft: 0, done: () => answered.push(name) });
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
      done: () => {
        answered.push(name);
        throw new Error(`fault of ${name}`);
      },
    });
    const batch = batchOf([throwing('a'), throwing('b'), { callsLeft: 0, done: () => answered.push('c') }]);
    expect(() => finishBatch(batch)).toThrow('fault of a');
    expect(answered).toEqual(['a', 'b', 'c']);
  });
});

const group = (...keys: string[]) =>
  keys.map((key) => counterOp({ key, bound: new FixedWindow(9), groupSize: keys.length }));

describe('CountPart', () => {
  it('takes no group that makes it too large, nor a key that is a plain one there, and stays plain then', () => {
    const part = new CountPart();
    for (let i = 0; i < 7; i += 1) part.add([counterOp({ key: `k${i}` })], 0, 1, 9);
    expect([part.add(group('a', 'b'), 0, 2, 1), part.add(group('k6'), 0, 1, 9)]).toEqual([false, false]);
    expect([part.leaveOutAbandoned(), part.section]).toEqual([true, 'count']);
  });

  it('makes one step of neighbours that do the same to the same counters', () => {
    const part = new CountPart();
    for (const keys of [['a', 'b'], ['a', 'b'], ['c'], ['a', 'b'], ['b'], ['a', 'b']])
      part.add(group(...keys), 0, keys.length, 99);
    expect(part.add([counterOp({ key: 'b' })], 0, 1, 99)).toBe(false);
    part.leaveOutAbandoned();
    const args: string[] = [];
    part.pushKeys(args);
    part.pushArguments(args);
    expect(args.join(' ')).toBe(
      'a b c b a b 0 0 fixed 9 2 1 3 60 1 60 1 1 1 1 60 1 1 1 1 60 1 2 1 1 60 1 60 1   0',
    );
  });
});

describe('Batch', () => {
  const request = { callsLeft: 0, done: () => {} };
  const sectionsOf = (batch: Batch): string => {
    const args: string[] = [];
    batch.leaveOutAbandoned();
    batch.pushArguments(args);
    return args.at(-1) === severalSections ? args.at(-2)! : 'one';
  };
  const add = (batch: Batch, kind: PartKind, ...ops: ReturnType<typeof group>) =>
    batch.add(ops, 0, ops.length, kind, request);

  it('has a part for each kind, whatever comes in between', () => {
    const batch = newBatch();
    const plain = (key: string) => counterOp({ key });
    add(batch, 'count', plain('a'));
    expect([sectionsOf(batch), batch.isMixed]).toEqual(['one', false]);
    add(batch, 'stop', plain('b'), plain('c'));
    add(batch, 'count', ...group('d'));
    add(batch, 'stop', plain('e'));
    expect([sectionsOf(batch), batch.isMixed]).toEqual(['bounded 2 9 stop 3 14 ', true]);
  });

  it('lets nothing pass what came before on the same counter', () => {
    const batch = newBatch();
    add(batch, 'count', counterOp({ key: 'a' }));
    add(batch, 'stop', counterOp({ key: 'a' }));
    add(batch, 'count', counterOp({ key: 'a' }));
    add(batch, 'count', counterOp({ key: 'b' }));
    expect(sectionsOf(batch)).toBe('count 1 4 stop 1 5 count 2 7 ');
  });

  it('names no more keys than one call may have', () => {
    const batch = newBatch();
    for (let i = 0; i < maxKeysPerCall - 1; i += 1) add(batch, 'count', counterOp({ key: `k${i}` }));
    expect([
      add(batch, 'stop', counterOp({ key: 'a' }), counterOp({ key: 'b' })),
      add(batch, 'stop', counterOp({ key: 'a' })),
      add(batch, 'count', counterOp({ key: 'b' })),
      add(batch, 'count', counterOp({ key: 'k1' })),
    ]).toEqual([false, true, false, true]);
  });
});
