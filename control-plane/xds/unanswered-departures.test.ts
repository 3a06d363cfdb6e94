import { describe, expect, it } from 'vitest';
import type { LimiterReport } from '../model/fleet-snapshot.ts';
import { UnansweredDepartures } from './limiter-streams.ts';

function limiter(traits: Partial<LimiterReport> = {}): LimiterReport {
  return {
    id: 'r/1',
    instance: undefined,
    name: 'default (10.0.0.1:4000)',
    fleet: 'default',
    isWeir: false,
    countsCompatibly: true,
    capabilities: [],
    connectedMs: 0,
    acceptedVersion: undefined,
    refusal: undefined,
    ...traits,
  };
}

describe('UnansweredDepartures', () => {
  it('lets a limiter go that leaves once', () => {
    const departures = new UnansweredDepartures();
    expect(departures.left(limiter(), 0)).toBe(0);
    expect(departures.lingering([], 1)).toEqual([]);
  });

  it('continues with one that leaves again, from another port, until it is there or time is up', () => {
    const departures = new UnansweredDepartures();
    departures.left(limiter(), 0);
    const again = limiter({ id: 'r/2', name: 'default (10.0.0.1:4001)' });
    expect(departures.left(again, 10_000)).toBe(15_000);
    expect(departures.lingering([], 24_999)).toEqual([again]);
    expect(departures.lingering([limiter({ name: 'default (10.0.0.1:4002)' })], 20_000)).toEqual([]);
    expect(departures.lingering([], 25_000)).toEqual([]);
  });

  it.each([
    ['another host', { name: 'default (10.0.0.2:4000)' }],
    ['another fleet', { fleet: 'edge' }],
    ['another process', { instance: 'i' }],
  ])('reports %s apart', (_, traits) => {
    const departures = new UnansweredDepartures();
    departures.left(limiter(), 0);
    expect(departures.left(limiter(traits), 1)).toBe(0);
  });

  it('restarts after an answer, and after a minute', () => {
    const departures = new UnansweredDepartures();
    departures.left(limiter(), 0);
    departures.answered(limiter());
    expect(departures.left(limiter(), 1)).toBe(0);
    expect(departures.left(limiter(), 60_001)).toBe(0);
  });

  it('counts a limiter that has to show a new token for 3 s, whoever else leaves', () => {
    const departures = new UnansweredDepartures();
    expect(departures.renewing(limiter(), 0)).toBe(3_000);
    departures.left(limiter({ fleet: 'edge' }), 1);
    expect(departures.lingering([], 2_999)).toEqual([limiter()]);
    expect(departures.lingering([], 3_000)).toEqual([]);
    expect(departures.left(limiter(), 3_001)).toBe(0);
  });
});
