import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../test/support/property-cases.ts';
import { descriptorMaker } from './make-descriptors.ts';
import type { ValueMatcher } from './read-actions.ts';
import { type Profile, readProfilesFile } from './read-profiles.ts';

/** The only profile of a file with these rate limits and settings. */
function profileOf(rateLimits: unknown, settings: Record<string, unknown> = {}): Profile {
  const file = { profiles: { shop: { domain: 'shop', ...settings, rate_limits: rateLimits } } };
  const read = readProfilesFile(JSON.stringify(file));
  expect(read.problems).toBeUndefined();
  return 'profiles' in read ? read.profiles[0]! : expect.unreachable();
}

function make(actions: unknown[], headers: string[][], settings: Record<string, unknown> = {}) {
  const { descriptors, missing } = descriptorMaker(profileOf([{ actions }], settings))(headers.flat());
  return {
    texts: descriptors.map((one) => one.map(({ key, value }) => `${key}=${value}`).join(' ')),
    missing,
  };
}

const path = { request_headers: { header_name: ':path', descriptor_key: 'path' } };
const method = { request_headers: { header_name: ':method', descriptor_key: 'method' } };
const host = { request_headers: { header_name: ':authority', descriptor_key: 'host' } };
const address = { remote_address: {} };

describe('the original request', () => {
  const all = [
    ['X-Forwarded-Method', 'PUT'],
    ['X-Forwarded-Uri', '/forwarded?a=1'],
    ['X-Forwarded-Host', 'forwarded.example'],
    ['X-Original-Method', 'PATCH'],
    ['X-Original-URI', '/uri?a=2'],
    ['X-Original-Host', 'uri.example'],
    ['X-Original-URL', 'https://user@url.example:8443/url?a=3'],
    ['Host', 'weir:8080'],
    [':method', 'DELETE'],
    [':path', '/line?a=4'],
  ];
  const families: [originalRequest: string, text: string][] = [
    ['forwarded', 'method=PUT path=/forwarded?a=1 host=forwarded.example'],
    ['original-uri', 'method=PATCH path=/uri?a=2 host=uri.example'],
    ['original-url', 'method=PATCH path=/url?a=3 host=url.example:8443'],
    ['ext-authz', 'method=DELETE path=/line?a=4 host=weir:8080'],
  ];
  for (const [originalRequest, text] of families) {
    it(`is what one family of headers reports, whatever the others say: ${originalRequest}`, () => {
      expect(make([method, path, host], all, { originalRequest })).toEqual({ texts: [text], missing: [] });
    });
  }

  it('is reported by X-Forwarded-* if the profile does not specify it', () => {
    expect(make([path], all).texts).toEqual(['path=/forwarded?a=1']);
    expect(make([{ request_headers: { header_name: 'Host', descriptor_key: 'h' } }], all).texts).toEqual([
      'h=forwarded.example',
    ]);
  });

  it('is not guessed if the proxy does not report', () => {
    expect(make([path], [['X-Original-URI', '/cheap']])).toEqual({ texts: [], missing: ['X-Forwarded-Uri'] });
    expect(make([method, path], [['X-Forwarded-Method', '']])).toEqual({
      texts: [],
      missing: ['X-Forwarded-Method'],
    });
    expect(
      make([host], [['X-Original-URL', '/only-a-path']], { originalRequest: 'original-url' }),
    ).toMatchObject({
      texts: [],
    });
  });

  it('takes the line that is nearest to the proxy, and a path out of a whole URL', () => {
    const lines = [
      ['x-forwarded-uri', '/written-by-a-client'],
      ['X-Forwarded-Uri', 'http://shop.example/true?b'],
    ];
    expect(make([path], lines).texts).toEqual(['path=/true?b']);
    expect(make([path], [['X-Forwarded-Uri', 'https://shop.example']]).texts).toEqual(['path=/']);
    expect(make([path], [['X-Forwarded-Uri', '/a?next=http://b/c']]).texts).toEqual([
      'path=/a?next=http://b/c',
    ]);
  });
});

