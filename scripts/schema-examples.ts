/** Examples for each field of the JSON Schemas, by its name. If a name has several meanings, the field above it is part of the key. */
import {
  calendarFields,
  type FieldRows,
  limitFields,
  type OverrideRows,
  overrideFields,
  reserveFields,
  ruleFields,
} from '../rules/language/fields.ts';
import { overrideSpecFields } from '../rules/language/kinds.ts';
import { enumName } from '../rules/language/tables.ts';
import { ruleFileWord } from './spec-schema.ts';

const hash = '2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae';
const matcher = { name: 'x-plan', string_match: { exact: 'gold' } };
const actions = [{ remote_address: {} }, { generic_key: { descriptor_value: 'checkout' } }];
const rateLimits = [{ actions }];

/** The example of each row, as manifests spell it. */
function examplesOf(rows: FieldRows | OverrideRows, parent = ''): Record<string, unknown> {
  const examples = Object.entries(rows).map(([name, { example, words }]): [string, unknown] => [
    `${parent}${name}`,
    words?.includes(String(example)) ? enumName(String(example)) : example,
  ]);
  return Object.fromEntries(examples);
}

/** Examples as manifests spell them. */
const ofRules: Record<string, unknown> = {
  ...examplesOf(overrideSpecFields),
  ...examplesOf(reserveFields),
  ...examplesOf(limitFields),
  ...examplesOf(ruleFields),
  ...examplesOf(calendarFields, 'calendar.'),
  'rateLimits.unlimited': limitFields.unlimited.amongSeveral.example,
  apiVersion: 'ratelimit.weir.dev/v1alpha1',
  'ratelimitconfig.kind': 'RateLimitConfig',
  'ratelimitfleet.kind': 'RateLimitFleet',
  'ratelimitoverride.kind': 'RateLimitOverride',
  'ratelimitconfig..metadata': { name: 'shop', namespace: 'shop' },
  'ratelimitfleet..metadata': { name: 'default', namespace: 'weir' },
  'ratelimitoverride..metadata': { name: 'acme', namespace: 'shop' },
  'metadata.name': 'shop',
  namespace: 'shop',
  labels: { team: 'search' },
  annotations: { owner: 'search' },
  'ratelimitconfig.spec': { domain: 'shop', descriptors: ruleFields.descriptors.example },
  'ratelimitfleet.spec': { count: 3 },
  'ratelimitoverride.spec': {
    domain: 'shop',
    match: overrideFields.match.example,
    requestsPerUnit: 100,
    for: '2h',
    reason: 'ticket 4711',
  },
  status: {},
  service: { namespace: 'weir', name: 'weir-limiter' },
  'service.name': 'weir-limiter',
  count: 3,
  disconnectedGraceSeconds: 30,
  onDisconnected: 'Ignore',
  allowedNamespaces: { from: 'All' },
  from: 'All',
  selector: { matchLabels: { team: 'search' } },
  matchLabels: { team: 'search' },
  matchExpressions: [{ key: 'team', operator: 'In', values: ['search'] }],
  'matchExpressions.key': 'team',
  operator: 'In',
  values: ['search'],
  domains: [{ match: 'shop*', namespaces: ['shop'] }],
  'domains.match': 'shop*',
  namespaces: ['shop', 'shop-*'],
};

const ofCallers: Record<string, unknown> = {
  callers: [{ name: 'checkout', token_sha256: hash, domains: ['shop'] }],
  name: 'checkout',
  certificate: { uri: 'spiffe://example.org/ns/*/sa/checkout' },
  uri: 'spiffe://example.org/ns/*/sa/checkout',
  dns: 'checkout.example.org',
  cn: 'checkout',
  token_sha256: hash,
  anonymous: true,
  domains: ['shop', 'shop-*'],
  rights: ['ask', 'read'],
  requests_per_second: 1000,
  on_excess: 'over_limit',
};

const ofProfiles: Record<string, unknown> = {
  profiles: { shop: { domain: 'shop', rate_limits: rateLimits } },
  domain: 'shop',
  rate_limits: rateLimits,
  refusedStatus: 403,
  onError: 'deny',
  trustedHops: 1,
  originalRequest: 'original-uri',
  actions,
  remote_address: {},
  masked_remote_address: { v4_prefix_mask_len: 24, v6_prefix_mask_len: 64 },
  request_headers: { header_name: 'x-plan', descriptor_key: 'plan' },
  query_parameters: { query_parameter_name: 'page', descriptor_key: 'page' },
  generic_key: { descriptor_value: 'checkout' },
  header_value_match: { descriptor_value: 'gold', headers: [matcher] },
  query_parameter_value_match: {
    descriptor_value: 'deep',
    query_parameters: [{ name: 'page', present_match: true }],
  },
  header_name: ':path',
  query_parameter_name: 'page',
  descriptor_key: 'plan',
  descriptor_value: 'gold',
  skip_if_absent: true,
  v4_prefix_mask_len: 24,
  v6_prefix_mask_len: 64,
  expect_match: false,
  headers: [matcher],
  'query_parameter_value_match.query_parameters': [{ name: 'page', present_match: true }],
  name: 'x-plan',
  invert_match: true,
  treat_missing_header_as_empty: true,
  string_match: { prefix: 'gold', ignore_case: true },
  present_match: true,
  range_match: { start: 1, end: 10 },
  start: 1,
  end: 10,
  safe_regex_match: { regex: 'gold|silver' },
  safe_regex: { regex: 'gold|silver' },
  regex: 'gold|silver',
  exact_match: 'gold',
  prefix_match: 'gold',
  suffix_match: 'gold',
  contains_match: 'gold',
  exact: 'gold',
  prefix: 'gold',
  suffix: 'gold',
  contains: 'gold',
  ignore_case: true,
};

const snake = (name: string): string =>
  name.replace(/(?<=[a-z0-9])[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Returns the value with the names of rule files on all levels. */
export function snakeKeys(value: unknown): unknown {
  if (typeof value === 'string') return ruleFileWord(value);
  if (Array.isArray(value)) return value.map(snakeKeys);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [snake(name), snakeKeys(one)]));
}

const ruleFileExamples = snakeKeys(ofRules) as Record<string, unknown>;

/** Returns examples of a field below another one (empty: at the top) in the schema of this name. Throws if there are none. */
export function exampleOf(schema: string, parent: string, name: string): unknown[] {
  const tables: Record<string, Record<string, unknown>> = {
    rules: ruleFileExamples,
    callers: ofCallers,
    profiles: ofProfiles,
  };
  const table = tables[schema] ?? ofRules;
  const names = schema === 'profiles' && !(name in table) ? [snake(parent), snake(name)] : [parent, name];
  const keys = [`${schema}.${names.join('.')}`, `${schema}.${names[1]}`, names.join('.'), names[1]!];
  const found = keys.find((key) => Object.hasOwn(table, key));
  if (found === undefined) throw new Error(`no example of ${schema}: ${parent}.${name}`);
  return [table[found]];
}
