import { describe, expect, it } from 'vitest';
import { Algorithm, algorithmOf } from '../../rules/algorithms/registry.ts';
import { limit as matchedLimit } from '../../test/support/rule-builder.ts';
import { boundOf } from '../decide/windows.ts';
import { countingOf } from './registry.ts';

const unknown = matchedLimit({ algorithm: 7 as Algorithm });

describe('how limiters count', () => {
  it.each(Object.entries(Algorithm))('%s is as its rules say', (_, algorithm) => {
    const limit = matchedLimit({ algorithm, requestsPerUnit: 10 });
    const { steady, maxAtOnce } = algorithmOf(limit);
    const bound = boundOf(limit);
    expect(bound.holdsTotal).toBe(steady === undefined);
    expect(bound.capacity).toBe(maxAtOnce({ requests: 10, burst: 10 }));
    expect(boundOf({ ...limit, requestsPerUnit: 0 }).capacity).toBe(maxAtOnce({ requests: 0, burst: 0 }));
  });

  it('is no way of another algorithm if the number is not known', () => {
    const message = 'there is no algorithm with the number 7';
    expect(() => countingOf(unknown)).toThrow(message);
    expect(() => boundOf(unknown)).toThrow(message);
  });
});
