import { describe, expect, it } from 'vitest';
import { overrideOf } from './override-objects.ts';

const ready = { type: 'Ready', status: 'True', reason: 'Ready', message: '' };

function object(generation: number, status?: object): object {
  const spec = { domain: 'shop', match: [{ key: 'a', value: 'b' }], block: true, reason: 'x' };
  return {
    metadata: { namespace: 'shops', name: 'o', generation, creationTimestamp: '2026-11-01T00:00:00Z' },
    spec: { ...spec, expiresAt: '2027-01-01T00:00:00Z' },
    ...(status !== undefined && { status }),
  };
}

describe('overrideOf', () => {
  const status = { observedGeneration: 1, conditions: [ready], endsAt: '2026-12-01T00:00:00Z' };

  it.each([
    ['with its status', object(1, status), 'InForce', '2026-12-01T00:00:00Z'],
    ['without the status of an older generation', object(2, status), 'NotObserved', '2027-01-01T00:00:00Z'],
    ['without a status', object(1), 'NoStatus', '2027-01-01T00:00:00Z'],
  ])('shows an object %s', (_, value, state, endsAt) => {
    expect(overrideOf(value)).toMatchObject({ state, endsAt, expiresAt: endsAt, message: '' });
  });

  it('shows the reason why an object that is in force changes nothing', () => {
    const accepted = {
      type: 'Accepted',
      status: 'True',
      reason: 'NoMatchingRule',
      message: 'it has no effect: why',
    };
    const shown = overrideOf(object(1, { ...status, conditions: [accepted, ready] }));
    expect(shown).toMatchObject({ state: 'NoRule', message: 'it has no effect: why' });
  });

  it('has the names of fields of /v1/overrides', () => {
    expect(Object.keys(overrideOf(object(1, status))).sort()).toEqual([
      ...[
        'block',
        'createdAt',
        'createdBy',
        'domain',
        'endsAt',
        'expiresAt',
        'id',
        'limit',
        'limiters',
        'match',
      ],
      ...['message', 'name', 'reason', 'secondsLeft', 'source', 'state'],
    ]);
  });
});
