import { describe, expect, it } from 'vitest';
import { readRuleFiles } from '../reader/read-rule-files.ts';
import { readEnvoyConfiguration } from './envoy-configuration.ts';
import { reviewEnvoy } from './envoy-review.ts';

const rules = `domain: shop
descriptors:
  - key: name
    value: api
    descriptors:
      - key: plan
        rate_limit: { unit: minute, requests_per_unit: 5 }
`;

const type = 'type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuota';
const deny = 'no_assignment_behavior: { fallback_rate_limit: { blanket_rule: DENY_ALL } }';
const entry = (key: string, value?: string): string =>
  value === undefined
    ? `${key}: { custom_value: { name: x, typed_config: { "@type": a/HttpRequestHeaderMatchInput, header_name: x } } }`
    : `${key}: { string_value: ${value} }`;
const both = `{ ${entry('plan')}, ${entry('name', 'api')} }`;

interface Parts {
  domain?: string;
  entries?: string;
  more?: string;
}

/** A connection manager with the quota filter, of one kind of bucket. */
function quota({ domain = 'shop', entries = both, more = deny }: Parts = {}): string {
  return `http_filters:
  - name: envoy.filters.http.rate_limit_quota
    typed_config:
      "@type": ${type}FilterConfig
      domain: ${domain}
      bucket_matchers:
        on_no_match:
          action:
            name: bucket
            typed_config:
              "@type": ${type}BucketSettings
              bucket_id_builder: { bucket_id_builder: ${entries} }
              reporting_interval: 5s
              ${more}
`;
}

function reported(envoy: string, rulesText = rules): string[] {
  const { located, errors } = readRuleFiles([{ name: 'rules.yaml', text: rulesText }], {
    mergeDomains: false,
  });
  expect(errors).toEqual([]);
  const configuration = readEnvoyConfiguration([{ path: 'envoy.yaml', text: envoy }]);
  const { findings } = reviewEnvoy(configuration, located);
  return findings.map(
    ({ severity, code, file, line, text }) => `${severity} ${code} ${file}:${line}: ${text}`,
  );
}

describe('quota filters', () => {
  it.each([
    ['in snake_case', quota()],
    [
      'in camelCase',
      quota().replace('bucket_matchers', 'bucketMatchers').replaceAll('bucket_id_builder', 'bucketIdBuilder'),
    ],
    ['with numbers for words', quota({ more: deny.replace('DENY_ALL', '1') })],
  ])('fit rules whose levels have the keys of a bucket, in any order: %s', (_, envoy) => {
    expect(reported(envoy)).toEqual([]);
  });

  it.each([
    [
      'no_assignment_behavior: { fallback_rate_limit: { token_bucket: { max_tokens: 9, fill_interval: 60s } } }',
      'error quota-crash envoy.yaml:11: a token bucket in no_assignment_behavior crashes Envoy 1.40 on the second request',
    ],
    [
      'deny_response_settings: {}',
      'warning quota-fallback envoy.yaml:11: without no_assignment_behavior, all requests pass until the first assignment, and whenever there is none',
    ],
    [
      'no_assignment_behavior: { fallback_rate_limit: {} }',
      'warning quota-fallback envoy.yaml:11: with ALLOW_ALL in no_assignment_behavior, all requests pass until the first assignment, and whenever there is none',
    ],
    [
      `${deny}\n              expired_assignment_behavior: { fallback_rate_limit: { blanket_rule: ALLOW_ALL } }`,
      'warning quota-fallback envoy.yaml:11: with ALLOW_ALL in expired_assignment_behavior, all requests pass while no limiter answers',
    ],
    [
      `${deny}\n              expired_assignment_behavior: { reuse_last_assignment: {} }`,
      'warning quota-fallback envoy.yaml:11: Envoy 1.40 does not implement reuse_last_assignment',
    ],
  ])('may do what keeps no limit: %s', (more, finding) => {
    expect(reported(quota({ more }))).toEqual([finding]);
  });

  it('may want reports at another interval', () => {
    const envoy = quota().replace('reporting_interval: 5s', 'reporting_interval: { seconds: 60 }');
    expect(reported(envoy)).toEqual([
      'warning quota-interval envoy.yaml:11: Envoy 1.40 reports every 5s, and ignores reporting_interval, here 60s',
    ]);
  });

  it('may have buckets that no rule matches, and leave out rules', () => {
    expect(reported(quota({ entries: `{ ${entry('name', 'web')}, ${entry('plan')} }` }))).toEqual([
      'warning unmatched-bucket envoy.yaml:11: no rule with a limit matches the bucket (name=web, plan), so RLQS_NO_RULE decides',
      'warning unreached-rule rules.yaml:6: no bucket (name, plan) of the domain "shop" reaches this rule',
    ]);
    expect(reported(quota({ entries: `{ ${entry('name', 'api')} }` }))[0]).toContain('unmatched-bucket');
  });

  it('may ask for a domain without rules', () => {
    expect(reported(quota({ domain: 'shpo' }))).toEqual([
      'error domain-without-rules envoy.yaml:4: no rules have the domain "shpo": nothing is limited; did you mean "shop"?',
      'warning unused-domain rules.yaml:1: no rate limit filter asks for the domain "shop"',
    ]);
  });

  it('may have buckets that match rules in several orders', () => {
    const more = `  - key: plan
    descriptors:
      - key: name
        rate_limit: { unit: minute, requests_per_unit: 9 }
`;
    expect(reported(quota(), rules + more)).toEqual([
      'warning ambiguous-bucket envoy.yaml:11: the bucket (plan, name=api) matches rules in several orders, (plan, name) and (name, plan): the first rule in the file counts',
    ]);
  });

  it.each([
    ['hits_unit', rules.replace('unit: minute', 'unit: minute, hits_unit: tokens')],
    ['reserve', `${rules}        reserve: { ttl: 60s }\n`],
  ])('may have buckets whose rule cannot be assigned: %s', (_, text) => {
    expect(reported(quota(), text)).toEqual([
      expect.stringMatching(/^warning unassignable-rule envoy\.yaml:11: plan cannot be assigned: /),
    ]);
  });
});
