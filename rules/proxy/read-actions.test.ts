import { describe, expect, it } from 'vitest';
import { newCostBudget } from '../../process/regex/expression.ts';
import { readDocument } from '../yaml/document.ts';
import type { PathProblem } from '../yaml/places.ts';
import { type RateLimitAction, readRateLimits } from './read-actions.ts';

function read(value: unknown, { strict = true } = {}) {
  const problems: PathProblem[] = [];
  const budget = strict ? newCostBudget() : undefined;
  const rateLimits = readRateLimits(value, ['rate_limits'], problems, budget);
  return {
    rateLimits,
    actions: rateLimits.flatMap(({ actions }) => actions),
    problems: problems.map(({ path, message }) => `${path.join('.')}: ${message}`),
  };
}

function readActions(actions: unknown[]) {
  return read([{ actions }]);
}

/** The matcher of a header_value_match with this test, and what was said of it. */
function readMatcher(header: Record<string, unknown>) {
  const action = { header_value_match: { descriptor_value: 'v', headers: [{ name: 'X-A', ...header }] } };
  const { actions, problems } = readActions([action]);
  const [first] = actions;
  return {
    action: first,
    matcher: first?.type === 'header_value_match' ? first.headers[0] : undefined,
    problems,
  };
}

describe('readRateLimits', () => {
  const forms: [given: unknown, read: RateLimitAction][] = [
    [{ source_cluster: {} }, { type: 'source_cluster' }],
    [{ destination_cluster: {} }, { type: 'destination_cluster' }],
    [{ remote_address: {} }, { type: 'remote_address' }],
    [{ remoteAddress: {} }, { type: 'remote_address' }],
    [
      { masked_remote_address: {} },
      { type: 'masked_remote_address', v4PrefixMaskLen: 32, v6PrefixMaskLen: 128 },
    ],
    [
      { maskedRemoteAddress: { v4PrefixMaskLen: 24, v6_prefix_mask_len: '64' } },
      { type: 'masked_remote_address', v4PrefixMaskLen: 24, v6PrefixMaskLen: 64 },
    ],
    [
      { request_headers: { header_name: 'X-Plan', descriptor_key: 'plan' } },
      { type: 'request_headers', headerName: 'x-plan', descriptorKey: 'plan', skipIfAbsent: false },
    ],
    [
      { requestHeaders: { headerName: ':path', descriptorKey: 'path', skipIfAbsent: true } },
      { type: 'request_headers', headerName: ':path', descriptorKey: 'path', skipIfAbsent: true },
    ],
    [
      { query_parameters: { query_parameter_name: 'Page', descriptor_key: 'page', skip_if_absent: 'true' } },
      { type: 'query_parameters', queryParameterName: 'Page', descriptorKey: 'page', skipIfAbsent: true },
    ],
    [
      { generic_key: { descriptor_value: 7 } },
      { type: 'generic_key', descriptorKey: 'generic_key', descriptorValue: '7' },
    ],
    [
      { generic_key: { descriptor_value: 'a', descriptor_key: 'k' } },
      { type: 'generic_key', descriptorKey: 'k', descriptorValue: 'a' },
    ],
    [
      {
        header_value_match: {
          descriptor_value: 'get',
          headers: [{ name: ':method', string_match: { exact: 'GET' } }],
        },
      },
      {
        type: 'header_value_match',
        descriptorKey: 'header_match',
        descriptorValue: 'get',
        expectMatch: true,
        headers: [
          {
            name: ':method',
            match: { type: 'exact', text: 'GET', ignoreCase: false },
            invert: false,
            treatMissingAsEmpty: false,
          },
        ],
      },
    ],
    [
      {
        query_parameter_value_match: {
          descriptor_value: 'deep',
          expect_match: false,
          query_parameters: [{ name: 'page' }],
        },
      },
      {
        type: 'query_parameter_value_match',
        descriptorKey: 'query_match',
        descriptorValue: 'deep',
        expectMatch: false,
        queryParameters: [
          {
            name: 'page',
            match: { type: 'present', present: true },
            invert: false,
            treatMissingAsEmpty: false,
          },
        ],
      },
    ],
    [
      { metadata: { descriptor_key: 'user', metadata_key: { key: 'jwt' }, default_value: 'nobody' } },
      { type: 'metadata', descriptorKey: 'user', defaultValue: 'nobody', skipIfAbsent: false },
    ],
    [
      { dynamic_metadata: { descriptor_key: 'user', metadata_key: { key: 'jwt' } } },
      { type: 'metadata', descriptorKey: 'user', defaultValue: '', skipIfAbsent: false },
    ],
    [
      { extension: { name: 'envoy.rate_limit_descriptors.expr', typed_config: { descriptor_key: 'who' } } },
      { type: 'extension', name: 'envoy.rate_limit_descriptors.expr', descriptorKey: 'who' },
    ],
  ];
  for (const [given, expected] of forms) {
    it(`reads ${JSON.stringify(given)}`, () => {
      expect(readActions([given])).toMatchObject({ actions: [expected], problems: [] });
    });
  }

  it('reads the fields beside the actions', () => {
    const actions = [{ remote_address: {} }];
    const plain = { stage: 0, disableKey: '', hasOwnLimit: false, hasOwnHits: false, onStreamDone: false };
    const all = {
      stage: 3,
      disable_key: 'off',
      limit: {},
      hits_addend: { number: 2 },
      apply_on_stream_done: true,
    };
    const { rateLimits, problems } = read([{ actions }, { actions, ...all }]);
    expect(problems).toEqual([]);
    expect(rateLimits).toMatchObject([
      plain,
      { stage: 3, disableKey: 'off', hasOwnLimit: true, hasOwnHits: true, onStreamDone: true },
    ]);
  });

  const tests: [header: Record<string, unknown>, match: unknown][] = [
    [{}, { type: 'present', present: true }],
    [{ present_match: false }, { type: 'present', present: false }],
    [{ exact_match: 'a' }, { type: 'exact', text: 'a', ignoreCase: false }],
    [{ exact_match: '' }, { type: 'prefix', text: '', ignoreCase: false }],
    [{ prefix_match: 'a' }, { type: 'prefix', text: 'a', ignoreCase: false }],
    [{ suffixMatch: 'a' }, { type: 'suffix', text: 'a', ignoreCase: false }],
    [{ contains_match: 'a' }, { type: 'contains', text: 'a', ignoreCase: false }],
    [{ safe_regex_match: { google_re2: {}, regex: 'a+' } }, { type: 'regex', text: 'a+', ignoreCase: false }],
    [{ range_match: { start: '-10', end: 0 } }, { type: 'range', start: -10, end: 0 }],
    [{ string_match: { exact: '' } }, { type: 'exact', text: '', ignoreCase: false }],
    [
      { stringMatch: { contains: 'bot', ignoreCase: true } },
      { type: 'contains', text: 'bot', ignoreCase: true },
    ],
    [
      { string_match: { safe_regex: { regex: 'a|b' }, ignore_case: true } },
      { type: 'regex', text: 'a|b', ignoreCase: false },
    ],
  ];
  for (const [header, match] of tests) {
    it(`reads the test ${JSON.stringify(header)}`, () => {
      expect(readMatcher(header)).toMatchObject({ matcher: { name: 'x-a', match }, problems: [] });
    });
  }

  it('reads inverted matchers and those for missing headers', () => {
    const { matcher } = readMatcher({ invert_match: true, treat_missing_header_as_empty: 'true' });
    expect(matcher).toMatchObject({ invert: true, treatMissingAsEmpty: true });
  });

  const mistakes: [given: unknown, problems: string[]][] = [
    ['text', ['rate_limits: rate_limits: expected a list']],
    [
      ['text'],
      [
        'rate_limits.0: rate_limits: expected a map with actions, stage, disable_key, limit, hits_addend, apply_on_stream_done',
      ],
    ],
    [
      [{ actions: [{}] }],
      [expect.stringContaining('rate_limits.0.actions.0: expected one of source_cluster')],
    ],
    [[{}], ['rate_limits.0: expected actions, which make the descriptor']],
    [[{ actions: [] }], ['rate_limits.0.actions: actions: expected at least 1']],
    [
      [{ actions: [{ remote_address: null }] }],
      ['rate_limits.0.actions.0.remote_address: remote_address: expected {}'],
    ],
    [
      [{ actions: [{ remote_address: '' }] }],
      ['rate_limits.0.actions.0.remote_address: remote_address: expected {}'],
    ],
    [
      [{ actions: [{ remote_address: {}, generic_key: { descriptor_value: 'a' } }] }],
      ['rate_limits.0.actions.0.generic_key: an action is one thing: remote_address or generic_key'],
    ],
    [
      [{ actions: [{ request_headers: { header_name: 'a b' } }] }],
      [
        'rate_limits.0.actions.0.request_headers.header_name: header_name: "a b" is not a name of a header',
        'rate_limits.0.actions.0.request_headers: request_headers: expected descriptor_key',
      ],
    ],
    [
      [{ actions: [{ generic_key: { descriptor_key: 'a', descriptorKey: 'b', descriptor_value: [] } }] }],
      [
        'rate_limits.0.actions.0.generic_key.descriptorKey: descriptorKey repeats descriptor_key says',
        'rate_limits.0.actions.0.generic_key.descriptor_value: descriptor_value: expected text',
      ],
    ],
    [
      [
        {
          stage: 11,
          actions: [{ masked_remote_address: { v4_prefix_mask_len: '33', v6_prefix_mask_len: 'all' } }],
        },
      ],
      [
        'rate_limits.0.actions.0.masked_remote_address.v4_prefix_mask_len: v4_prefix_mask_len: expected a whole number from 0 to 32, not "33"',
        'rate_limits.0.actions.0.masked_remote_address.v6_prefix_mask_len: v6_prefix_mask_len: expected a whole number from 0 to 128, not "all"',
        'rate_limits.0.stage: stage: expected a whole number from 0 to 10',
      ],
    ],
    [
      [{ actions: [{ request_headers: { header_name: 'a', descriptor_key: 'a', skip_if_absent: 'yes' } }] }],
      [
        'rate_limits.0.actions.0.request_headers.skip_if_absent: skip_if_absent: expected true or false, not "yes"',
      ],
    ],
  ];
  for (const [given, problems] of mistakes) {
    it(`rejects ${JSON.stringify(given)}`, () => {
      expect(read(given).problems).toEqual(problems);
    });
  }

  it('rejects invalid tests, two at once, and empty ones', () => {
    const at = 'rate_limits.0.actions.0.header_value_match.headers.0';
    const problemsOf = (header: Record<string, unknown>) => readMatcher(header).problems;
    expect(problemsOf({ exact_match: 'a', prefix_match: 'b' })).toEqual([
      `${at}.prefix_match: one test is allowed: exact_match or prefix_match`,
    ]);
    expect(problemsOf({ prefix_match: '' })).toEqual([
      `${at}.prefix_match: prefix_match: expected text, this is empty`,
    ]);
    expect(problemsOf({ string_match: {} })).toEqual([
      `${at}.string_match: string_match: expected one of exact, prefix, suffix, contains, safe_regex`,
    ]);
    expect(problemsOf({ string_match: { exact: 'a', suffix: 'b' } })).toEqual([
      `${at}.string_match.suffix: one test is allowed: exact or suffix`,
    ]);
    expect(problemsOf({ safe_regex_match: {} })).toEqual([
      `${at}.safe_regex_match: safe_regex_match: expected regex`,
    ]);
  });

  it('has regular expressions looked at', () => {
    expect(readMatcher({ safe_regex_match: { regex: '(' } }).problems).toEqual([
      'rate_limits.0.actions.0.header_value_match.headers.0.safe_regex_match.regex: regex: "(": error parsing regexp: missing closing ): `(`',
    ]);
    expect(readMatcher({ safe_regex_match: { regex: '()' } }).problems).toEqual([]);
  });

  it('rejects unknown fields and actions when it is strict', () => {
    const { problems } = read([
      { actions: [{ remote_address: { a: 1 } }, { remote_address_match: {} }], stages: 1 },
    ]);
    expect(problems).toEqual([
      'rate_limits.0.stages: rate_limits has no field "stages": did you mean stage?',
      'rate_limits.0.actions.0.remote_address.a: remote_address has no field "a": it has none',
      expect.stringContaining('rate_limits.0.actions.1.remote_address_match: actions has no field'),
    ]);
  });

  it('makes extensions of unknown actions and matchers when it is not', () => {
    const custom = { string_match: { custom: { name: 'lua' } } };
    const { actions, problems } = read(
      [
        {
          actions: [
            { remote_address: { a: 1 } },
            { remote_address_match: { descriptorKey: 'inside' } },
            { header_value_match: { descriptor_value: 'v', headers: [{ name: 'a', ...custom }] } },
            { header_value_match: { descriptor_value: 'v', headers: [{ name: 'a', new_match: {} }] } },
          ],
          stages: 1,
        },
      ],
      { strict: false },
    );
    expect(problems).toEqual([]);
    expect(actions).toEqual([
      { type: 'remote_address' },
      { type: 'extension', name: 'remote_address_match', descriptorKey: 'inside' },
      { type: 'extension', name: 'header_value_match', descriptorKey: 'header_match' },
      { type: 'extension', name: 'header_value_match', descriptorKey: 'header_match' },
    ]);
  });

  it('reads the same from YAML, whether its scalars are typed or texts', () => {
    const text = `
- stage: 1
  actions:
    - masked_remote_address: {v4_prefix_mask_len: 24}
    - generic_key: {descriptor_value: "5"}
    - header_value_match:
        descriptor_value: big
        expect_match: false
        headers: [{name: content-length, range_match: {start: 0, end: 1000}, invert_match: true}]
`;
    const [typed, texts] = (['typed', 'texts'] as const).map((scalars) => {
      const document = readDocument(text, scalars);
      return read('tape' in document ? document.value : undefined);
    });
    expect(typed?.problems).toEqual([]);
    expect(texts).toEqual(typed);
    expect(typed?.rateLimits).toHaveLength(1);
  });
});
