import { describe, expect, it } from 'vitest';
import { formatRuleError } from '../../rules/rule-error.ts';
import { readRuleTexts } from './read-rule-texts.ts';

const rules = (domain: string) => `domain: ${domain}
descriptors:
  - key: k
    rate_limit: { unit: day, requests_per_unit: 1 }
`;
const manifest = (name: string, unit: string) => `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata: { name: ${name}, namespace: ns, labels: { a: b } }
spec:
  fleet: edge
  domain: ${name}
  descriptors: [{ key: k, rateLimit: { unit: ${unit}, requestsPerUnit: 1 } }]
`;
const type = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig';
const resource = (unit: string) => `{
  "@type": "${type}",
  "domain": "x",
  "descriptors": [{ "key": "k", "rateLimit": { "unit": "${unit}", "requestsPerUnit": 1 } }]
}`;

function read(texts: Record<string, string>, mergeDomains = false) {
  const list = Object.entries(texts).map(([path, text]) => ({ path, text }));
  return readRuleTexts(list, { mergeDomains });
}

describe('texts of rules', () => {
  it('are read in their order, whatever the spelling, each with its places', () => {
    const { sources, errorCount } = read({
      'z.yaml': manifest('m', 'day'),
      'b.yaml': rules('b'),
      'a.json': resource('DAY'),
    });
    const unit = ['descriptors', 0, 'rate_limit', 'unit'];
    expect(
      sources.map(({ file, kind, fleet, source, placeOf }) => [
        file,
        kind,
        fleet,
        source.domain,
        placeOf(unit),
      ]),
    ).toEqual([
      ['z.yaml', 'manifests', 'edge', 'm', { line: 7, column: 46 }],
      ['b.yaml', 'rule-file', undefined, 'b', { line: 4, column: 25 }],
      ['a.json', 'resources', undefined, 'x', { line: 4, column: 56 }],
    ]);
    expect(sources[0]!.object).toEqual({ namespace: 'ns', name: 'm', labels: { a: 'b' } });
    expect(errorCount).toBe(0);
  });

  it('have their errors side by side, and the good ones are read all the same', () => {
    const { sources, errors, errorCount } = read({
      'a.yaml': `${manifest('good', 'day')}---\n${manifest('bad', 'fortnight')}`,
      'b.json': resource('UNKNOWN'),
      'c.yaml': 'domain: c\nfoo: 1\n',
      'd.json': '{"@type": ',
      'e.json': `{"resources": [1, {"@type": "${type}", "domian": "x"}, {}]}`,
    });
    expect(errors.map(formatRuleError)).toEqual([
      "a.yaml:15:46: spec.descriptors[0].rateLimit.unit: invalid rate limit unit 'fortnight'",
      "b.json:4:56: invalid rate limit unit 'UNKNOWN'",
      expect.stringMatching(/^d\.json:1:\d+: yaml: /),
      'e.json:1:16: must be an object',
      expect.stringMatching(/^e\.json:1:19: .*domian/),
      'e.json:1:114: is required',
      "c.yaml:2:1: config error, unknown key 'foo'",
    ]);
    expect(errorCount).toBe(7);
    expect(sources.map(({ source }) => source.name)).toEqual(['ns/good']);
  });

  it('are one load as far as they are rule files', () => {
    const both = { 'a.yaml': rules('d'), 'b.yaml': rules('d').replace('key: k', 'key: l') };
    expect(read(both).errors.map(formatRuleError)).toEqual([
      "b.yaml:1:9: duplicate domain 'd' in config file",
    ]);
    expect(read(both, true).errorCount).toBe(0);
  });
});
