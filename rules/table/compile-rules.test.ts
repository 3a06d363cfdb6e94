import { describe, expect, it } from 'vitest';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { Algorithm } from '../algorithms/registry.ts';
import { compileRules } from './compile-rules.ts';
import { RuleTable } from './rule-table.ts';

describe('compileRules', () => {
  const small = () => compileRules([source('d', [rule({ key: 'k', value: 'a*', rateLimit: limit() })])]);

  it('makes the same bytes from the same rules', () => {
    expect(new Uint8Array(small())).toEqual(new Uint8Array(small()));
  });

  it('makes a table that survives a transfer', () => {
    const bytes = structuredClone(small());
    expect(new RuleTable(bytes).match('d', [{ key: 'k', value: 'ab' }])?.metricKey).toBe('d.k_a*');
  });

  it('gives each content its own hash', () => {
    const base = { key: 'k', value: 'v', rateLimit: limit() };
    const contents = [
      [],
      [source('d', [])],
      [source('e', [])],
      [source('d', [rule(base)])],
      [source('d', [rule({ ...base, key: 'l' })])],
      [source('d', [rule({ ...base, shadowMode: true })])],
      [source('d', [rule({ ...base, metadata: {} })])],
      [source('d', [rule({ ...base, rateLimit: limit({ requestsPerUnit: 11 }) })])],
      [source('d', [rule({ ...base, rateLimit: limit({ name: 'n' }) })])],
      [source('d', [rule({ ...base, rateLimit: limit({ unitMultiplier: 2 }) })])],
      [source('d', [rule({ ...base, rateLimit: limit({ algorithm: Algorithm.SLIDING_WINDOW }) })])],
      [source('d', [rule({ ...base, rateLimit: limit({ algorithm: Algorithm.TOKEN_BUCKET }) })])],
      [source('d', [rule({ ...base, rateLimit: limit({ algorithm: Algorithm.TOKEN_BUCKET, burst: 5 }) })])],
      ...[0, 1].map((first) => {
        const limits = [0, 1].map((n) =>
          limit({ unitMultiplier: 2 + n, replaces: n === first ? ['m'] : [] }),
        );
        return [source('d', [{ ...rule(base), limits }])];
      }),
      [source('d', [rule({ ...base, descriptors: [rule({ key: 'c' })] })])],
    ];
    const hashes = contents.map((sources) => new RuleTable(compileRules(sources)).contentHash);
    expect(new Set(hashes).size).toBe(contents.length);
    for (const hash of hashes) expect(hash).toMatch(/^[0-9a-f]{16}$/);
  });

  it.each(['fortnight', 'unknown', ''])("rejects the unit '%s', as the validator does", (unit) => {
    const rules = [rule({ key: 'k', rateLimit: limit({ unit }) })];
    expect(() => compileRules([source('d', rules)])).toThrow(`cannot compile rate limit unit '${unit}'`);
  });

  it('rejects a composite key that appears twice on one level', () => {
    const rules = [rule({ key: 'a', value: 'b_c' }), rule({ key: 'x' }), rule({ key: 'a_b', value: 'c' })];
    expect(() => compileRules([source('d', rules)])).toThrow(
      "cannot compile composite key 'a_b_c' twice on one level",
    );
  });
});
