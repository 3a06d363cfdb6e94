import { describe, expect, it } from 'vitest';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { compileRules } from './compile-rules.ts';
import {
  compilePairIndex,
  hashSeed,
  hashText,
  hashTextBackwards,
  hashUnit,
  PairIndex,
} from './pair-index.ts';
import { RuleTable } from './rule-table.ts';

/** Two texts of two code units which, appended to a text of the given hash, give one hash. */
function collision(hash: number): [string, string] {
  const firstUnits = new Map<number, number>();
  for (let unit = 0x100; unit < 0xd800; unit++) {
    if (unit === 0x2a) continue;
    const high = hashUnit(hash, unit) >>> 16;
    const other = firstUnits.get(high);
    if (other !== undefined) {
      const difference = (hashUnit(hash, unit) ^ hashUnit(hash, other)) & 0xffff;
      return [String.fromCharCode(unit, 0x61), String.fromCharCode(other, 0x61 ^ difference)];
    }
    firstUnits.set(high, unit);
  }
  throw new Error('no collision found');
}

function tableOf(domain: string, key: string, values: string[]): RuleTable {
  const rules = values.map((value) => rule({ key, value, rateLimit: limit() }));
  return new RuleTable(compileRules([source(domain, rules)]));
}

describe('texts with one hash', () => {
  const [a, b] = collision(hashText(hashSeed, 'k_'));

  it('are distinguished as values', () => {
    expect(hashText(hashSeed, `k_${a}`)).toBe(hashText(hashSeed, `k_${b}`));
    const both = tableOf('d', 'k', [a, b]);
    for (const value of [a, b])
      expect(both.match('d', [{ key: 'k', value }])?.metricKey).toBe(`d.k_${value}`);
    expect(tableOf('d', 'k', [a]).match('d', [{ key: 'k', value: b }])).toBeUndefined();
  });

  it('are distinguished as domains and as keys', () => {
    const [c, d] = collision(hashSeed);
    const table = tableOf(c, c, ['']);
    expect([table.hasDomain(c), table.hasDomain(d)]).toEqual([true, false]);
    expect(table.match(c, [{ key: c, value: '1' }])?.metricKey).toBe(`${c}.${c}`);
    expect(table.match(c, [{ key: d, value: '1' }])).toBeUndefined();
  });

  it('are distinguished as prefixes of wildcards', () => {
    const table = tableOf('d', 'k', [`${a}*`]);
    expect(table.match('d', [{ key: 'k', value: `${a}1` }])?.metricKey).toBe(`d.k_${a}*`);
    expect(table.match('d', [{ key: 'k', value: `${b}1` }])).toBeUndefined();
    expect(tableOf('d', 'k', [`${a}*`, `${b}*`]).match('d', [{ key: 'k', value: `${b}1` }])?.metricKey).toBe(
      `d.k_${b}*`,
    );
  });

  it('are distinguished as suffixes of wildcards', () => {
    const [c, d] = collision(hashSeed).map((text) => [...text].reverse().join(''));
    expect(hashTextBackwards(hashSeed, c!)).toBe(hashTextBackwards(hashSeed, d!));
    const request = [{ key: 'k', value: `1${d}` }];
    expect(tableOf('d', 'k', [`*${c}`]).match('d', request)).toBeUndefined();
    expect(tableOf('d', 'k', [`*${c}`, `*${d}`]).match('d', request)?.metricKey).toBe(`d.k_*${d}`);
  });
});

describe('PairIndex', () => {
  it('finds every value of a pair that was added more than once', () => {
    const index = new PairIndex(compilePairIndex(Int32Array.of(1, -5, 0, 1, -5, 7, 1, 6, 8)));
    const values: number[] = [];
    for (let slot = index.find(1, -5); slot >= 0; slot = index.next(slot, 1, -5))
      values.push(index.value(slot));
    expect(values).toEqual([0, 7]);
    expect(index.find(2, -5)).toBe(-1);
  });

  it('ends the search in an empty index', () => {
    expect(new PairIndex(compilePairIndex(new Int32Array(0))).find(0, 0)).toBe(-1);
  });
});
