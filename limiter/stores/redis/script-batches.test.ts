import { describe, expect, it } from 'vitest';
import { counterOp } from '../../../test/support/counter-ops.ts';
import { FixedWindow } from '../../algorithms/fixed-window.ts';
import { CountBatch, maxKeysPerCall, type PendingRequest, settle } from './script-batches.ts';
import { countScript } from './scripts.ts';

function batchOf(requests: readonly PendingRequest[]): CountBatch {
  const batch = new CountBatch();
  for (const request of requests) batch.add(counterOp({ key: 'k' }), request);
  return batch;
}

describe('settle', () => {
  it('answers a request with the last of its batches, once', () => {
    const answered: string[] = [];
    const request = (name: string): PendingRequest => ({ callsLeft: 0, done: () => answered.push(name) });
    const [split, whole] = [request('split'), request('whole')];
    const batches = [batchOf([split, whole]), batchOf([split])];
    settle(batches[0]!);
    expect(answered).toEqual(['whole']);
    settle(batches[1]!);
    expect(answered).toEqual(['whole', 'split']);
  });

  it('answers the requests behind one that throws, and throws the first error then', () => {
    const answered: string[] = [];
    const throwing = (name: string): PendingRequest => ({
      callsLeft: 0,
      done: () => {
        answered.push(name);
        throw new Error(`fault of ${name}`);
      },
    });
    const batch = batchOf([throwing('a'), throwing('b'), { callsLeft: 0, done: () => answered.push('c') }]);
    expect(() => settle(batch)).toThrow('fault of a');
    expect(answered).toEqual(['a', 'b', 'c']);
  });
});

describe('CountBatch', () => {
  const request: PendingRequest = { callsLeft: 0, done: () => {} };
  const group = (...keys: string[]) =>
    keys.map((key) => counterOp({ key, bound: new FixedWindow(9), groupSize: keys.length }));

  it('takes no group that makes it too large, nor a key that is a plain one there, and stays plain then', () => {
    const batch = new CountBatch();
    for (let i = 0; i < maxKeysPerCall - 1; i += 1) batch.add(counterOp({ key: `k${i}` }), request);
    expect([batch.addGroup(group('a', 'b'), 0, request), batch.addGroup(group('k7'), 0, request)]).toEqual([
      false,
      false,
    ]);
    expect([batch.leaveOutAbandoned(), batch.script]).toEqual([true, countScript]);
  });

  it('makes one step of neighbours that do the same to the same counters', () => {
    const batch = new CountBatch();
    for (const keys of [['a', 'b'], ['a', 'b'], ['c'], ['a', 'b'], ['b'], ['a', 'b']])
      batch.addGroup(group(...keys), 0, request);
    expect(batch.add(counterOp({ key: 'b' }), request)).toBe(false);
    batch.leaveOutAbandoned();
    const args: string[] = [];
    batch.pushArguments(args);
    expect(args.join(' ')).toBe(
      '6 a b c b a b 0 0 fixed 9 2 1 3 1 60 1 60 1 1 1 1 60 1 1 1 1 60 2 1 1 1 60 1 60  ',
    );
  });
});
