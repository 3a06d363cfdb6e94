import { describe, expect, it } from 'vitest';
import { ConnectionAge } from './socket-server.ts';

const ages = { maxAgeMs: 1_000, graceMs: 100 };

describe('ConnectionAge', () => {
  it.each([
    [0, 900],
    [0.5, 1_000],
    [0.75, 1_050],
  ])('ends a connection up to a tenth sooner or later: random %d', (random, drainMs) => {
    const age = new ConnectionAge(ages, 5_000, random);
    expect(age.due(5_000 + drainMs - 1)).toBe('nothing');
    expect(age.due(5_000 + drainMs)).toBe('drain');
  });

  it('cuts it after the grace, which begins when it was reported', () => {
    const age = new ConnectionAge(ages, 0, 0.5);
    expect(age.due(1_500)).toBe('drain');
    expect(age.due(1_500)).toBe('nothing');
    expect(age.due(1_599)).toBe('nothing');
    expect(age.due(1_600)).toBe('cut');
    expect(age.due(1_601)).toBe('nothing');
  });

  it('has no end if none is set', () => {
    const year = 365 * 24 * 3_600_000;
    expect(new ConnectionAge({ maxAgeMs: Infinity, graceMs: 1 }, 0, 0).due(year)).toBe('nothing');
    const patient = new ConnectionAge({ maxAgeMs: 1_000, graceMs: Infinity }, 0, 0);
    expect([patient.due(1_000), patient.due(year)]).toEqual(['drain', 'nothing']);
  });
});
