import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { ExactCounts, expectTrue, hit } from '../../test/support/heavy-keys.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { joinedSummaries } from './space-saving.ts';
import { TopOffenders } from './top-offenders.ts';

let clock: ManualClock;
beforeEach(() => {
  clock = new ManualClock();
});

function offenders(keysPerDomain = 4, maxBytes = 1_000_000): TopOffenders {
  return new TopOffenders({ keysPerDomain, maxBytes, clock });
}

function add(top: TopOffenders, domain: string, key: string, hits = 1): void {
  top.add({ domain, key, hits, rule: `${domain}.k`, shadowMode: false });
}

function keysOf(top: TopOffenders, domain: string): [string, number][] {
  const summaries = top.summariesOf(domain);
  if (summaries.length === 0) return [];
  return joinedSummaries(summaries).keys.map(({ key, count }) => [key, count]);
}

describe('TopOffenders', () => {
  it('keeps the domains apart', () => {
    const top = offenders();
    for (const domain of ['a', 'b', 'a']) add(top, domain, 'k', 2);
    expect(keysOf(top, 'a')).toEqual([['k', 4]]);
    expect(keysOf(top, 'b')).toEqual([['k', 2]]);
    expect(keysOf(top, 'c')).toEqual([]);
    expect(top.topDomains().totals.sort()).toEqual([
      ['a', 4],
      ['b', 2],
    ]);
  });

  it('reports the last one to two periods, and since when', () => {
    const top = offenders();
    const periods: unknown[] = [];
    for (const key of ['first', 'second', 'third', undefined, undefined]) {
      if (key !== undefined) add(top, 'd', key);
      periods.push([top.topDomains().sinceMs, keysOf(top, 'd').map(([name]) => name)]);
      clock.ms += 1_000;
      top.rotate();
    }
    expect(periods).toEqual([
      [0, ['first']],
      [0, ['first', 'second']],
      [1_000, ['second', 'third']],
      [2_000, ['third']],
      [3_000, []],
    ]);
    expect([top.domainCount, top.bytes]).toEqual([0, 0]);
  });

  it('reports nothing wrong about any stream, whenever periods change', () => {
    const step = fc.oneof(
      { weight: 9, arbitrary: hit },
      { weight: 1, arbitrary: fc.constant('rotate' as const) },
    );
    const property = fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const top = offenders(5);
      let periods = [new ExactCounts(), new ExactCounts()];
      for (const one of steps) {
        if (one === 'rotate') {
          top.rotate();
          periods = [periods[1]!, new ExactCounts()];
          continue;
        }
        add(top, 'd', one.key, one.weight);
        periods[1]!.add(one.key, one.weight);
        const exact = new ExactCounts();
        for (const { counts } of periods) for (const [key, weight] of counts) exact.add(key, weight);
        expectTrue(joinedSummaries(top.summariesOf('d')), exact);
      }
    });
    fc.assert(property);
  });

  it('stays within its bytes: domains that were over longest ago leave', () => {
    const top = offenders(4, 10_000);
    add(top, 'regular', 'k');
    for (let n = 0; n < 1_000; n++) {
      add(top, `d${n}`, `key${n}`);
      add(top, 'regular', 'k');
      expect(top.bytes).toBeLessThanOrEqual(10_000);
    }
    expect(keysOf(top, 'regular')).toEqual([['k', 1_001]]);
    expect(keysOf(top, 'd999')).toEqual([['key999', 1]]);
    expect(keysOf(top, 'd0')).toEqual([]);
    expect(top.domainCount + top.dropped).toBe(1_001);
  });

  it('keeps the domain that is over now, whatever it takes', () => {
    const top = offenders(4, 100);
    add(top, 'a', 'k');
    add(top, 'b', 'k');
    expect([keysOf(top, 'a'), keysOf(top, 'b')]).toEqual([[], [['k', 1]]]);
  });

  it('knows its bytes after everything that may happen', () => {
    const step = fc.record({
      domain: fc.constantFrom('a', 'bb', 'ccc', 'rotate'),
      key: fc.string({ maxLength: 9 }),
    });
    const property = fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const top = offenders(3, 3_000);
      for (const { domain, key } of steps) {
        if (domain === 'rotate') top.rotate();
        else add(top, domain, key);
      }
      const texts = top.topDomains().totals.flatMap(([name]) => {
        const keys = top.summariesOf(name).flatMap((summary) => summary.keys);
        return [700 + 2 * name.length, ...keys.map(({ key, rule }) => 192 + 2 * (key.length + rule.length))];
      });
      expect(top.bytes).toBe(texts.reduce((sum, bytes) => sum + bytes, 0));
      top.rotate();
      top.rotate();
      expect([top.domainCount, top.bytes]).toEqual([0, 0]);
    });
    fc.assert(property);
  });

  it('cuts texts of callers that are too long to hold', () => {
    const top = offenders();
    add(top, 'd', 'x'.repeat(100_000));
    expect(top.bytes).toBeLessThan(3_000);
    expect(keysOf(top, 'd')[0]![0]).toMatch(/^x+\.\.\.\(100000 characters, [0-9a-f]+\)$/);
  });
});
