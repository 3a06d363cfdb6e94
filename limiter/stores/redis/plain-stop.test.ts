import { describe, expect, it } from 'vitest';
import { counterOp } from '../../../test/support/counter-ops.ts';
import { StoreError } from '../store-error.ts';
import { PlainStop } from './plain-counting.ts';

/** Judges requests with the given totals, and applies every run to them. */
function judged(requests: ReturnType<typeof counterOp>[][], totals: Record<string, number | StoreError>) {
  const stop = new PlainStop(requests);
  for (const [key, total] of Object.entries(totals)) stop.totals.set(key, total);
  const runs = stop.judge();
  for (const run of runs) run.answer(totals[run.key] as number);
  stop.answer();
  const answers = requests.map((ops) => ops.map((op) => [op.applied, op.after, op.error]));
  return { counted: runs.map((run) => run.key), answers };
}

describe('PlainStop', () => {
  it('asks for the total of every key once', () => {
    const stop = new PlainStop([
      [counterOp({ key: 'a' }), counterOp({ key: 'b' })],
      [counterOp({ key: 'a' })],
    ]);
    expect([...stop.totals.keys()]).toEqual(['a', 'b']);
  });

  it('counts only what would be over, and leaves the others as they were looked at', () => {
    const request = [counterOp({ key: 'full', limit: 2 }), counterOp({ key: 'free', limit: 9 })];
    expect(judged([request], { full: 2, free: 5 })).toEqual({
      counted: ['full'],
      answers: [
        [
          [1, 3, undefined],
          [0, 5, undefined],
        ],
      ],
    });
  });

  it('judges each request by what those before it leave', () => {
    const request = () => [counterOp({ key: 'shared', limit: 2 }), counterOp({ key: 'own', limit: 9 })];
    const { answers } = judged([request(), request(), request()], { shared: 0, own: 0 });
    expect(answers.map((ops) => ops.map(([, after]) => after))).toEqual([
      [1, 1],
      [2, 2],
      [3, 2],
    ]);
  });

  it('fails the ops of a key whose total is not known, and counts the others', () => {
    const error = new StoreError('no', { transient: true });
    const request = [counterOp({ key: 'bad' }), counterOp({ key: 'good' })];
    expect(judged([request], { bad: error, good: 4 })).toEqual({
      counted: ['good'],
      answers: [
        [
          [0, 0, error],
          [1, 5, undefined],
        ],
      ],
    });
  });
});
