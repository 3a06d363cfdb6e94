import { describe, expect, it } from 'vitest';
import { dnsLabel, objectName } from './settings-kinds.ts';

const long = 'a'.repeat(63);

const kinds = {
  'a DNS label': dnsLabel(),
  'a DNS label or nothing': dnsLabel({ mayBeEmpty: true }),
  'the name of an object': objectName({ maxLength: 70, mayBeEmpty: false }),
};

const cases: [kind: keyof typeof kinds, good: string[], bad: string[]][] = [
  ['a DNS label', ['a', 'a-1', '0', long], ['', '-', 'a-', '-a', 'A', 'a.b', 'a_b', `${long}a`, 'a\n']],
  ['a DNS label or nothing', ['', 'a'], ['-', ' ']],
  [
    'the name of an object',
    ['a', 'a.b-c.d', `${long}.abcdef`],
    ['', '.', 'a..b', 'a.', `${long}.abcdefg`, 'A'],
  ],
];

describe.each(cases)('%s', (kind, good, bad) => {
  const { schema } = kinds[kind];

  it.each(good)('may be "%s"', (value) => {
    expect(schema.safeParse(value).success).toBe(true);
  });

  it.each(bad)('is never "%s"', (value) => {
    expect(schema.safeParse(value).success).toBe(false);
  });
});
