import { create, toBinary } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { DiscoveryResponseSchema } from '../../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { RateLimitConfigSchema } from '../../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import { Algorithm } from '../../../rules/algorithms/registry.ts';
import { type RuleSource, Unit } from '../../../rules/model.ts';
import { encodeResource, rateLimitConfigTypeUrl } from '../../../rules/reader/resource.ts';
import { RuleTable } from '../../../rules/table/rule-table.ts';
import type { SourceCheckOptions } from '../../../rules/validate-sources.ts';
import { limit, rule, source } from '../../../test/support/rule-builder.ts';
import { rejectionMessage } from './ads-stream.ts';
import { loadResources } from './load-resources.ts';

interface Given extends Partial<SourceCheckOptions> {
  resources: { typeUrl: string; value: Uint8Array }[];
  typeUrl?: string;
  hashInForce?: string | undefined;
}

const wrongUrl = 'type.googleapis.com/envoy.config.listener.v3.Listener';

function resource(one: RuleSource): { typeUrl: string; value: Uint8Array } {
  return { typeUrl: rateLimitConfigTypeUrl, value: encodeResource(one) };
}

function load({
  resources,
  typeUrl = rateLimitConfigTypeUrl,
  mergeDomains = false,
  support,
  hashInForce,
}: Given) {
  const response = create(DiscoveryResponseSchema, { versionInfo: '1', nonce: 'n', typeUrl, resources });
  return loadResources({
    bytes: toBinary(DiscoveryResponseSchema, response),
    mergeDomains,
    support,
    hashInForce,
  }).outcome;
}

/** The lines of `/rlconfig` after a good load. */
function rules(given: Given): string[] {
  const outcome = load(given);
  if (!outcome.ok || outcome.rules === undefined) throw new Error(JSON.stringify(outcome));
  return [...new RuleTable(outcome.rules.bytes).rlconfigLines()].map((line) => line.replace(/,.*/, ''));
}

const some = source('d', [rule({ key: 'k', rateLimit: limit() })], 'r1');
const twice = source('d', [rule({ key: 'l', rateLimit: limit({ unit: 'HOUR' }) })], 'r2');

const bucket = limit({ algorithm: Algorithm.TOKEN_BUCKET });
const several = source('d', [rule({ key: 'k', limits: [limit(), bucket] })], 'r3');
const day = { unit: Unit.DAY, requestsPerUnit: 1 };
const mixed = create(RateLimitConfigSchema, {
  ...{ name: 'r4', domain: 'd', descriptors: [{ key: 'k', rateLimit: day, rateLimits: [day, day] }] },
});

describe('loadResources', () => {
  it('makes one table of all resources', () => {
    expect(rules({ resources: [resource(some), resource({ ...twice, domain: 'e' })] })).toEqual([
      'd.k: unit=MINUTE requests_per_unit=10',
      'e.l: unit=HOUR requests_per_unit=10',
    ]);
  });

  it('takes no resources for no rules', () => {
    expect(rules({ resources: [] })).toEqual([]);
  });

  it('adds up resources of one domain if domains may be merged', () => {
    expect(rules({ resources: [resource(some), resource(twice)], mergeDomains: true })).toEqual([
      'd.k: unit=MINUTE requests_per_unit=10',
      'd.l: unit=HOUR requests_per_unit=10',
    ]);
  });

  it('does not load again what is in force, whatever its version', () => {
    const first = load({ resources: [resource(some)] });
    const hashInForce = first.ok ? first.hash : '';
    expect(load({ resources: [resource(some)], hashInForce })).toEqual({
      ok: true,
      hash: hashInForce,
      rules: undefined,
    });
    expect(rules({ resources: [resource(twice)], hashInForce })).toHaveLength(1);
    expect(rules({ resources: [], hashInForce })).toEqual([]);
  });

  const bad: [what: string, given: Given, message: string][] = [
    [
      'a domain that comes twice',
      { resources: [resource(some), resource(twice)] },
      "r2: duplicate domain 'd' in config file",
    ],
    [
      'several errors',
      { resources: [resource({ ...some, domain: '' }), resource(some), resource(twice)] },
      "r1: config file cannot have empty domain; r2: duplicate domain 'd' in config file",
    ],
    [
      'a resource without a name',
      { resources: [resource(some), resource({ ...twice, name: '', domain: '' })] },
      'resource 2: config file cannot have empty domain',
    ],
    [
      'another type of response',
      { resources: [], typeUrl: wrongUrl },
      `response: type URL is '${wrongUrl}', expected '${rateLimitConfigTypeUrl}'`,
    ],
    [
      'resources of another type, and damaged ones',
      {
        resources: [
          resource(some),
          { typeUrl: wrongUrl, value: new Uint8Array() },
          { typeUrl: rateLimitConfigTypeUrl, value: Buffer.from('0a05', 'hex') },
        ],
      },
      `resource 2: type URL is '${wrongUrl}', expected '${rateLimitConfigTypeUrl}'; resource 3: cannot be decoded: premature EOF`,
    ],
    [
      'what the store cannot count',
      {
        resources: [resource(several)],
        support: { admission: 'no', groups: undefined, calendarMonths: false },
      },
      "r3: algorithm token_bucket of 'd.k' cannot be counted: no; r3: rate_limits of 'd.k' cannot be counted: no",
    ],
    [
      'a list of limits beside a limit',
      { resources: [{ typeUrl: rateLimitConfigTypeUrl, value: toBinary(RateLimitConfigSchema, mixed) }] },
      'r4: a rule has either rate_limit or rate_limits, found both',
    ],
  ];
  it.each(bad)('rejects %s', (_, given, message) => {
    const outcome = load(given);
    expect(outcome.ok ? undefined : rejectionMessage(outcome)).toBe(message);
  });

  it('counts errors that it does not list', () => {
    const many = source(
      'd',
      Array.from({ length: 1_500 }, () => rule({ key: '' })),
      'r',
    );
    const outcome = load({ resources: [resource(many)] });
    expect(outcome.ok ? undefined : [outcome.errors.length, outcome.total]).toEqual([1_000, 1_500]);
  });
});

describe('rejectionMessage', () => {
  const error = (text: string) => {
    return { code: 'syntax', source: 'r', text, path: [], line: undefined, column: undefined } as const;
  };

  it('lists ten errors and counts the others', () => {
    const errors = Array.from({ length: 12 }, (_, index) => error(`e${index}`));
    const listed = Array.from({ length: 10 }, (_, index) => `r: e${index}`);
    expect(rejectionMessage({ ok: false, errors, total: 1_500 })).toBe(
      `${listed.join('; ')}; and 1490 more errors`,
    );
  });

  it('has a bounded length, and no half of a character', () => {
    const message = rejectionMessage({ ok: false, errors: [error('\ud83d\ude00'.repeat(4_000))], total: 1 });
    expect(message).toHaveLength(4_099);
    expect(message.isWellFormed()).toBe(true);
    expect(message.endsWith('\ufffd...')).toBe(true);
  });
});
