import { describe, expect, it } from 'vitest';
import { counterOp } from '../../../test/support/counter-ops.ts';
import { CountBatch, type PendingRequest, settle } from './script-batches.ts';

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
