import { describe, expect, it } from 'vitest';
import { type Limit, Unit, unitFromText } from '../model.ts';
import { formatRuleError } from '../rule-error.ts';
import { readRuleFiles } from './read-rule-files.ts';

const head = 'domain: d\ndescriptors:\n';

function read(text: string, { mergeDomains = false } = {}) {
  return readRuleFiles([{ name: 'f.yaml', text }], { mergeDomains });
}

function errorsOf(text: string): string[] {
  return read(text).errors.map(formatRuleError);
}

function firstRule(text: string) {
  const { errors, sources } = read(head + text);
  expect(errors).toEqual([]);
  return sources[0]?.descriptors[0];
}

const loading = 'error loading config file: yaml: ';
const unmarshal = `${loading}unmarshal errors:\n  `;

describe('readRuleFiles, errors', () => {
  const table: [what: string, text: string, ...errors: string[]][] = [
    ['an open quote', 'domain: "d\n', `1:9: ${loading}line 2: found unexpected end of stream`],
    [
      'an open bracket',
      'domain: d\ndescriptors: [\n',
      `2:14: ${loading}line 2: did not find expected ',' or ']'`,
    ],
    ['an open brace', 'a: {b: c\n', `1:4: ${loading}line 1: did not find expected ',' or '}'`],
    [
      'a missing comma',
      '{domain: d descriptors: []}',
      `1:23: ${loading}line 1: did not find expected ',' or '}'`,
    ],
    ['a comma too many', 'a: [b,,]\n', `1:7: ${loading}line 1: did not find expected node content`],
    [
      'a tab as indentation',
      `${head}\t- key: k\n`,
      `3:1: ${loading}line 3: found a tab character that violates indentation`,
    ],
    [
      'a map in a plain value',
      `${head}- key: a: b\n`,
      `3:9: ${loading}line 3: mapping values are not allowed in this context`,
    ],
    [
      'a key indented too deep',
      `${head}- key: a\n   value: b\n`,
      `4:9: ${loading}line 4: mapping values are not allowed in this context`,
    ],
    [
      'a key between two indentations',
      `${head}- key: a\n  rate_limit:\n    unit: day\n   name: n\n`,
      `6:4: ${loading}line 6: did not find expected key`,
    ],
    [
      'an item between two indentations',
      `${head}  - key: a\n   value: b\n`,
      `4:4: ${loading}line 4: did not find expected '-' indicator`,
    ],
    ['a list in the place of a key', 'domain: d\n- a\n', `2:1: ${loading}line 2: did not find expected key`],
    [
      'a list in the place of a scalar',
      'domain: - d\n',
      `1:9: ${loading}line 1: block sequence entries are not allowed in this context`,
    ],
    [
      'a key without colon',
      `${head}- key: a\n  value\n`,
      `4:3: ${loading}line 4: could not find expected ':'`,
    ],
    [
      'a character that starts nothing',
      'domain: @d\n',
      `1:9: ${loading}line 1: found character that cannot start any token`,
    ],
    ['text behind a quoted value', 'domain: "d" e\n', `1:13: ${loading}line 1: did not find expected key`],
    ['an unknown escape', 'domain: "\\q"\n', `1:11: ${loading}line 1: found unknown escape character`],
    [
      'half a character',
      'domain: "\\ud800"\n',
      `1:10: ${loading}line 1: found invalid Unicode character escape code`,
    ],
    ['a control character', 'domain: d\n# \u0007\n', `2:3: ${loading}control characters are not allowed`],
    ['an unknown anchor', 'domain: *x\n', `1:10: ${loading}unknown anchor 'x' referenced`],
    ['an anchor inside itself', 'domain: &x [*x]\n', `1:14: ${loading}anchor 'x' value contains itself`],
    [
      'a merge of a scalar',
      `${head}- <<: 5\n`,
      `3:7: ${loading}map merge requires map or sequence of maps as the value`,
    ],
    [
      'a merge of an alias to a list',
      `${head}- key: k\n  metadata: {a: &x [], <<: *x}\n`,
      `4:20: ${loading}map merge requires map or sequence of maps as the value`,
    ],
    [
      'a tag that does not fit',
      'domain: !!int abc\n',
      `1:15: ${loading}cannot decode !!str \`abc\` as a !!int`,
    ],
    [
      'binary that is not base64',
      'domain: !!binary a\n',
      `1:18: ${loading}!!binary value contains invalid base64 data`,
    ],
    ['a list as key', '[a]: b\n', `1:1: ${loading}invalid map key: [a]`],
    ['too deep a document', '['.repeat(500), `1:400: ${loading}line 1: exceeded max depth of 400`],
    [
      'a list as the document',
      '\n- a\n',
      `2:1: ${unmarshal}line 2: cannot unmarshal !!seq into map[interface {}]interface {}`,
    ],
    [
      'a text as the document',
      'hello world\n',
      `1:1: ${unmarshal}line 1: cannot unmarshal !!str \`hello w...\` into map[interface {}]interface {}`,
    ],
    [
      'a number as the document',
      '5',
      `1:1: ${unmarshal}line 1: cannot unmarshal !!int \`5\` into map[interface {}]interface {}`,
    ],
    ['an unknown key', 'domain: d\ndomains: e\n', "2:1: config error, unknown key 'domains'"],
    ['a key in another case', 'Domain: d\n', "1:1: config error, unknown key 'Domain'"],
    ['an unknown key in a misplaced map', 'domain: d\nunit: {x: y}\n', "2:8: config error, unknown key 'x'"],
    ['a boolean key', 'domain: d\nyes: n\n', '2:1: config error, key is not of type string: true'],
    ['an octal key', 'domain: d\n010: n\n', '2:1: config error, key is not of type string: 8'],
    ['a null key', 'domain: d\n~: n\n', '2:1: config error, key is not of type string: <nil>'],
    ['a float key', 'domain: d\n1.50: n\n', '2:1: config error, key is not of type string: 1.5'],
    [
      'a text in a list',
      `${head}- k\n`,
      '3:3: config error, yaml file contains list of type other than map: k',
    ],
    [
      'null in a list',
      `${head}- ~\n`,
      '3:3: config error, yaml file contains list of type other than map: <nil>',
    ],
    [
      'a list in a list',
      `${head}- [a, 5, {b: ~}]\n`,
      '3:3: config error, yaml file contains list of type other than map: [a 5 map[b:<nil>]]',
    ],
    ['a float', `${head}- key: 1.5\n`, '3:8: error checking config'],
    ['an integer beyond 64 bits', `${head}- key: 9223372036854775808\n`, '3:8: error checking config'],
    [
      'a float as a number of requests',
      `${head}- key: k\n  rate_limit: {unit: day, requests_per_unit: 1e3}\n`,
      '4:46: error checking config',
    ],
    ['a map as text', `${head}- key: {}\n`, `3:8: ${unmarshal}line 3: cannot unmarshal !!map into string`],
    ['a list as text', `${head}- key: []\n`, `3:8: ${unmarshal}line 3: cannot unmarshal !!seq into string`],
    [
      'a list of texts as text',
      `${head}- key: [a, {b: 1}, c]\n`,
      '3:9: config error, yaml file contains list of type other than map: a',
      "3:13: config error, unknown key 'b'",
      `3:8: ${unmarshal}line 3: cannot unmarshal !!seq into string`,
    ],
    [
      'a map as a list',
      'domain: d\ndescriptors: {key: k}\n',
      `2:14: ${unmarshal}line 2: cannot unmarshal !!map into []config.YamlDescriptor`,
    ],
    [
      'a text as a list',
      'domain: d\ndescriptors: k\n',
      `2:14: ${unmarshal}line 2: cannot unmarshal !!str \`k\` into []config.YamlDescriptor`,
    ],
    [
      'a number as a limit',
      `${head}- key: k\n  rate_limit: 5\n`,
      `4:15: ${unmarshal}line 4: cannot unmarshal !!int \`5\` into config.YamlRateLimit`,
    ],
    [
      'a text as replaces',
      `${head}- key: k\n  rate_limit: {unit: day, replaces: m}\n`,
      `4:37: ${unmarshal}line 4: cannot unmarshal !!str \`m\` into []config.yamlReplaces`,
    ],
    [
      'a list as metadata',
      `${head}- key: k\n  metadata: [1.5]\n`,
      `4:13: ${unmarshal}line 4: cannot unmarshal !!seq into map[string]interface {}`,
    ],
    [
      'a quoted boolean',
      `${head}- key: k\n  shadow_mode: "true"\n`,
      `4:16: ${unmarshal}line 4: cannot unmarshal !!str \`true\` into bool`,
    ],
    [
      'a number as boolean',
      `${head}- key: k\n  quota_mode: 1\n`,
      `4:15: ${unmarshal}line 4: cannot unmarshal !!int \`1\` into bool`,
    ],
    [
      'a quoted number',
      `${head}- key: k\n  rate_limit: {unit: day, requests_per_unit: "12345678901"}\n`,
      `4:46: ${unmarshal}line 4: cannot unmarshal !!str \`1234567...\` into uint32`,
    ],
    [
      'a negative number',
      `${head}- key: k\n  rate_limit: {unit: day, requests_per_unit: -1}\n`,
      `4:46: ${unmarshal}line 4: cannot unmarshal !!int \`-1\` into uint32`,
    ],
    [
      'a number beyond 2^53',
      `${head}- key: k\n  rate_limit: {unit: day, requests_per_unit: 9007199254740992}\n`,
      '4:46: requests_per_unit can be at most 9007199254740991 (2^53 - 1), found 9007199254740992',
    ],
    ['an empty file', '', '1:1: config file cannot have empty domain'],
    ['comments only', '# a\n', '2:1: config file cannot have empty domain'],
    ['no domain', 'descriptors: []\n', '1:1: config file cannot have empty domain'],
    ['an empty domain', 'domain: ""\n', '1:9: config file cannot have empty domain'],
    ['a null domain', 'domain: ~\n', '1:9: config file cannot have empty domain'],
    ['no key', `${head}- value: v\n`, '3:3: descriptor has empty key'],
    ['an empty key', `${head}- key: ''\n`, '3:8: descriptor has empty key'],
    [
      'a repeated descriptor',
      `${head}- key: a_b\n  value: c\n- key: a\n  value: b_c\n`,
      "5:8: duplicate descriptor composite key 'd.a_b_c'",
    ],
    [
      'a repeated nested descriptor',
      `${head}- key: a\n  value: b\n  descriptors: [{key: c}, {key: c}]\n`,
      "5:33: duplicate descriptor composite key 'd.a_b.c'",
    ],
    ['no unit', `${head}- key: k\n  rate_limit: {}\n`, "4:15: invalid rate limit unit ''"],
    [
      'an unknown unit',
      `${head}- key: k\n  rate_limit: {unit: Fortnight}\n`,
      "4:22: invalid rate limit unit 'Fortnight'",
    ],
    [
      'the unit UNKNOWN',
      `${head}- key: k\n  rate_limit: {unit: UNKNOWN}\n`,
      "4:22: invalid rate limit unit 'UNKNOWN'",
    ],
    [
      'unlimited with a unit',
      `${head}- key: k\n  rate_limit: {unlimited: true, unit: Day}\n`,
      '4:39: should not specify rate limit unit when unlimited',
    ],
    [
      'replaces without name',
      `${head}- key: k\n  rate_limit: {unit: day, replaces: [{}]}\n`,
      '4:38: should not have an empty replaces entry',
    ],
    [
      'replaces of itself',
      `${head}- key: k\n  rate_limit: {unit: day, name: n, replaces: [{name: m}, {name: n}]}\n`,
      '4:65: replaces should not contain name of same descriptor',
    ],
    [
      'share_threshold without wildcard',
      `${head}- key: k\n  value: v\n  share_threshold: true\n`,
      "5:20: share_threshold can only be used with wildcard values (containing '*'), but found key 'k_v'",
    ],
    [
      'a multiplier that is no number',
      `${head}- key: k\n  rate_limit: {unit: day, unit_multiplier: five}\n`,
      `4:44: ${unmarshal}line 4: cannot unmarshal !!str \`five\` into uint32`,
    ],
    [
      'a multiplier of none',
      `${head}- key: k\n  rate_limit: {unit: day, unit_multiplier: 0}\n`,
      '4:44: unit_multiplier must be 1 to 65535, found 0',
    ],
    [
      'a window that is no time',
      `${head}- key: k\n  rate_limit: {window: 5 minutes, requests_per_unit: 1}\n`,
      "4:24: the window '5 minutes' is not a duration such as 30s, 5m, 1h30m, 1d, 2w, 1mo or 1y",
    ],
    [
      'a window beside a unit, by way of a merged map',
      `${head}- key: k\n  rate_limit: {<<: {unit: day}, window: 5m}\n`,
      '4:41: window replaces unit and unit_multiplier, found unit beside it',
    ],
    [
      'a window beside a multiplier',
      `${head}- key: k\n  rate_limit: {unit_multiplier: 1, window: 5m}\n`,
      '4:44: window replaces unit and unit_multiplier, found unit_multiplier beside it',
    ],
    [
      'an unknown algorithm, and not what follows from it',
      `${head}- key: k\n  rate_limit: {unit: day, algorithm: leaky, burst: 5}\n`,
      "4:38: unknown algorithm 'leaky': there are fixed_window, sliding_window and token_bucket",
    ],
    [
      'a burst of something else than a bucket',
      `${head}- key: k\n  rate_limit: {unit: day, burst: 5}\n`,
      '4:34: burst works only with algorithm token_bucket',
    ],
    [
      'an algorithm of something unlimited',
      `${head}- key: k\n  rate_limit: {unlimited: true, algorithm: fixed_window, window: 5m}\n`,
      '4:66: should not specify window when unlimited',
      '4:44: should not specify algorithm when unlimited',
    ],
    [
      'what the Go service does not know beside a limit',
      `${head}- key: k\n  algorithm: token_bucket\n  burst: 5\n  rate_limit: {unit: day, rate_limits: []}\n`,
      "4:3: config error, key 'algorithm' belongs to rate_limit",
      "5:3: config error, key 'burst' belongs to rate_limit",
      "6:27: config error, key 'rate_limits' belongs to a descriptor",
    ],
    [
      'words of a rule in one of its limits',
      `${head}- key: k\n  rate_limits:\n  - {unit: day, shadow_mode: true}\n  - {unit: hour}\n`,
      "5:17: config error, key 'shadow_mode' belongs to a descriptor",
    ],
    [
      'no list of limits',
      `${head}- key: k\n  rate_limits: {unit: day}\n`,
      `4:16: ${unmarshal}line 4: cannot unmarshal !!map into []config.YamlRateLimit`,
    ],
    [
      'an empty list of limits',
      `${head}- key: k\n  rate_limits:\n`,
      '4:15: rate_limits must have 2 to 8 limits, found 0',
    ],
    [
      'a list of one limit',
      `${head}- key: k\n  rate_limits: [{unit: dya}]\n`,
      '4:16: rate_limits must have 2 to 8 limits, found 1',
    ],
    [
      'one limit beside several',
      `${head}- key: k\n  rate_limits: [{unit: day}, {unit: hour}]\n  rate_limit: {unit: minute}\n`,
      '5:3: a rule has either rate_limit or rate_limits, found both',
    ],
    [
      'several limits beside one',
      `${head}- key: k\n  rate_limit: {unit: minute}\n  rate_limits: [{unit: day}, {unit: hour}]\n`,
      '5:3: a rule has either rate_limit or rate_limits, found both',
    ],
    [
      'what is wrong with one of several limits',
      `${head}- key: k\n  rate_limits:\n  - {unit: day, name: n}\n  - {unit: dya}\n  - {unlimited: true}\n  - 5\n`,
      '8:5: config error, yaml file contains list of type other than map: 5',
      "6:12: invalid rate limit unit 'dya'",
      '7:17: unlimited cannot be one of rate_limits',
    ],
    [
      'the meaning of several limits',
      `${head}- key: k\n  rate_limits:\n  - {unit: day, name: n}\n  - {unit: dya, name: n}\n  - {unlimited: true}\n  - {window: 24h, name: m}\n`,
      "6:12: invalid rate limit unit 'dya'",
      '7:17: unlimited cannot be one of rate_limits',
      "6:23: two of its rate_limits have the name 'n'",
      '8:5: two of its rate_limits have the window 1d and the algorithm fixed_window',
    ],
    [
      'leases that are none',
      `${head}${['2', '0.02', '-1', '101%', 'half'].map((lease, n) => `- {key: k${n}, rate_limit: {unit: day}, lease: ${lease}}\n`).join('')}`,
      ...['2', '0.02', '-1', '101%', 'half'].map(
        (lease, n) =>
          `${3 + n}:45: lease must be a share of the limit such as 2% or 0.5%, of 100% at most, or 0, found '${lease}'`,
      ),
    ],
    [
      'a lease that is a list',
      `${head}- key: k\n  rate_limit: {unit: day}\n  lease: []\n`,
      '5:10: error loading config file: yaml: unmarshal errors:\n  line 5: cannot unmarshal !!seq into string',
    ],
    [
      'a lease in a limit',
      `${head}- key: k\n  rate_limit: {unit: day, lease: 2%}\n`,
      "4:27: config error, key 'lease' belongs to a descriptor",
    ],
    [
      'a lease of what cannot be leased',
      `${head}- {key: k, lease: 2%}\n- {key: l, lease: 0, rate_limit: {unlimited: true}}\n- {key: m, lease: 1%, rate_limit: {unit: day, algorithm: token_bucket}}\n`,
      '3:19: lease needs a rate_limit beside it',
      '4:19: should not specify lease when unlimited',
      '5:19: lease can only be 0 with algorithm token_bucket: only fixed windows are leased',
    ],
    [
      'a lease beside a limit that cannot be read, by that alone',
      `${head}- key: k\n  rate_limit: 5\n  lease: 2%\n`,
      '4:15: error loading config file: yaml: unmarshal errors:\n  line 4: cannot unmarshal !!int `5` into config.YamlRateLimit',
    ],
    [
      'a form of assignments that there is not',
      `${head}- {key: k, assign: exact}\n- {key: l, assign: half, rate_limit: {unit: day}}\n`,
      "4:20: assign must be exact or refilling, found 'half'",
    ],
    [
      'metadata without JSON form',
      `${head}- key: k\n  metadata: {a: [.nan]}\n`,
      "4:13: error parsing metadata: number NaN at 'a.0' has no JSON form",
    ],
  ];

  it.each(table)('names %s', (_, text, ...errors) => {
    expect(errorsOf(text)).toEqual(errors.map((error) => `f.yaml:${error}`));
  });

  it('gives all errors of a file, those first that the Go service comes upon first', () => {
    const text = `${head}- key: k
  rate_limit: {unit: parsec, requests_per_unit: -1}
- key: l
  colour: red
- key: 1.5
- {}
`;
    expect(errorsOf(text)).toEqual([
      "f.yaml:6:3: config error, unknown key 'colour'",
      'f.yaml:7:8: error checking config',
      `f.yaml:4:49: ${unmarshal}line 4: cannot unmarshal !!int \`-1\` into uint32`,
      "f.yaml:4:22: invalid rate limit unit 'parsec'",
      'f.yaml:8:3: descriptor has empty key',
    ]);
  });

  it('gives the errors of all files, what cannot be read before what makes no sense', () => {
    const files = [
      { name: 'a.yaml', text: 'domain: ""\n' },
      { name: 'b.yaml', text: 'domain: "\n' },
      { name: 'c.yaml', text: `${head}- key: ''\n` },
      { name: 'd.yaml', text: 'domain: d\nx: y\n' },
    ];
    expect(readRuleFiles(files, { mergeDomains: false }).errors.map(formatRuleError)).toEqual([
      `b.yaml:1:9: ${loading}line 2: found unexpected end of stream`,
      "d.yaml:2:1: config error, unknown key 'x'",
      'a.yaml:1:9: config file cannot have empty domain',
      'c.yaml:3:8: descriptor has empty key',
      "d.yaml:1:9: duplicate domain 'd' in config file",
    ]);
  });

  it.each([
    ['after the other file', ['domain: d\n', 'domain: d\ndescriptors: [\n'], ['b.yaml:2:14', 'b.yaml:1:9']],
    [
      'before the other file',
      ['domain: d # x\ndescriptors:\n\t- key: k\n', 'domain: d\n'],
      ['a.yaml:3:1', 'b.yaml:1:9'],
    ],
    [
      'with its rules before its domain',
      [`descriptors: []\ndomain: "d"\nx: "\n`, 'domain: d\n'],
      ['a.yaml:3:4', 'b.yaml:1:9'],
    ],
    ['with another domain', ['domain: e\nx: "\n', 'domain: d\n'], ['a.yaml:2:4']],
    ['with an error before its domain', ['x: "\ndomain: d\n', 'domain: d\n'], ['a.yaml:1:4']],
    ['with an error in its domain', ['domain: d: d\n', 'domain: d\n'], ['a.yaml:1:10']],
    ['with two domains', ['domain: d\ndomain: e\nx: "\n', 'domain: d\n'], ['a.yaml:3:4']],
    ['with a map as domain', ['domain: {a: b}\nx: "\n', 'domain: d\n'], ['a.yaml:2:4']],
  ])('compares the domain of a file that is not YAML: %s', (_, texts, places) => {
    const files = texts.map((text, index) => ({ name: `${'ab'[index]}.yaml`, text }));
    const { errors, located } = readRuleFiles(files, { mergeDomains: false });
    expect(errors.map(({ source, line, column }) => `${source}:${line}:${column}`)).toEqual(places);
    expect(located).toHaveLength(1);
  });

  const consequences: [what: string, text: string, only: string][] = [
    ['a missing key', `${head}- kye: k\n`, "f.yaml:3:3: config error, unknown key 'kye'"],
    ['a missing domain', 'domian: d\n', "f.yaml:1:1: config error, unknown key 'domian'"],
    [
      'a missing unit',
      `${head}- key: k\n  rate_limit: {units: day}\n`,
      "f.yaml:4:16: config error, unknown key 'units'",
    ],
    [
      'a missing name',
      `${head}- key: k\n  rate_limit: {unit: day, replaces: [{nmae: n}]}\n`,
      "f.yaml:4:39: config error, unknown key 'nmae'",
    ],
    ['a duplicate', `${head}- key: k\n- key: k\n  value: 1.5\n`, 'f.yaml:5:10: error checking config'],
    [
      'a missing wildcard',
      `${head}- key: k\n  share_threshold: true\n  value: 1.5\n`,
      'f.yaml:5:10: error checking config',
    ],
  ];
  it.each(consequences)('does not report %s that follows from an error', (_, text, only) => {
    expect(errorsOf(text)).toEqual([only]);
  });

  it('reports a bad unit beside an unknown key', () => {
    expect(errorsOf(`${head}- key: k\n  rate_limit: {unit: x, z: y}\n`)).toEqual([
      "f.yaml:4:25: config error, unknown key 'z'",
      "f.yaml:4:22: invalid rate limit unit 'x'",
    ]);
  });

  it('keeps the positions of elements behind one that is not a map', () => {
    expect(errorsOf(`${head}- a\n- key: ''\n`)).toEqual([
      'f.yaml:3:3: config error, yaml file contains list of type other than map: a',
      'f.yaml:4:8: descriptor has empty key',
    ]);
  });

  it('points into aliases and merged maps', () => {
    const text = `${head}- &a\n  key: k\n  rate_limit: &b\n    unit: x\n- <<: *a\n  key: l\n- key: m\n  rate_limit: *b\n`;
    expect(errorsOf(text)).toEqual(Array(3).fill("f.yaml:6:11: invalid rate limit unit 'x'"));
  });

  it('gives the path of every error', () => {
    const { errors } = read(
      `${head}- key: k\n  x: y\n  descriptors:\n  - key: l\n    rate_limit: {unit: u}\n`,
    );
    expect(errors.map(({ code, path }) => ({ code, path }))).toEqual([
      { code: 'unknown-key', path: ['descriptors', 0, 'x'] },
      { code: 'invalid-unit', path: ['descriptors', 0, 'descriptors', 0, 'rate_limit', 'unit'] },
    ]);
  });

  it('lists so many errors and counts the rest', () => {
    const text = head + '- value: v\n'.repeat(1200);
    const { errors, errorCount } = read(text);
    expect(errors).toHaveLength(1000);
    expect(errorCount).toBe(1200);
    expect(errors.slice(0, 3).map((error) => error.line)).toEqual([3, 4, 5]);
  });

  it('has no sources when there is an error', () => {
    const files = [
      { name: 'a', text: 'domain: a\n' },
      { name: 'b', text: '' },
    ];
    expect(readRuleFiles(files, { mergeDomains: false }).sources).toEqual([]);
  });

  it('ends the expansion of aliases', () => {
    let text = `${head}- key: k\n  metadata:\n    a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n`;
    for (let i = 1; i < 9; i++) {
      text += `    a${i}: &a${i} [${Array(10).fill(`*a${i - 1}`)}]\n`;
    }
    expect(errorsOf(text)).toEqual([
      expect.stringMatching(
        /^f.yaml:5:\d+: error loading config file: yaml: document contains excessive aliasing$/,
      ),
    ]);
  });

  it('ends a chain of aliases that is too deep', () => {
    const nested = (inner: string) => '['.repeat(150) + inner + ']'.repeat(150);
    const text = `${head}- key: k\n  metadata:\n    a: &a ${nested('')}\n    b: &b ${nested('*a')}\n    c: ${nested('*b')}\n`;
    expect(errorsOf(text)).toEqual([expect.stringContaining('yaml: exceeded max depth of 400')]);
  });
});

