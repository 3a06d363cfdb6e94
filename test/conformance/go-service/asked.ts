/** What the recording of envoyproxy/ratelimit asks, and Weir after it. */

export const rules = `domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 2, name: per_user }
    metadata: { team: api }
  - key: user
    value: ann
    rate_limit: { unlimited: true }
  - key: path
    value: /api*
    value_to_metric: true
    rate_limit: { unit: year, requests_per_unit: 3 }
  - key: tenant
    detailed_metric: true
    rate_limit: { unit: year, requests_per_unit: 1 }
    shadow_mode: true
  - key: tokens
    quota_mode: true
    rate_limit: { unit: year, requests_per_unit: 1 }
  - key: all
    value: a
    rate_limit: { unit: year, requests_per_unit: 1, replaces: [{ name: per_user }] }
    descriptors:
      - key: below
        rate_limit: { unit: year, requests_per_unit: 4 }
`;

const descriptor = (...entries: [key: string, value: string][]) => ({
  entries: entries.map(([key, value]) => ({ key, value })),
});
const request = (descriptors: object[], more: object = {}) =>
  JSON.stringify({ domain: 'shop', descriptors, ...more });

export const requests = [
  request([descriptor(['user', 'bob'])]),
  request([descriptor(['user', 'bob'])], { hitsAddend: 2 }),
  request([descriptor(['user', 'bob'])]),
  request([descriptor(['user', 'ann'])]),
  request([descriptor(['path', '/api/1']), descriptor(['tenant', 't'])]),
  request([descriptor(['tenant', 't'])]),
  request([descriptor(['tokens', 't']), descriptor(['none', 'x'])], { hitsAddend: 2 }),
  request([descriptor(['user', 'eve']), descriptor(['all', 'a'])]),
  request([descriptor(['all', 'a'], ['below', 'x'])]),
  request([{ ...descriptor(['user', 'zoe']), limit: { requestsPerUnit: 9, unit: 'YEAR' } }]),
  request([descriptor(['user', 'bob'])], { domain: 'none' }),
  request([descriptor(['user', 'bob'])], { domain: '' }),
  request([]),
  '{',
  '{"domains": "shop"}',
];

const one = (rest: string, before = 'domain: d\ndescriptors:\n') => `${before}${rest}\n`;
const limited = (limit: string) => one(`  - key: k\n    rate_limit: ${limit}`);

/** A file each, with one mistake. */
export const badRules = [
  one('', ''),
  one('descriptors: []', ''),
  one('  - value: v'),
  one('  - key: k\n  - key: k'),
  limited('{ unit: fortnight, requests_per_unit: 1 }'),
  limited('{}'),
  limited('{ unlimited: true, unit: day }'),
  limited('{ unit: day, requests_per_unit: 1, replaces: [{ name: "" }] }'),
  limited('{ unit: day, requests_per_unit: 1, name: a, replaces: [{ name: a }] }'),
  one('  - key: k\n    share_threshold: true\n    rate_limit: { unit: day, requests_per_unit: 1 }'),
  one('  - key: k\n    kye: v'),
  one('  - 1: k'),
  one('  - k'),
  one('  - key: 1.5'),
  one('  - key: k\n    value: v\n  - key: k\n    value: v'),
];
