import { describe, expect, it } from 'vitest';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { reviewSources } from './review-sources.ts';

function warningsOf(key: string, value: string): string[] {
  return reviewSources([source('d', [rule({ key, value, rateLimit: limit() })])])
    .filter(({ code }) => code === 'literal-pattern')
    .map(({ path, text }) => `${path.join('.')}: ${text}`);
}

describe('texts that look like something else', () => {
  it.each([
    ['remote_address', '10.0.0.0/8', 'a range of addresses'],
    ['remote_address', '2001:db8::/32', 'a range of addresses'],
    ['path', '^/api', 'a regular expression'],
    ['path', '/api/.*', 'a regular expression'],
    ['path', '.*$', 'a regular expression'],
    ['path', '/users/[0-9]+', 'a regular expression'],
    ['path', '/users/[^a-z]', 'a regular expression'],
    ['path', String.raw`/users/\d+`, 'a regular expression'],
    ['path', '/(?:a|b)', 'a regular expression'],
  ])('are reported: %s=%s looks like %s', (key, value, look) => {
    const text = `'${value}' looks like ${look} but is compared literally`;
    expect(warningsOf(key, value)).toEqual([`descriptors.0.value: ${text}`]);
  });

  it('are reported with white space around them', () => {
    const end = 'begins or ends with white space but is compared literally';
    expect(warningsOf(' k', 'v ')).toEqual([
      `descriptors.0.key: ' k' ${end}`,
      `descriptors.0.value: 'v ' ${end}`,
    ]);
  });

  it.each([
    ['masked_remote_address', '10.0.0.0/8'],
    ['remote_address', '198.51.100.*'],
    ['path', '/api/v1.*'],
    ['path', '/search?q=a+b|c'],
    ['path', '/matrix/[1,2]'],
    ['price', 'US$'],
    ['user', String.raw`CORP\dave`],
    ['time', '12:30:45'],
    ['name', 'a b'],
    ['version', '1.2.3.4'],
  ])('are not guessed: %s=%s', (key, value) => {
    expect(warningsOf(key, value)).toEqual([]);
  });
});
