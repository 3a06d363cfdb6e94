import { describe, expect, it } from 'vitest';
import { ApiError } from './api.ts';
import { WatchOutage } from './watch-progress.ts';

const failures = { away: 0, forbidden: 403, unknown: 401, missing: 404, broken: 503 };
const patienceMs = 30_000;

/** Which of these failures in a row are reported. */
function reported(...names: (keyof typeof failures | 'recovered')[]): string[] {
  const outage = new WatchOutage({ denied: undefined }, patienceMs);
  let nowMs = 0;
  return names.filter((name) => {
    if (name === 'recovered') return outage.recovered();
    nowMs += 10_000;
    const error = new ApiError({ status: failures[name], reason: '', message: name });
    return outage.failed(error, { verb: 'list', resource: 'things', reason: name }, nowMs);
  });
}

describe('WatchOutage', () => {
  it('is reported once', () => {
    expect(reported('away', 'away', 'broken', 'away')).toEqual(['away']);
  });

  it('is reported off once', () => {
    expect(reported('recovered', 'away', 'recovered', 'recovered', 'away')).toEqual([
      'away',
      'recovered',
      'away',
    ]);
  });

  it('is reported again when a rejection persists', () => {
    expect(reported('away', 'missing', 'missing', 'missing', 'missing')).toEqual(['away', 'missing']);
  });

  it('is not reported again for rejections of a server that comes up', () => {
    expect(reported('away', 'forbidden', 'broken', 'forbidden', 'missing', 'forbidden')).toEqual(['away']);
  });

  it('is none of a server that does not know users and roles yet', () => {
    expect(reported('unknown', 'forbidden', 'forbidden', 'recovered', 'unknown')).toEqual([]);
  });

  it('is reported once the server has denied for 30 s, at first and after another outage', () => {
    const denied = ['forbidden', 'forbidden', 'forbidden', 'forbidden'] as const;
    expect(reported(...denied)).toEqual(['forbidden']);
    expect(reported('away', ...denied, 'forbidden')).toEqual(['away', 'forbidden']);
  });

  it('shows a rejection at once when it is the first failure', () => {
    expect(reported('missing', 'missing', 'missing', 'missing')).toEqual(['missing']);
  });
});
