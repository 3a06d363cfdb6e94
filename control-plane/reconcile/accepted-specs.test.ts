import { describe, expect, it } from 'vitest';
import type { LastAcceptedSpec } from '../model/decision.ts';
import { newerAcceptedSpec } from './accepted-specs.ts';

describe('newerAcceptedSpec', () => {
  const old = { generation: 1, spec: 'one' };
  it.each([
    ['takes what is newer', { generation: 2, spec: 'two' }, { generation: 3, spec: 'three' }, undefined],
    [
      'takes what limiters keep that know less',
      { generation: 2, spec: 'two' },
      old,
      { generation: 2, spec: 'two', fallback: old },
    ],
    [
      'takes it of two as well',
      { generation: 3, spec: 'three' },
      { generation: 2, spec: 'two', fallback: old },
      { generation: 3, spec: 'three', fallback: old },
    ],
    [
      'takes the newer of two fallbacks',
      { generation: 4, spec: 'four', fallback: old },
      { generation: 3, spec: 'three' },
      { generation: 4, spec: 'four', fallback: { generation: 3, spec: 'three' } },
    ],
    [
      'has the fallback that was stored with the same generation',
      { generation: 3, spec: 'three', fallback: { generation: 2, spec: 'two' } },
      { generation: 3, spec: 'three', fallback: old },
      { generation: 3, spec: 'three', fallback: old },
    ],
    [
      'has no fallback if the same generation was stored without one',
      { generation: 3, spec: 'three', fallback: old },
      { generation: 3, spec: 'three' },
      { generation: 3, spec: 'three', fallback: undefined },
    ],
    [
      'knows better than what was stored before',
      { generation: 3, spec: 'three', fallback: { generation: 2, spec: 'two' } },
      old,
      { generation: 3, spec: 'three', fallback: { generation: 2, spec: 'two' } },
    ],
  ])('%s', (_, known, stored, joined: LastAcceptedSpec = stored) => {
    expect(newerAcceptedSpec(known, stored)).toEqual(joined);
    expect(newerAcceptedSpec(undefined, stored)).toBe(stored);
  });
});
