import { describe, expect, it } from 'vitest';
import { looksLikeCallers, readCallersFile } from './callers-file.ts';

const digits = 'AB'.repeat(32);

describe('readCallersFile', () => {
  it('reads every kind of entry', () => {
    const text = `
callers:
  - name: edge-envoy
    certificate: { uri: spiffe://prod.example/ns/edge/sa/* }
    domains: [shop, payments-*]
    rights: [ask, refund, override, reserve, read, admin]
    requests_per_second: 2000
    on_excess: over_limit
  - name: billing
    token_sha256: ${digits}
    domains: [123]
  - name: two
    certificate: [{ dns: a.example }, { cn: b, dns: c.example }]
    token_sha256: [${digits}, ${'0'.repeat(64)}]
    domains: ['*']
  - anonymous: true
    domains: ["*"]
    rights: [ask]
`;
    const none = {
      certificates: [],
      tokenHashes: [],
      anonymous: false,
      rights: 1,
      requestsPerSecond: undefined,
      onExcess: 'error',
    };
    expect(readCallersFile(text)).toEqual({
      callers: [
        {
          ...none,
          name: 'edge-envoy',
          certificates: [{ uri: 'spiffe://prod.example/ns/edge/sa/*' }],
          domains: ['shop', 'payments-*'],
          rights: 63,
          requestsPerSecond: 2_000,
          onExcess: 'over_limit',
        },
        { ...none, name: 'billing', tokenHashes: [digits.toLowerCase()], domains: ['123'] },
        {
          ...none,
          name: 'two',
          certificates: [{ dns: 'a.example' }, { cn: 'b', dns: 'c.example' }],
          tokenHashes: [digits.toLowerCase(), '0'.repeat(64)],
          domains: ['*'],
        },
        { ...none, name: 'anonymous', anonymous: true, domains: ['*'] },
      ],
    });
  });

  it('reports every mistake at once, in the order of the file, without what may be a token', () => {
    const text = `callers:
  - name: bad.name
    certificate: { uri: no-uri, ip: 1.2.3.4 }
    rights: [ask, everything]
    requests_per_second: 0
  - name: one
    token_sha256: bad.HUNTER2
    domains: []
  - name: one
    certificate: {}
    domains: [a]
    rights: [refund]
  - domains: [a]
  - anonymous: true
    token_sha256: ${digits}
    domains: [a]
  - { name: else, anonymous: true, domains: [a] }
  - { name: unknown, certificate: { cn: x }, domains: [a], color: red }
`;
    const { problems = [] } = readCallersFile(text);
    expect(problems.map(({ line, column, message }) => `${line}:${column}: ${message}`)).toEqual([
      '2:5: domains: is missing',
      '2:11: name: "bad.name" is not a name: a name has at most 63 letters, digits, `-` and `_`, and begins with a letter or digit',
      '3:25: uri: "no-uri": expected scheme://host/path, such as spiffe://prod.example/ns/edge/*',
      '3:33: unknown key "ip", expected uri, dns, cn',
      '4:19: rights: there is no right "everything", there are ask, refund, override, reserve, read, admin',
      '5:26: requests_per_second: expected a whole number from 1 to 1000000, not "0"',
      '7:19: token_sha256: expected 64 hexadecimal digits (as `weir callers token` prints them), this has 11 characters',
      '8:14: domains: expected a list with at least one entry',
      '9:11: "one": another entry has this name',
      '10:18: certificate: expected uri, dns or cn',
      '12:13: rights: refund and override have no effect without ask',
      '13:5: name: is missing',
      '13:5: expected certificate, token_sha256 or anonymous: true, which identifies the caller',
      '15:19: token_sha256: an entry with anonymous: true has no proof of identity',
      '17:30: anonymous: there is already an entry for callers without a name',
      '18:13: name: "unknown" is reserved for callers that match no entry',
      '18:60: unknown key "color", expected name, certificate, token_sha256, anonymous, domains, rights, requests_per_second, on_excess',
    ]);
  });

  it.each([
    ['caller: [{ anonymous: true, domains: [a] }]', ['1:1: unknown key "caller", did you mean callers?']],
    [
      'callers: [{ name: a, certificates: { cn: x }, domain: [shop] }]',
      [
        '1:22: unknown key "certificates", did you mean certificate?',
        '1:47: unknown key "domain", did you mean domains?',
      ],
    ],
    ['callers: [{ anonymous: yes, domains: [a] }]', ['1:24: anonymous: expected true or false, not "yes"']],
    ['callers: [{ name: a, anonymous: [], domains: [a] }]', ['1:33: anonymous: expected true or false']],
    [
      'callers: [{ anonymous: true, name: foo, domains: [a] }, { anonymous: true, domains: [a] }]',
      ['1:70: anonymous: there is already an entry for callers without a name'],
    ],
    [
      'callers: [{ anonymous: true, domains: [a] }, { anonymous: true, domains: [a] }]',
      ['1:59: anonymous: there is already an entry for callers without a name'],
    ],
    [
      `callers: [{ name: foo, certificate: { cn: x }, domains: [a] }, { name: foo, anonymous: true, domains: [a] }]`,
      ['1:72: "foo": another entry has this name'],
    ],
    [
      'callers: [{ <<: { color: red }, anonymous: true, domains: [a] }]',
      [
        '1:26: unknown key "color", expected name, certificate, token_sha256, anonymous, domains, rights, requests_per_second, on_excess',
      ],
    ],
  ])('reports %s nothing that misleads', (text, expected) => {
    const { problems = [] } = readCallersFile(text);
    expect(problems.map(({ line, column, message }) => `${line}:${column}: ${message}`)).toEqual(expected);
  });

  it.each([
    ['', 'callers: is missing'],
    ['callers: []', 'callers: expected a list with at least one entry'],
    ['- a', 'expected a map with callers'],
    ['callers: [a]', 'expected a map with name, certificate'],
    ['callers: [{ name: a, name: b }]', 'duplicated mapping key'],
    ['callers: [\n', "did not find expected ',' or ']'"],
    ['---\ncallers: []\n---\ncallers: []', 'contains several documents'],
    [`callers:\n${'  - { name: x }\n'.repeat(1_001)}`, 'callers: has 1001 entries, the most is 1000'],
    [`callers: [{ domains: [${'a,'.repeat(1_001)}] }]`, 'domains: has 1001 entries, the most is 1000'],
    ['callers: [{ token_sha256: [] }]', 'token_sha256: expected a list with at least one entry'],
    ['callers: [{ certificate: [] }]', 'certificate: expected a list with at least one entry'],
    ['callers: [{ __proto__: { name: a } }]', 'unknown key "__proto__"'],
    ['callers: [{ rights: [toString] }]', 'rights: there is no right "toString"'],
    ['callers: &a [*a]', "anchor 'a' value contains itself"],
    [
      'callers: [{ requests_per_second: 1, on_excess: deny }]',
      'on_excess: expected error or over_limit, not "deny"',
    ],
    ['callers: [{ on_excess: over_limit }]', 'on_excess: has no effect without requests_per_second'],
    ['callers: [{ requests_per_second: 1e3 }]', 'expected a whole number from 1 to 1000000, not "1e3"'],
    [`callers: ${'['.repeat(100_000)}`, 'exceeded max depth'],
    [`callers: ${' '.repeat(262_144)}`, 'is larger than 262144 bytes'],
  ])('rejects %j', (text, message) => {
    expect(
      readCallersFile(text)
        .problems?.map((problem) => problem.message)
        .join('; '),
    ).toContain(message);
  });
});

