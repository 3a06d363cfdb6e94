/** Specs that both the API server and the reader of manifests reject, and what each of them says. */
export interface RejectedSpec {
  name: string;
  spec: unknown;
  /** A part of the API server's message. */
  server: string;
  /** Every error of the reader. */
  reader: string[];
}

const unitPattern = '^(?i:second|minute|hour|day|week|month|year)$';
const dnsLabel = 'a DNS label (lower case letters, digits and inner hyphens)';

function rule(name: string, descriptor: unknown, server: string, ...reader: string[]): RejectedSpec {
  return { name, spec: { domain: 'shop', descriptors: [descriptor] }, server, reader };
}

function limit(name: string, rateLimit: unknown, server: string, ...reader: string[]): RejectedSpec {
  return rule(name, { key: 'k', rateLimit }, server, ...reader);
}

function limits(name: string, rateLimits: unknown, server: string, ...reader: string[]): RejectedSpec {
  return rule(name, { key: 'k', rateLimits }, server, ...reader);
}

const daily = { unit: 'day', requestsPerUnit: 1 };
const noShare = 'lease must be a share of the limit such as 2% or 0.5%, of 100% at most, or 0, found ';

function lease(name: string, given: unknown, server: string, reader: string): RejectedSpec {
  const at = 'spec.descriptors[0].lease';
  return rule(
    `a lease ${name}`,
    { key: 'k', rateLimit: daily, lease: given },
    `${at} ${server}`,
    `${at}: ${reader}`,
  );
}

/** Rules nested `levels` deep. */
export function nested(levels: number): Record<string, unknown> {
  return levels === 1 ? { key: 'k' } : { key: 'k', descriptors: [nested(levels - 1)] };
}

const tooDeep = `spec${'.descriptors[0]'.repeat(8)}.descriptors`;

