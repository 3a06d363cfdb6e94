import { describe, expect, it } from 'vitest';
import { ApiError } from './api-error.ts';
import { WatchOutage } from './watch.ts';

const failures = { away: 0, forbidden: 403, missing: 404, broken: 503 };

/** Which of these failures in a row are told. */
function told(...names: (keyof typeof failures | 'recovered')[]): string[] {
  const outage = new WatchOutage();
  return names.filter((name) => {
    if (name === 'recovered') return outage.recovered();
    return outage.failed(new ApiError({ status: failures[name], reason: '', message: name }), name);
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
    expect(told('away', 'forbidden', 'forbidden', 'forbidden', 'forbidden')).toEqual(['away', 'forbidden']);
  });

  it('is not told again for refusals of a server that comes up', () => {
    expect(told('away', 'forbidden', 'broken', 'forbidden', 'missing', 'forbidden')).toEqual(['away']);
  });

  it('tells a refusal at once when it is the first failure', () => {
    expect(told('missing', 'missing', 'missing', 'missing')).toEqual(['missing']);
  });
});