it('reads a file with a byte order mark', () => {
  expect(readCallersFile('\ufeffcallers: [{ anonymous: true, domains: [a] }]').problems).toBeUndefined();
});

describe('looksLikeCallers', () => {
  it('reports such a file from rules', () => {
    expect(looksLikeCallers('callers:\n  - name: a\n')).toBe(true);
    expect(looksLikeCallers('# who may ask\n\n---\ncallers: []')).toBe(true);
    expect(looksLikeCallers('{ "callers": [] }')).toBe(true);
    expect(looksLikeCallers('domain: a\ncallers: []')).toBe(false);
    expect(looksLikeCallers('\ufeff\n{\r\n  "callers" : []\r\n}')).toBe(true);
    expect(looksLikeCallers('- callers: []')).toBe(false);
    expect(looksLikeCallers('caller:\n  - name: a\n')).toBe(true);
    expect(looksLikeCallers('Callers:\n')).toBe(true);
    expect(looksLikeCallers('{ "caller": [] }')).toBe(false);
    for (const other of ['domain', 'dollars', 'clients', 'kind', 'limits']) {
      expect(looksLikeCallers(`${other}: []`)).toBe(false);
    }
    expect(looksLikeCallers('callersfile: []')).toBe(false);
  });

  it('takes no longer for many blank lines', () => {
    for (const filler of [' \n', ' ', '#\n', '\ufeff', '---\n', '{\n']) {
      expect(looksLikeCallers(`${filler.repeat(100_000)}domain: a`)).toBe(false);
    }
    expect(looksLikeCallers('{"domain": "a"}')).toBe(false);
  });
});
