import { describe, expect, it } from 'vitest';
import { Budget } from './limits.ts';

const spends = (budget: Budget, count: number, nowMs: number, served = 0) =>
  Array.from({ length: count }, () => budget.spend(1, nowMs, served)).filter(Boolean).length;

describe('a budget', () => {
  it('allows the burst and no more', () => {
    expect(spends(new Budget({ burst: 5, perRequest: 1, perSecond: 1 }, 0), 9, 0)).toBe(5);
  });

  it('is refilled by requests, up to the burst', () => {
    const budget = new Budget({ burst: 5, perRequest: 2, perSecond: 0 }, 0);
    expect(spends(budget, 6, 0, 10)).toBe(5);
    expect(spends(budget, 3, 0, 11)).toBe(1);
    expect(spends(budget, 3, 0, 12)).toBe(0);
    expect(spends(budget, 9, 0, 20)).toBe(5);
  });

  it('is refilled by time, up to the burst', () => {
    const budget = new Budget({ burst: 5, perRequest: 0, perSecond: 2 }, 0);
    expect(spends(budget, 5, 0)).toBe(5);
    expect(spends(budget, 3, 1000)).toBe(2);
    expect(spends(new Budget({ burst: 5, perRequest: 0, perSecond: 2 }, 0), 9, 100_000)).toBe(5);
  });

  it('does not mind a clock that goes back', () => {
    const budget = new Budget({ burst: 2, perRequest: 0, perSecond: 1 }, 1000);
    expect(spends(budget, 3, 0)).toBe(2);
  });
});