export const rejectedSpecs: readonly RejectedSpec[] = [
  {
    name: 'no domain',
    spec: {},
    server: 'spec.domain: Required value',
    reader: ['spec.domain: is required'],
  },
  {
    name: 'an empty domain',
    spec: { domain: '' },
    server: 'spec.domain in body should be at least 1 chars long',
    reader: ['spec.domain: config file cannot have empty domain'],
  },
  {
    name: 'a long domain',
    spec: { domain: 'a'.repeat(254) },
    server: 'spec.domain: Too long: may not be more than 253',
    reader: ['spec.domain: must have at most 253 characters, found 254'],
  },
  {
    name: 'a fleet that is no label',
    spec: { domain: 'shop', fleet: 'Blue' },
    server: 'spec.fleet in body should match',
    reader: [`spec.fleet: must be ${dnsLabel}, found 'Blue'`],
  },
  {
    name: 'an empty fleet',
    spec: { domain: 'shop', fleet: '' },
    server: 'spec.fleet in body should match',
    reader: [`spec.fleet: must be ${dnsLabel}, found ''`],
  },
  {
    name: 'descriptors that are no list',
    spec: { domain: 'shop', descriptors: { key: 'k' } },
    server: 'spec.descriptors: expected list',
    reader: ['spec.descriptors: must be a list, found an object'],
  },
  {
    name: 'an unknown field',
    spec: { domain: 'shop', domains: ['a'] },
    server: '.spec.domains: field not declared in schema',
    reader: ['spec.domains: unknown field'],
  },
  rule('no key', {}, 'spec.descriptors[0].key: Required value', 'spec.descriptors[0].key: is required'),
  rule(
    'an empty key',
    { key: '' },
    'spec.descriptors[0].key in body should be at least 1 chars long',
    'spec.descriptors[0].key: descriptor has empty key',
  ),
  rule(
    'a long key',
    { key: 'k'.repeat(1025) },
    'spec.descriptors[0].key: Too long: may not be more than 1024',
    'spec.descriptors[0].key: must have at most 1024 characters, found 1025',
  ),
  rule(
    'a key that is a number',
    { key: 5 },
    '.spec.descriptors[0].key: expected string',
    'spec.descriptors[0].key: must be a string, found 5',
  ),
  rule(
    'a value that is a boolean',
    { key: 'k', value: true },
    '.spec.descriptors[0].value: expected string',
    'spec.descriptors[0].value: must be a string, found true',
  ),
  rule(
    'the spelling of rule files',
    { key: 'k', rate_limit: { unit: 'day' } },
    '.spec.descriptors[0].rate_limit: field not declared in schema',
    "spec.descriptors[0].rate_limit: unknown field, did you mean 'rateLimit'?",
  ),
  rule(
    'a limit of which nothing is written',
    { key: 'k', rateLimit: null },
    'spec.descriptors[0].rateLimit in body must be of type object',
    'spec.descriptors[0].rateLimit: must be an object, found null',
  ),
  rule(
    'a rule that is null',
    null,
    'spec.descriptors[0] in body must be of type object',
    'spec.descriptors[0]: must be an object, found null',
  ),
  rule(
    'a shared threshold without wildcard',
    { key: 'k', value: 'v', shareThreshold: true },
    'spec.descriptors[0].value in body should match',
    "spec.descriptors[0].shareThreshold: shareThreshold can only be used with wildcard values (containing '*'), but found key 'k_v'",
  ),
  rule(
    'metadata that is no object',
    { key: 'k', metadata: 5 },
    '.spec.descriptors[0].metadata: expected map',
    'spec.descriptors[0].metadata: must be an object, found 5',
  ),
  rule(
    'a ninth level',
    nested(9),
    `${tooDeep}: Too many: 1: must have at most 0 items`,
    `${tooDeep}: must be empty: rules nest at most 8 levels deep`,
  ),
  limit(
    'an unknown unit',
    { unit: 'fortnight', requestsPerUnit: 1 },
    `spec.descriptors[0].rateLimit.unit in body should match '${unitPattern}'`,
    "spec.descriptors[0].rateLimit.unit: invalid rate limit unit 'fortnight'",
  ),
  limit(
    'no unit',
    { requestsPerUnit: 1 },
    'spec.descriptors[0].rateLimit: Invalid value: a limit needs unit, window or calendar, unless it is unlimited',
    "spec.descriptors[0].rateLimit.unit: invalid rate limit unit ''",
  ),
  limit(
    'no number of requests',
    { unit: 'day' },
    'spec.descriptors[0].rateLimit: Invalid value: requestsPerUnit is required (0 blocks everything)',
    'spec.descriptors[0].rateLimit.requestsPerUnit: is required (0 blocks everything)',
  ),
  limit(
    'a unit of something unlimited',
    { unit: 'day', unlimited: true },
    'spec.descriptors[0].rateLimit: Invalid value: should not specify rate limit unit when unlimited',
    'spec.descriptors[0].rateLimit.unit: should not specify rate limit unit when unlimited',
  ),
  limit(
    'a number beyond 2^53',
    { unit: 'day', requestsPerUnit: 9007199254740992 },
    'spec.descriptors[0].rateLimit.requestsPerUnit in body should be less than or equal to 9007199254740991',
    'spec.descriptors[0].rateLimit.requestsPerUnit: must be a whole number from 0 to 9007199254740991, found 9007199254740992',
  ),
  limit(
    'a negative number',
    { unit: 'day', requestsPerUnit: -1 },
    'spec.descriptors[0].rateLimit.requestsPerUnit in body should be greater than or equal to 0',
    'spec.descriptors[0].rateLimit.requestsPerUnit: must be a whole number from 0 to 9007199254740991, found -1',
  ),
  limit(
    'a fraction',
    { unit: 'day', requestsPerUnit: 1.5 },
    'spec.descriptors[0].rateLimit.requestsPerUnit in body must be of type integer,string',
    'spec.descriptors[0].rateLimit.requestsPerUnit: must be a whole number from 0 to 9007199254740991, found 1.5',
  ),
  limit(
    'a replaced limit without name',
    { unit: 'day', requestsPerUnit: 1, replaces: [{ name: '' }] },
    'spec.descriptors[0].rateLimit.replaces[0].name in body should be at least 1 chars long',
    'spec.descriptors[0].rateLimit.replaces[0].name: should not have an empty replaces entry',
  ),
  limit(
    'too many replaced limits',
    { unit: 'day', requestsPerUnit: 1, replaces: Array.from({ length: 65 }, (_, n) => ({ name: `n${n}` })) },
    'spec.descriptors[0].rateLimit.replaces: Too many: 65: must have at most 64 items',
    'spec.descriptors[0].rateLimit.replaces: must have at most 64 elements, found 65',
  ),
  limit(
    'a window of no units',
    { unit: 'day', unitMultiplier: 0, requestsPerUnit: 1 },
    'spec.descriptors[0].rateLimit.unitMultiplier in body should be greater than or equal to 1',
    'spec.descriptors[0].rateLimit.unitMultiplier: unitMultiplier must be 1 to 65535, found 0',
  ),
  limit(
    'a window of too many units',
    { unit: 'second', unitMultiplier: 65536, requestsPerUnit: 1 },
    'spec.descriptors[0].rateLimit.unitMultiplier in body should be less than or equal to 65535',
    'spec.descriptors[0].rateLimit.unitMultiplier: unitMultiplier must be 1 to 65535, found 65536',
  ),
  limit(
    'a window that is no time',
    { window: 'soon', requestsPerUnit: 1 },
    'spec.descriptors[0].rateLimit.window in body should match',
    "spec.descriptors[0].rateLimit.window: the window 'soon' is not a duration such as 30s, 5m, 1h30m, 1d, 2w, 1mo or 1y",
  ),
  limit(
    'two spellings of a window',
    { unit: 'minute', window: '5m', requestsPerUnit: 1 },
    'spec.descriptors[0].rateLimit: Invalid value: window replaces unit and unitMultiplier, found unit beside it',
    'spec.descriptors[0].rateLimit.window: window replaces unit and unitMultiplier, found unit beside it',
  ),
  limit(
    'a multiple of a window',
    { unitMultiplier: 5, window: '5m', requestsPerUnit: 1 },
    'spec.descriptors[0].rateLimit: Invalid value: window replaces unit and unitMultiplier, found unitMultiplier beside it',
    'spec.descriptors[0].rateLimit.window: window replaces unit and unitMultiplier, found unitMultiplier beside it',
  ),
  limit(
    'an algorithm as rule files spell it',
    { unit: 'minute', requestsPerUnit: 1, algorithm: 'sliding_window' },
    'spec.descriptors[0].rateLimit.algorithm: Unsupported value: "sliding_window"',
    "spec.descriptors[0].rateLimit.algorithm: unknown algorithm 'sliding_window': there are FixedWindow, SlidingWindow and TokenBucket",
  ),
  limit(
    'a burst of something else than a bucket',
    { unit: 'minute', requestsPerUnit: 1, algorithm: 'SlidingWindow', burst: 5 },
    'spec.descriptors[0].rateLimit: Invalid value: burst works only with algorithm TokenBucket',
    'spec.descriptors[0].rateLimit.burst: burst works only with algorithm TokenBucket',
  ),
  limit(
    'an algorithm of something unlimited',
    { unlimited: true, algorithm: 'TokenBucket' },
    'spec.descriptors[0].rateLimit: Invalid value: should not specify algorithm when unlimited',
    'spec.descriptors[0].rateLimit.algorithm: should not specify algorithm when unlimited',
  ),
  limits(
    'a list of one limit',
    [{ unit: 'minute', requestsPerUnit: 1 }],
    'spec.descriptors[0].rateLimits in body should have at least 2 items',
    'spec.descriptors[0].rateLimits: rateLimits must have 2 to 8 limits, found 1',
  ),
  limits(
    'nine limits',
    Array.from({ length: 9 }, (_, n) => ({ unit: 'minute', requestsPerUnit: 1, name: `n${n}` })),
    'spec.descriptors[0].rateLimits: Too many: 9: must have at most 8 items',
    'spec.descriptors[0].rateLimits: rateLimits must have 2 to 8 limits, found 9',
  ),
  limits(
    'something unlimited among several limits',
    [{ unit: 'minute', requestsPerUnit: 1 }, { unlimited: true }],
    'spec.descriptors[0].rateLimits[1]: Invalid value: unlimited cannot be one of rateLimits',
    'spec.descriptors[0].rateLimits[1].unlimited: unlimited cannot be one of rateLimits',
  ),
  limits(
    'a limit without a window among several',
    [{ unit: 'minute', requestsPerUnit: 1 }, { requestsPerUnit: 1 }],
    'spec.descriptors[0].rateLimits[1]: Invalid value: a limit needs unit, window or calendar, unless it is unlimited',
    "spec.descriptors[0].rateLimits[1].unit: invalid rate limit unit ''",
  ),
  rule(
    'one limit beside several',
    {
      key: 'k',
      rateLimit: { unit: 'day', requestsPerUnit: 1 },
      rateLimits: [
        { unit: 'day', requestsPerUnit: 1 },
        { unit: 'hour', requestsPerUnit: 1 },
      ],
    },
    'spec.descriptors[0]: Invalid value: a rule has either rateLimit or rateLimits, found both',
    'spec.descriptors[0].rateLimits: a rule has either rateLimit or rateLimits, found both',
  ),
  ...[
    lease('that is no share', '0.02', "in body should match '^(0|(100", `${noShare}'0.02'`),
    lease('of more than all', '100.1%', "in body should match '^(0|(100", `${noShare}'100.1%'`),
    lease('of a number', 2, 'in body should be less than or equal to 0', `${noShare}'2'`),
    lease('below nothing', -1, 'in body should be greater than or equal to 0', `${noShare}'-1'`),
    lease('that is true', true, 'in body must be of type', `${noShare.replace('lease ', '')}true`),
  ],
  ...(
    [
      ['without a limit', {}, 'lease needs a rateLimit beside it'],
      [
        'of something unlimited',
        { rateLimit: { unlimited: true } },
        'should not specify lease when unlimited',
      ],
      [
        'of a sliding window',
        { rateLimit: { ...daily, algorithm: 'SlidingWindow' } },
        'lease can only be 0 with algorithm SlidingWindow: only fixed windows are leased',
      ],
      [
        'of several limits',
        { rateLimits: [daily, { ...daily, unit: 'hour' }] },
        'lease can only be 0 beside rateLimits, which one operation counts',
      ],
    ] as const
  ).map(([name, limits, reader]) =>
    rule(
      `a lease ${name}`,
      { key: 'k', lease: '2%', ...limits },
      `spec.descriptors[0]: Invalid value: ${reader}`,
      `spec.descriptors[0].lease: ${reader}`,
    ),
  ),
];

