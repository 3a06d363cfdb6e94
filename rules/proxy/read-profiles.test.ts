import { describe, expect, it } from 'vitest';
import { looksLikeProfiles, readProfilesFile } from './read-profiles.ts';

function problemsOf(text: string): string[] {
  const { problems = [] } = readProfilesFile(text);
  return problems.map(({ line, column, message }) => `${line}:${column}: ${message}`);
}

describe('readProfilesFile', () => {
  it('reads a profile with what is said and what is not', () => {
    const read = readProfilesFile(
      `
profiles:
  shop:
    domain: shop
    rate_limits:
      - actions:
          - remote_address: {}
  api.v2:
    domain: "2"
    refusedStatus: 403
    onError: deny
    trustedHops: 2
    originalRequest: original-url
    rate_limits:
      - actions: [{ generic_key: { descriptor_value: 7 } }]
`,
    );
    const plain = { stage: 0, disableKey: '', hasOwnLimit: false, hasOwnHits: false, onStreamDone: false };
    expect(read).toMatchObject({
      profiles: [
        {
          name: 'shop',
          domain: 'shop',
          refusedStatus: 429,
          onError: 'allow',
          trustedHops: 0,
          originalRequest: 'forwarded',
          rateLimits: [{ ...plain, actions: [{ type: 'remote_address' }] }],
        },
        {
          name: 'api.v2',
          domain: '2',
          refusedStatus: 403,
          onError: 'deny',
          trustedHops: 2,
          originalRequest: 'original-url',
          rateLimits: [
            {
              ...plain,
              actions: [{ type: 'generic_key', descriptorKey: 'generic_key', descriptorValue: '7' }],
            },
          ],
        },
      ],
    });
  });

  it('reads a file without profiles', () => {
    for (const text of ['', '# none\n', 'profiles:\n', 'profiles: {}\n'])
      expect(readProfilesFile(text)).toMatchObject({ profiles: [] });
  });

  it('reports every mistake with its place', () => {
    const text = `profiles:
  shop:
    domain:
    refused_status: 418
    onError: maybe
    trustedHops: -1
    originalRequest: both
    rate_limits:
      - actions:
          - remote_adress: {}
          - request_headers: {header_name: ":scheme", descriptor_key: scheme}
  -x:
    domain: shop
  empty:
    domain: [a]
    refusedStatus: 418
    rate_limits: []
`;
    expect(problemsOf(text)).toEqual([
      '3:12: domain: is missing: the domain of the rules',
      '4:5: a profile has no field "refused_status": did you mean refusedStatus?',
      '5:14: onError: expected allow or deny, not "maybe"',
      '6:18: trustedHops: expected a whole number from 0 to 100, not "-1"',
      '7:22: originalRequest: expected forwarded or original-uri or original-url or ext-authz, not "both"',
      '10:13: actions has no field "remote_adress": did you mean remote_address?',
      expect.stringMatching(/^12:3: "-x" is not a name of a profile, which has at most 63 letters/),
      '13:5: rate_limits: is missing, expected a list as in a route of Envoy',
      '15:13: domain: expected text',
      '16:20: refusedStatus: expected 429 or 403, not "418"',
      '17:18: rate_limits: expected at least 1',
    ]);
  });

  it('rejects what only Envoy can know', () => {
    const text = `profiles:
  shop:
    domain: shop
    rate_limits:
      - stage: 1
        disable_key: off
        limit: {}
        hits_addend: {number: 2}
        apply_on_stream_done: true
        actions:
          - source_cluster: {}
          - metadata: {descriptor_key: a}
          - extension: {name: b}
          - request_headers: {header_name: ":scheme", descriptor_key: scheme}
          - header_value_match: {descriptor_value: a, headers: [{name: ":status"}]}
`;
    expect(problemsOf(text)).toEqual([
      '5:9: stage: a profile is one stage, 0',
      '6:9: disable_key: only the runtime of Envoy could disable it',
      '7:9: limit: its value is metadata, which only Envoy has',
      '8:9: hits_addend: each request counts 1',
      '9:9: apply_on_stream_done: a profile is used only before the request',
      '11:13: source_cluster: only Envoy knows its value, and a profile is for other proxies',
      '12:13: metadata: only Envoy knows its value, and a profile is for other proxies',
      '13:13: extension: only Envoy knows its value, and a profile is for other proxies',
      '14:44: ":scheme" is not known, there are :method, :path, :authority',
      '15:72: ":status" is not known, there are :method, :path, :authority',
    ]);
  });

  it('rejects regular expressions that RE2 does not know', () => {
    const withRegex = (regex: string) => `profiles:
  shop:
    domain: shop
    rate_limits:
      - actions:
          - header_value_match:
              descriptor_value: a
              headers: [{name: a, safe_regex_match: {regex: '${regex}'}}]
`;
    expect(problemsOf(withRegex('a(b|c)*'))).toEqual([]);
    expect(problemsOf(withRegex('a(?=b)'))).toEqual([expect.stringMatching(/^8:61: regex: "a\(\?=b\)": /)]);
    expect(problemsOf(withRegex('(a'))).toHaveLength(1);
  });

  it('rejects a file of another kind', () => {
    expect(problemsOf('profiles: {a: [}')).toHaveLength(1);
    expect(problemsOf('profiles: {}\n---\nprofiles: {}\n')).toEqual([
      '1:1: contains several documents, expected one',
    ]);
    expect(problemsOf('- a\n')).toEqual(['1:1: the file: expected a map with profiles']);
    expect(problemsOf('profiles: [a]\n')).toEqual([
      '1:11: profiles: expected a map of names, each with domain and rate_limits',
    ]);
    expect(problemsOf('profile: {}\n')).toEqual([
      '1:1: the file has no field "profile": did you mean profiles?',
    ]);
    expect(problemsOf(`profiles: ${' '.repeat(262_144)}`)).toEqual(['1:1: is larger than 262144 bytes']);
    const names = Array.from({ length: 1_001 }, (_, index) => `a${index}: {domain: a, rate_limits: []}`);
    expect(problemsOf(`profiles: {${names.join(', ')}}`)[0]).toBe(
      '1:11: profiles: 1001 are too many, 1000 are allowed',
    );
  });
});

