import { describe, expect, it } from 'vitest';
import type { ConfigStatus } from '../model/config-object.ts';
import { readStatus } from './kubernetes-source.ts';

const accepted = {
  type: 'Accepted',
  status: 'True',
  reason: 'Valid',
  message: 'The rules are valid.',
  lastTransitionTime: '2026-01-01T00:00:00Z',
  observedGeneration: 2,
} as const;

const full: ConfigStatus = {
  observedGeneration: 2,
  domain: 'shop',
  fleet: 'default',
  rules: 3,
  servedVersion: '0123456789abcdef',
  servedGeneration: 2,
  conditions: [accepted],
};

describe('readStatus', () => {
  it('reads a whole status', () => {
    expect(readStatus(structuredClone(full))).toEqual(full);
    expect(readStatus({ ...full, limiters: { summary: '1/1' } })).toEqual(full);
  });

  it.each([
    ['nothing', undefined, undefined],
    ['text', 'Ready', undefined],
    ['an empty status', {}, { observedGeneration: 0, conditions: [] }],
    [
      'a domain of a wrong type',
      { ...full, domain: 5 },
      Object.fromEntries(Object.entries(full).filter(([field]) => field !== 'domain')),
    ],
    [
      'conditions that it does not know',
      { ...full, conditions: [{ ...accepted, type: 'Sunny' }, null, accepted] },
      full,
    ],
    ['conditions that are no list', { ...full, conditions: {} }, { ...full, conditions: [] }],
  ])('makes the best of %s', (_, value, expected) => {
    expect(readStatus(value)).toEqual(expected);
  });
});