describe('actions', () => {
  const plan = { request_headers: { header_name: 'X-Plan', descriptor_key: 'plan' } };
  const planIfAny = { request_headers: { ...plan.request_headers, skip_if_absent: true } };

  it('makes no descriptor if a header is missing, or one without it if that may be', () => {
    const fixed = { generic_key: { descriptor_value: 'all' } };
    expect(make([fixed, plan], []).texts).toEqual([]);
    expect(make([fixed, planIfAny], []).texts).toEqual(['generic_key=all']);
    expect(make([planIfAny], []).texts).toEqual([]);
    expect(make([fixed, plan], [['x-plan', '']]).texts).toEqual(['generic_key=all plan=']);
  });

  it('takes the first of several lines, and reads them as UTF-8', () => {
    const lines = [
      ['x-plan', Buffer.from('größer').toString('latin1')],
      ['X-Plan', 'b'],
    ];
    expect(make([plan], lines).texts).toEqual(['plan=größer']);
  });

  it('makes addresses, whole and masked', () => {
    const masked = { masked_remote_address: { v4_prefix_mask_len: 24, v6_prefix_mask_len: 48 } };
    expect(make([address, masked], [['X-Forwarded-For', '10.0.0.1, 203.0.113.7:55']]).texts).toEqual([
      'remote_address=203.0.113.7 masked_remote_address=203.0.113.0/24',
    ]);
    const lines = [
      ['X-Forwarded-For', '2001:DB8:1:2::3'],
      ['X-Forwarded-For', '10.0.0.9'],
    ];
    expect(make([address, masked], lines, { trustedHops: 1 }).texts).toEqual([
      'remote_address=2001:db8:1:2::3 masked_remote_address=2001:db8:1::/48',
    ]);
  });

  it('makes no descriptor of a client without an address, and reports it', () => {
    expect(make([address], [])).toEqual({ texts: [], missing: ['X-Forwarded-For'] });
    expect(make([address], [['X-Forwarded-For', '203.0.113.7']], { trustedHops: 1 })).toEqual({
      texts: [],
      missing: ['X-Forwarded-For'],
    });
    // Nobody asked for it.
    expect(make([{ generic_key: { descriptor_value: 'a' } }], []).missing).toEqual([]);
  });

  it('makes query parameters, decoded, the first of a name', () => {
    const page = { query_parameters: { query_parameter_name: 'page', descriptor_key: 'page' } };
    const withPath = (uri: string) => make([page], [['X-Forwarded-Uri', uri]]).texts;
    expect(withPath('/a?b=1&page=%C3%A4+%zz&page=2')).toEqual(['page=ä+%zz']);
    expect(withPath('/a?page')).toEqual(['page=']);
    expect(withPath('/a?pages=1')).toEqual([]);
    expect(withPath('/page=1')).toEqual([]);
  });

  it('makes matches of headers and of parameters', () => {
    const api = {
      header_value_match: {
        descriptor_value: 'write',
        headers: [
          { name: ':path', string_match: { prefix: '/API/', ignore_case: true } },
          { name: ':method', safe_regex_match: { regex: 'PUT|POST' } },
        ],
      },
    };
    const deep = {
      query_parameter_value_match: {
        descriptor_key: 'deep',
        descriptor_value: 'yes',
        expect_match: false,
        query_parameters: [{ name: 'page', string_match: { exact: '1' } }],
      },
    };
    const ask = (asked: string, uri: string) =>
      make(
        [api, deep],
        [
          ['X-Forwarded-Method', asked],
          ['X-Forwarded-Uri', uri],
        ],
      ).texts;
    expect(ask('PUT', '/api/carts?page=2')).toEqual(['header_match=write deep=yes']);
    expect(ask('PUT', '/api/carts')).toEqual(['header_match=write deep=yes']);
    expect(ask('PUT', '/api/carts?page=1')).toEqual([]);
    expect(ask('PUTS', '/api/carts?page=2')).toEqual([]);
    expect(ask('PUT', '/apis?page=2')).toEqual([]);
  });

  it('makes a descriptor of each rate limit that gives one', () => {
    const maker = descriptorMaker(
      profileOf([{ actions: [plan] }, { actions: [address] }, { actions: [planIfAny, address] }]),
    );
    const { descriptors } = maker(['X-Forwarded-For', '::1']);
    expect(descriptors).toEqual([
      [{ key: 'remote_address', value: '::1' }],
      [{ key: 'remote_address', value: '::1' }],
    ]);
  });
});