/** Every feature, each at its bounds. */
export const acceptedSpecs: readonly { name: string; spec: Record<string, unknown> }[] = [
  { name: 'a domain alone', spec: { domain: 'shop' } },
  {
    name: 'names at their bounds',
    spec: { domain: '😀'.repeat(253), fleet: 'f'.repeat(63), descriptors: [] },
  },
  {
    name: 'every field of a rule',
    spec: {
      domain: 'shop',
      fleet: 'blue-2',
      descriptors: [
        {
          key: 'path',
          value: '/search*',
          rateLimit: {
            unit: 'minute',
            requestsPerUnit: 4294967295,
            unlimited: false,
            name: 'search',
            replaces: [{ name: 'all' }],
          },
          lease: '0.5%',
          shadowMode: true,
          quotaMode: true,
          detailedMetric: true,
          valueToMetric: true,
          shareThreshold: true,
          hideIdentity: true,
          metadata: { team: 'search', list: [1, null, { deep: true }] },
          descriptors: [{ key: 'plan', value: '', rateLimit: { unlimited: true } }],
        },
      ],
    },
  },
  {
    name: 'units in any letter case',
    spec: {
      domain: 'shop',
      descriptors: ['second', 'Minute', 'HOUR', 'daY', 'week', 'month', 'year'].map((unit) => ({
        key: unit,
        rateLimit: { unit, requestsPerUnit: 0 },
      })),
    },
  },
  {
    name: 'windows of any length, and every algorithm',
    spec: {
      domain: 'shop',
      descriptors: [
        {
          key: 'a',
          rateLimit: { unit: 'minute', unitMultiplier: 5, requestsPerUnit: 1, algorithm: 'SlidingWindow' },
        },
        { key: 'b', rateLimit: { window: '10y', requestsPerUnit: 1, unlimited: false } },
        { key: 'c', rateLimit: { window: '1h30m', requestsPerUnit: 1, algorithm: 'TokenBucket', burst: 0 } },
        {
          key: 'd',
          rateLimit: { unit: 'second', unitMultiplier: 65535, requestsPerUnit: 1, algorithm: 'FixedWindow' },
        },
      ],
    },
  },
  {
    name: 'eight limits of one rule',
    spec: {
      domain: 'shop',
      descriptors: [
        {
          key: 'k',
          rateLimits: Array.from({ length: 8 }, (_, n) => ({
            unit: 'second',
            unitMultiplier: n + 1,
            requestsPerUnit: n,
            ...(n === 0 ? { unlimited: false, replaces: [{ name: 'x' }] } : { name: `n${n}` }),
          })),
        },
      ],
    },
  },
  {
    name: 'leases',
    spec: {
      domain: 'shop',
      descriptors: [
        ...['2%', '0.0001%', '100%', 0, '0'].map((lease, n) => ({ key: `k${n}`, rateLimit: daily, lease })),
        { key: 'a', rateLimit: { ...daily, algorithm: 'FixedWindow', unlimited: false }, lease: '99.5%' },
        { key: 'b', rateLimit: { ...daily, algorithm: 'TokenBucket' }, lease: 0 },
        { key: 'c', rateLimits: [daily, { ...daily, unit: 'hour' }], lease: '0' },
      ],
    },
  },
  {
    name: 'a wildcard in the key',
    spec: { domain: 'd', descriptors: [{ key: 'a*', shareThreshold: true }] },
  },
  { name: 'eight levels', spec: { domain: 'd', descriptors: [nested(8)] } },
];
