import { describe, expect, it } from 'vitest';
import { limit, rule } from '../../test/support/rule-builder.ts';
import type { Rule } from '../model.ts';
import { type KeySource, neededRateLimits, sourceProblem, valueFor } from './needed-rate-limits.ts';

const counted = { rateLimit: limit() };

function actionsFor(rules: Rule[], given: Record<string, KeySource> = {}): unknown[] {
  return neededRateLimits(rules, new Map(Object.entries(given))).map(({ value }) => value.actions);
}

describe('neededRateLimits', () => {
  it('has a descriptor for each list of keys with a limit, once', () => {
    const rules = [
      rule({ key: 'remote_address', ...counted }),
      rule({ key: 'remote_address', value: '192.0.2.1', rateLimit: limit({ unit: '', unlimited: true }) }),
      rule({
        key: 'path',
        value: '/search*',
        descriptors: [
          rule({ key: 'method', ...counted }),
          rule({ key: 'method', value: 'POST', ...counted }),
        ],
      }),
      rule({ key: 'path', value: '/a', ...counted, descriptors: [rule({ key: 'method', ...counted })] }),
    ];
    const path = { request_headers: { header_name: ':path', descriptor_key: 'path' } };
    const method = { request_headers: { header_name: ':method', descriptor_key: 'method' } };
    expect(actionsFor(rules)).toEqual([[{ remote_address: {} }], [path, method], [path]]);
  });

  it('asks twice for a rule that is reserved against', () => {
    const reserve = { ttlSeconds: 60, estimate: 2000, onExpiry: 'release' as const };
    const [before, after, ...others] = neededRateLimits(
      [rule({ key: 'x-team', ...counted, reserve })],
      new Map(),
    ).map(({ value }) => value);
    const id = { request_headers: { header_name: 'x-request-id', descriptor_key: 'reservation_id' } };
    expect(others).toEqual([]);
    expect(before).toEqual({ actions: [expect.anything(), id] });
    expect(after).toMatchObject({ apply_on_stream_done: true });
    expect(after!.actions.slice(0, 2)).toEqual(before!.actions);
    expect(after!.actions[2]).toEqual({
      generic_key: { descriptor_key: 'settle', descriptor_value: 'true' },
    });
  });

  it('has none for rules without a limit, except for those that replace one', () => {
    const free = limit({ unit: '', requestsPerUnit: 0, unlimited: true });
    expect(actionsFor([rule({ key: 'a' }), rule({ key: 'b', rateLimit: free })])).toEqual([]);
    const replacing = rule({ key: 'b', rateLimit: { ...free, replaces: ['per_tenant'] } });
    expect(actionsFor([replacing])).toHaveLength(1);
  });

  it.each<[string, Rule, KeySource | undefined, object]>([
    [
      'a range says how long its prefix is',
      rule({ key: 'masked_remote_address', value: '192.0.2.0/28', ...counted }),
      undefined,
      { masked_remote_address: { v4_prefix_mask_len: 28, v6_prefix_mask_len: 64 } },
    ],
    [
      'a key named like a header is one',
      rule({ key: 'x_plan', ...counted }),
      undefined,
      { request_headers: { header_name: 'x-plan', descriptor_key: 'x_plan' } },
    ],
    [
      'a generic key has the value of its rule',
      rule({ key: 'generic_key', value: 'slow', ...counted }),
      undefined,
      { generic_key: { descriptor_key: 'generic_key', descriptor_value: 'slow' } },
    ],
    [
      'a star is filled with what the rule takes',
      rule({ key: 'route', value: 'v1/*/x', ...counted }),
      { type: 'generic' },
      { generic_key: { descriptor_key: 'route', descriptor_value: 'v1//x' } },
    ],
    [
      'a parameter of the query',
      rule({ key: 'q', ...counted }),
      { type: 'query', name: 'query' },
      { query_parameters: { query_parameter_name: 'query', descriptor_key: 'q' } },
    ],
    [
      'a value where a header is',
      rule({ key: 'bot', value: 'yes', ...counted }),
      { type: 'header_match', name: 'x-bot' },
      {
        header_value_match: {
          descriptor_key: 'bot',
          descriptor_value: 'yes',
          headers: [{ name: 'x-bot', present_match: true }],
        },
      },
    ],
  ])('%s', (_, one, source, action) => {
    expect(actionsFor([one], source && { [one.key]: source })).toEqual([[action]]);
  });

  it('reports which keys nothing says where they come from', () => {
    const [needed] = neededRateLimits([rule({ key: 'Tenant ID', ...counted })], new Map());
    expect(needed?.guessed).toEqual([{ key: 'Tenant ID', source: { type: 'header', name: 'x-tenant-id' } }]);
    expect(needed?.rules).toEqual(['Tenant ID']);
  });

  it('rejects another name for what Envoy names', () => {
    expect(sourceProblem('client', { type: 'remote_address' })).toBe(
      'Envoy calls this entry remote_address: give the rules that key',
    );
    expect(sourceProblem('remote_address', { type: 'remote_address' })).toBeUndefined();
  });
});

describe('valueFor', () => {
  it('finds a value that no rule before takes, if there is one', () => {
    const level = [
      rule({ key: 'k', value: 'default' }),
      rule({ key: 'k', value: 'a*' }),
      rule({ key: 'k', value: 'ab*' }),
      rule({ key: 'k' }),
    ];
    expect(level.map((one) => valueFor(level, one))).toEqual(['default', 'a', undefined, 'x']);
  });
});
