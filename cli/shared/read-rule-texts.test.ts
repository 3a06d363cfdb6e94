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
      'e.json:1:16: resources[0]: must be an object',
      'e.json:1:108: resources[1].domian: unknown field; did you mean domain?',
      'e.json:1:114: resources[2]["@type"]: is required',
      "c.yaml:2:1: config error, unknown key 'foo'",
    ]);
    expect(errorCount).toBe(7);
    expect(sources.map(({ source }) => source.name)).toEqual(['ns/good']);
  });

  it.each<[text: string, ...errors: string[]]>([
    ['"domain": 5', '2:11: domain: must be a string, found 5'],
    [
      '"x": {}, "descriptors": {}',
      '2:6: x: unknown field; known here: name, domain, descriptors, override',
      '2:25: descriptors: must be a list, found an object',
    ],
    [
      '"descriptors": [1, null, {"key": "k", "rateLimit": {"unit": "DAYS", "requestsPerUnit": -1, "warnAt": [50, "x"]}}]',
      '2:17: descriptors[0]: must be an object, found 1',
      '2:20: descriptors[1]: must be an object, found null',
      "2:61: descriptors[2].rateLimit.unit: must be SECOND, MINUTE, HOUR, DAY, MONTH, YEAR or WEEK, found the text 'DAYS'",
      '2:88: descriptors[2].rateLimit.requestsPerUnit: must be a whole number from 0 to 4294967295, found -1',
      "2:107: descriptors[2].rateLimit.warnAt[1]: must be a whole number from 0 to 4294967295, found the text 'x'",
    ],
    [
      '"descriptors": [{"shadow_mode": "true", "rate_limit": {"requests_per_unit": 1.5}, "metadata": 5}]',
      "2:33: descriptors[0].shadow_mode: must be true or false, found the text 'true'",
      '2:77: descriptors[0].rate_limit.requests_per_unit: must be a whole number from 0 to 4294967295, found 1.5',
      '2:95: descriptors[0].metadata: must be an object, found 5',
    ],
    [
      '"descriptors": [{"shadowMode": true, "shadow_mode": true}]',
      '2:17: descriptors[0]: set multiple times',
    ],
  ])(
    'have the places of everything that is not as the message of a resource requires: %s',
    (members, ...errors) => {
      const { errors: found } = read({ 'a.json': `{"@type": "${type}",\n${members}}` });
      expect(found.map(formatRuleError)).toEqual(errors.map((error) => `a.json:${error}`));
    },
  );

  it('are one load as far as they are rule files', () => {
    const both = { 'a.yaml': rules('d'), 'b.yaml': rules('d').replace('key: k', 'key: l') };
    expect(read(both).errors.map(formatRuleError)).toEqual([
      "b.yaml:1:9: duplicate domain 'd' in config file",
    ]);
    expect(read(both, true).errorCount).toBe(0);
  });
});
