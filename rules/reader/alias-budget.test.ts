import { describe, expect, it } from 'vitest';
import { AliasBudget } from '../reader/document-walk.ts';

/** How many nodes pass through aliases, after so many outside of them, before the budget ends. */
function allowed(outside: number, bound: number): number {
  const budget = new AliasBudget();
  for (let i = 0; i < outside; i++) budget.count();
  budget.enter();
  let through = 0;
  while (through < bound && budget.count()) through++;
  return through;
}

describe('AliasBudget', () => {
  it('allows 99% of a small document', () => {
    expect(allowed(1000, 1e6)).toBe(99_000);
  });

  it('allows anything below a thousand nodes', () => {
    expect(allowed(0, 1e6)).toBe(1000);
  });

  it('ends every expansion below 450,000 nodes', () => {
    expect(allowed(10_000, 1e6)).toBeLessThan(450_000);
    expect(allowed(4_000_000, 1e6)).toBeLessThan(450_000);
  });

  it('counts nodes outside of aliases without bound', () => {
    const budget = new AliasBudget();
    budget.enter();
    budget.leave();
    for (let i = 0; i < 5000; i++) expect(budget.count()).toBe(true);
  });
});
