import { describe, expect, it } from 'vitest';
import { ApiError } from './api-error.ts';
import { WatchOutage } from './watch.ts';

const failures = { away: 0, forbidden: 403, unknown: 401, missing: 404, broken: 503 };
const patienceMs = 30_000;

/** Which of these failures in a row are told. */
function told(...names: (keyof typeof failures | 'recovered')[]): string[] {
  const outage = new WatchOutage(patienceMs);
  let nowMs = 0;
  return names.filter((name) => {
    if (name === 'recovered') return outage.recovered();
    nowMs += 10_000;
    const error = new ApiError({ status: failures[name], reason: '', message: name });
    return outage.failed(error, name, nowMs);
  });
}

describe('WatchOutage', () => {
  it('is told once', () => {
    expect(told('away', 'away', 'broken', 'away')).toEqual(['away']);
  });

  it('is told off once', () => {
    expect(told('recovered', 'away', 'recovered', 'recovered', 'away')).toEqual([
      'away',
      'recovered',
      'away',
    ]);
  });

  it('is told again when a refusal came to stay', () => {
    expect(told('away', 'missing', 'missing', 'missing', 'missing')).toEqual(['away', 'missing']);
  });

  it('is not told again for refusals of a server that comes up', () => {
    expect(told('away', 'forbidden', 'broken', 'forbidden', 'missing', 'forbidden')).toEqual(['away']);
  });

  it('is none of a server that does not know users and roles yet', () => {
    expect(told('unknown', 'forbidden', 'forbidden', 'recovered', 'unknown')).toEqual([]);
  });

  it('is told once the server has denied for 30 s, at first and after another outage', () => {
    const denied = ['forbidden', 'forbidden', 'forbidden', 'forbidden'] as const;
    expect(told(...denied)).toEqual(['forbidden']);
    expect(told('away', ...denied, 'forbidden')).toEqual(['away', 'forbidden']);
  });

  it('tells a refusal at once when it is the first failure', () => {
    expect(told('missing', 'missing', 'missing', 'missing')).toEqual(['missing']);
  });
});