describe('matchers of values', () => {
  /** As Envoy's documentation puts it, a line a test. Of several lines any may match. */
  function isMatch({ match, invert, treatMissingAsEmpty }: ValueMatcher, lines: readonly string[]): boolean {
    const values = lines.length === 0 && treatMissingAsEmpty ? [''] : lines;
    if (match.type === 'present') {
      const isThere = values.length > 0;
      return invert ? isThere !== match.present : isThere === match.present;
    }
    if (values.length === 0) return false;
    return values.some((value) => fits(match, value)) !== invert;
  }

  function fits(match: Exclude<ValueMatcher['match'], { type: 'present' }>, given: string): boolean {
    if (match.type === 'range') {
      return /^[+-]?[0-9]+$/.test(given) && Number(given) >= match.start && Number(given) < match.end;
    }
    const [value, text] = match.ignoreCase
      ? [given.toLowerCase(), match.text.toLowerCase()]
      : [given, match.text];
    const at = value.indexOf(text);
    if (match.type === 'exact') return value === text;
    if (match.type === 'prefix') return at === 0;
    if (match.type === 'suffix') return at !== -1 && value.lastIndexOf(text) === value.length - text.length;
    if (match.type === 'contains') return at !== -1;
    return new RegExp(`^(?:${text})$`).test(value);
  }

  it('agree with a plain reading of what Envoy says of them', () => {
    const text = fc.constantFrom('a', 'B', 'ab', 'aB', 'b,a', '5', '-1');
    const test: fc.Arbitrary<ValueMatcher['match']> = fc.oneof(
      fc.record({
        type: fc.constantFrom('exact', 'prefix', 'suffix', 'contains'),
        text,
        ignoreCase: fc.boolean(),
      }),
      fc.record({
        type: fc.constant('regex'),
        text: fc.constantFrom('a+', 'a|B', '[ab]*', '.*b', '-?[0-9]'),
        ignoreCase: fc.constant(false),
      }),
      fc.record({ type: fc.constant('range'), start: fc.integer({ min: -3, max: 3 }), end: fc.nat(9) }),
      fc.record({ type: fc.constant('present'), present: fc.boolean() }),
    );
    const matcher = fc.record({
      name: fc.constant('x-a'),
      match: test,
      invert: fc.boolean(),
      treatMissingAsEmpty: fc.boolean(),
    });
    const lines = fc.array(
      fc.constantFrom('', 'a', 'B', 'ab', 'AB', 'b', '5', '+5', '-1', '5.0', '99999999999999999999'),
      {
        maxLength: 2,
      },
    );
    fc.assert(
      fc.property(
        fc.array(matcher, { minLength: 1, maxLength: 2 }),
        fc.boolean(),
        lines,
        (headers, expectMatch, values) => {
          const profile: Profile = {
            ...profileOf([{ actions: [address] }]),
            rateLimits: [
              {
                actions: [
                  {
                    type: 'header_value_match',
                    descriptorKey: 'k',
                    descriptorValue: 'v',
                    expectMatch,
                    headers,
                  },
                ],
                stage: 0,
                disableKey: '',
                hasOwnLimit: false,
                hasOwnHits: false,
                onStreamDone: false,
              },
            ],
          };
          const { descriptors } = descriptorMaker(profile)(values.flatMap((value) => ['X-A', value]));
          const isOne = headers.every((one) => isMatch(one, values)) === expectMatch;
          expect(descriptors).toEqual(isOne ? [[{ key: 'k', value: 'v' }]] : []);
        },
      ),
      { numRuns: caseCount(500) },
    );
  });
});
