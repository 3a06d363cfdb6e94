import { expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { redisProgram } from '../support/find-server.ts';
import { rejectedValueProblems, rejectValues } from './rejected-values.ts';

describeWithServer('many values over limit', redisProgram, (redisPath) => {
  it('leave nothing in Redis once their windows are over', async () => {
    const values = 2_000;
    const report = await rejectValues({ redisPath, values });
    expect(rejectedValueProblems(report, values)).toEqual([]);
  }, 60_000);
});

it('are distinguished from those that left something', () => {
  expect(rejectedValueProblems({ refused: 10, keysBefore: 1, keysAfter: 1 }, 10)).toEqual([]);
  expect(rejectedValueProblems({ refused: 9, keysBefore: 1, keysAfter: 11 }, 10)).toEqual([
    '1 of 10 values were not refused',
    '10 keys were left in Redis by 10 refused values',
  ]);
});