describe('readRuleFiles, warnings', () => {
  const table: [what: string, text: string, ...warnings: string[]][] = [
    [
      'a key that belongs elsewhere',
      'domain: d\nunit: day\n',
      "2:1: config warning, key 'unit' has no effect here, it belongs to rate_limit",
    ],
    [
      'a key that belongs to two kinds of map',
      `${head}- key: k\n  name: n\n`,
      "4:3: config warning, key 'name' has no effect here, it belongs to rate_limit or an element of replaces",
    ],
    [
      'a repeated key',
      `domain: d\ndomain: e\n`,
      "2:1: config warning, key 'domain' is repeated, the last one counts",
    ],
  ];
  it.each(table)('warns of %s', (_, text, ...warnings) => {
    const result = read(text);
    expect(result.errors).toEqual([]);
    expect(result.warnings.map(formatRuleError)).toEqual(warnings.map((warning) => `f.yaml:${warning}`));
  });
});

describe('readRuleFiles, values', () => {
  it.each([
    ['2%', 20_000],
    ['"0.5%"', 5_000],
    ['0', 0],
    ['~', undefined],
  ])('reads the lease %s', (written, lease) => {
    expect(firstRule(`- key: k\n  rate_limit: {unit: day}\n  lease: ${written}\n`)?.lease).toBe(lease);
  });

  it.each([
    ['5', '5'],
    ['010', '010'],
    ['0x1F', '0x1F'],
    ['true', 'true'],
    ['Off', 'Off'],
    ['~', ''],
    ['null', ''],
    ['', ''],
    ['"~"', '~'],
    ["'null'", 'null'],
    ['2001-01-01', '2001-01-01'],
    ['1.2.3', '1.2.3'],
    ['"1.5"', '1.5'],
    ['!!str 1.5', '1.5'],
    ['!!binary YWI=', 'ab'],
    ['!own x', 'x'],
    ['|\n    x\n    y', 'x\ny\n'],
  ])('reads the text %s', (written, text) => {
    expect(firstRule(`- key: k\n  value: ${written}\n`)?.value).toBe(text);
  });

  it.each([
    ['5', 5],
    ['0', 0],
    ['010', 8],
    ['0x10', 16],
    ['0b11', 3],
    ['0o17', 15],
    ['1_000', 1000],
    ['+7', 7],
    ['4294967295', 4294967295],
    ['~', 0],
  ])('reads the number %s', (written, number) => {
    const rule = firstRule(`- key: k\n  rate_limit: {unit: day, requests_per_unit: ${written}}\n`);
    expect(rule?.limits[0]?.requestsPerUnit).toBe(number);
  });

  it.each([
    ['y', true],
    ['Yes', true],
    ['ON', true],
    ['true', true],
    ['n', false],
    ['no', false],
    ['off', false],
    ['False', false],
    ['~', false],
  ])('reads the boolean %s', (written, boolean) => {
    expect(firstRule(`- key: k\n  shadow_mode: ${written}\n`)?.shadowMode).toBe(boolean);
  });

  it.each(['second', 'MINUTE', 'Hour', 'day', 'week', 'month', 'yEAR'])('accepts the unit %s', (unit) => {
    expect(firstRule(`- key: k\n  rate_limit: {unit: ${unit}}\n`)?.limits[0]?.unit).toBe(unitFromText(unit));
  });

  it.each<[string, Partial<Limit>]>([
    ['{unit: day, unit_multiplier: 7}', { unit: Unit.DAY, unitMultiplier: 7 }],
    ['{window: 1h30m, algorithm: SLIDING_window}', { unit: Unit.MINUTE, unitMultiplier: 90, algorithm: 1 }],
    ['{unit: day, algorithm: token_bucket, burst: 0}', { algorithm: 2, burst: 0, requestsPerUnit: 0 }],
    ['{unit: day, algorithm: fixed_window}', { algorithm: 0, burst: undefined, unitMultiplier: 1 }],
  ])('reads the limit %s', (written, limit) => {
    expect(firstRule(`- key: k\n  rate_limit: ${written}\n`)?.limits).toMatchObject([limit]);
  });

  it('reads several limits, the last list if it is repeated', () => {
    const lists = '  rate_limits: [{}]\n  rate_limits: [{unit: second}, {window: 5m, name: n}]\n';
    expect(firstRule(`- key: k\n${lists}`)?.limits).toMatchObject([
      { unit: Unit.SECOND, unitMultiplier: 1, name: '' },
      { unit: Unit.MINUTE, unitMultiplier: 5, name: 'n' },
    ]);
  });

  it('takes a null limit for none and null lists for empty ones', () => {
    expect(firstRule('- key: k\n  rate_limit:\n  descriptors:\n')).toMatchObject({
      limits: [],
      descriptors: [],
    });
    expect(read('domain: d\ndescriptors:\n').sources).toEqual([
      { name: 'f.yaml', domain: 'd', descriptors: [] },
    ]);
  });

  it('accepts an unlimited rule with a misspelled unit', () => {
    const text = '- key: k\n  rate_limit: {unlimited: true, unit: dya, requests_per_unit: 5}\n';
    expect(firstRule(text)?.limits[0]).toMatchObject({ unlimited: true, requestsPerUnit: 5 });
  });

  it('reads metadata of any content', () => {
    const text = `- key: k
  metadata:
    5: int
    ~: none
    on: x
    colour: red
    nested: {010: 1, yes: ~, 1.50: -2.5, a: [1, {b: .5}, "c", 0x10, 18446744073709551615, 2001-01-01]}
`;
    expect(firstRule(text)?.metadata).toEqual({
      '5': 'int',
      '': 'none',
      on: 'x',
      colour: 'red',
      nested: {
        '8': 1,
        true: null,
        '1.5': -2.5,
        a: [1, { b: 0.5 }, 'c', 16, 2 ** 64, '2001-01-01'],
      },
    });
  });

  it('keeps __proto__ an ordinary key', () => {
    const metadata = firstRule('- key: __proto__\n  metadata: {__proto__: {a: b}}\n')?.metadata;
    expect(Object.entries(metadata ?? {})).toEqual([['__proto__', { a: 'b' }]]);
    expect(errorsOf('domain: d\n__proto__: x\n')).toEqual([
      "f.yaml:2:1: config error, unknown key '__proto__'",
    ]);
  });

  it('takes empty metadata for none', () => {
    expect(firstRule('- key: k\n  metadata: {}\n')?.metadata).toBeUndefined();
  });

  it('merges in the order of the document, deeply, as the Go service does', () => {
    const text = `- &a
  key: a
  rate_limit: {unit: day, requests_per_unit: 5, name: n}
  metadata: {x: 1, y: {z: 1}}
- <<: *a
  key: b
  rate_limit: {requests_per_unit: 6}
  metadata: {y: {w: 2}}
- key: c
  <<: [{key: d}, {key: e, value: v}]
`;
    const { sources, errors } = read(head + text);
    expect(errors).toEqual([]);
    expect(sources[0]?.descriptors).toMatchObject([
      {
        key: 'a',
        limits: [{ unit: Unit.DAY, requestsPerUnit: 5, name: 'n' }],
        metadata: { x: 1, y: { z: 1 } },
      },
      {
        key: 'b',
        limits: [{ unit: Unit.DAY, requestsPerUnit: 6, name: 'n' }],
        metadata: { x: 1, y: { w: 2 } },
      },
      { key: 'd', value: 'v' },
    ]);
  });

  it('lets the last of repeated keys win', () => {
    expect(firstRule('- key: a\n  key: b\n  descriptors: [{key: c}]\n  descriptors: []\n')).toMatchObject({
      key: 'b',
      descriptors: [],
    });
  });

  it('reads the first document only', () => {
    expect(read('---\ndomain: a\n---\ndomain: [\n').sources).toMatchObject([{ domain: 'a' }]);
    expect(read('domain: !!str a\n...\n"').sources).toMatchObject([{ domain: 'a' }]);
  });

  it('accepts bytes, also with a byte order mark and in UTF-16', () => {
    const text = 'domain: é😀\n';
    const utf16 = Buffer.from(`\ufeff${text}`, 'utf16le');
    const contents = [
      Buffer.from(text),
      Buffer.from(`\ufeff${text}`),
      utf16,
      Buffer.from(utf16).swap16(),
      `\ufeff${text}`,
    ];
    for (const content of contents) {
      const { sources } = readRuleFiles([{ name: 'f', text: content }], { mergeDomains: false });
      expect(sources).toMatchObject([{ domain: 'é😀' }]);
    }
  });

  it('adds the rules of one domain only when asked to', () => {
    const files = [
      { name: 'a', text: 'domain: d\ndescriptors: [{key: k}]\n' },
      { name: 'b', text: 'domain: d\ndescriptors: [{key: l}, {key: k}]\n' },
    ];
    const texts = (mergeDomains: boolean) =>
      readRuleFiles(files, { mergeDomains }).errors.map(formatRuleError);
    expect(texts(false)).toEqual(["b:1:9: duplicate domain 'd' in config file"]);
    expect(texts(true)).toEqual(["b:2:31: duplicate descriptor composite key 'd.k'"]);
  });
});

it('makes one limit for all rules of a file that say the same', () => {
  const rules = ['a', 'b', 'c'].map(
    (key) => `- key: ${key}\n  rate_limit: { unit: minute, requests_per_unit: ${key === 'c' ? 6 : 5} }\n`,
  );
  const named = '- key: d\n  rate_limit: { unit: minute, requests_per_unit: 5, name: n }\n';
  const text = `domain: d\ndescriptors:\n${rules.join('')}${named}`;
  const { sources } = readRuleFiles([{ name: 'f', text }], { mergeDomains: false });
  const [a, b, c, d] = sources[0]!.descriptors.map(({ limits }) => limits[0]!);
  expect(b).toBe(a);
  expect([c!.requestsPerUnit, d!.name]).toEqual([6, 'n']);
});
