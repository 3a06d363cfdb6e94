import { describe, expect, it } from 'vitest';
import { formatRuleError } from '../rule-error.ts';
import { looksLikeOverrides, readOverrideFile } from './read-override.ts';

const options = { nowMs: Date.UTC(2026, 0, 1), maxSeconds: 2_592_000 };
const errors = (text: string) => readOverrideFile('a.yaml', text, options).errors.map(formatRuleError);

describe('a file of overrides', () => {
  it('gives each the domain of the file and its place for a name', () => {
    const text = `domain: shop
overrides:
  - { match: [{ key: a, value: b }], block: true, permanent: true, reason: r }
  - { match: [{ key: a, value: "b*" }], requestsPerUnit: 5, expiresAt: 2026-01-02T00:00:00Z, reason: r, id: mine }
`;
    expect(looksLikeOverrides(text)).toBe(true);
    expect(readOverrideFile('a.yaml', text, options)).toMatchObject({
      overrides: [
        { id: 'a.yaml:1', name: 'a.yaml:1', source: 'file', domain: 'shop', createdMs: 0 },
        { id: 'mine', name: 'a.yaml:2', endsMs: Date.UTC(2026, 0, 2) },
      ],
      errors: [],
    });
  });

  it.each([
    ['domain: shop\n', ['overrides: must be a list']],
    ['- 1\n', ['must be a map with domain and overrides', 'overrides: must be a list']],
    [
      'domain: shop\ndescriptors: []\noverrides:\n  - { match: [{ key: a, value: b }], block: true, permanent: true, reason: r, domain: x }\n',
      [
        'descriptors: is no field of a file of overrides: domain and overrides are',
        'overrides[0].domain: must be at the top of the file, once',
      ],
    ],
  ])('has every mistake reported: %j', (text, expected) => {
    expect(readOverrideFile('a.yaml', text, options).errors.map((error) => error.text)).toEqual(expected);
  });

  it('has mistakes reported with their places', () => {
    const text = 'domain: shop\noverrides:\n  - { match: [], block: true, permanent: true, reason: r }\n';
    expect(errors(text)).toEqual([
      expect.stringMatching(/^a\.yaml:3:\d+: overrides\[0\]\.match: must have 1 to 32 entries, and has 0$/),
    ]);
    expect(errors('overrides: [\n')).toEqual([expect.stringMatching(/^a\.yaml:\d+:1: /)]);
  });

  it('is distinguished from a file of rules', () => {
    expect(looksLikeOverrides('domain: shop\ndescriptors:\n  - key: overrides\n')).toBe(false);
  });
});