describe('looksLikeProfiles', () => {
  for (const text of [
    'profiles:\n',
    '# a\n---\nprofiles: {}',
    '\ufeff"profiles": {}',
    '{"profiles": {}}',
    'profile:\n a',
  ]) {
    it(`says so of ${JSON.stringify(text)}`, () => expect(looksLikeProfiles(text)).toBe(true));
  }
  for (const text of ['', 'domain: a\nprofiles:\n', 'callers:\n', 'descriptors: []', '- profiles: 1']) {
    it(`does not of ${JSON.stringify(text)}`, () => expect(looksLikeProfiles(text)).toBe(false));
  }
});

describe('regular expressions of a profile', () => {
  const profile = (name: string, ...expressions: string[]): string => {
    const items = expressions.map(
      (one) =>
        `      - actions: [{ header_value_match: { descriptor_value: a, headers: [{ name: a, safe_regex_match: { regex: '${one}' } }] } }]\n`,
    );
    return `  ${name}:\n    domain: shop\n    rate_limits:\n${items.join('')}`;
  };
  const costly = '.*a.{1,800}x';

  it('are rejected beyond the bound on states, with line, bound and position', () => {
    expect(problemsOf(`profiles:\n${profile('shop', 'a', '.*(foo.{1,200}bar.{1,200}){3}')}`)).toEqual([
      '6:112: regex: ".*(foo.{1,200}bar.{1,200}){3}": the expression needs 1,219 states, and at most 1,000 are allowed; ' +
        '{3} at character 27 accounts for 1,218 states',
    ]);
  });

  it('share the bound on costs, each profile its own', () => {
    expect(problemsOf(`profiles:\n${profile('a', costly)}${profile('b', costly)}`)).toEqual([]);
    expect(problemsOf(`profiles:\n${profile('a', costly, costly)}`)).toEqual([
      '6:112: regex: ".*a.{1,800}x": the expressions up to here cost 238 for each byte of a text, this one 119, ' +
        'and at most 122 are allowed together; {1,800} at character 5 accounts for 800 states',
    ]);
  });
});
