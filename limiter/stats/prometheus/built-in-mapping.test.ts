import { describe, expect, it } from 'vitest';
import { builtInMapping, Mapper } from './mapper.ts';
import type { StatKind } from './mapping-rules.ts';

const mapper = new Mapper(builtInMapping({ responseTimeAsMilliseconds: false }));

function mapped(stat: string, kind: StatKind = 'counter') {
  const metric = mapper.map(stat, kind);
  return metric === undefined ? undefined : [metric.name, Object.fromEntries(metric.labels)];
}

const rule = 'ratelimit.service.rate_limit';

describe('the built-in mapping', () => {
  for (const stat of [
    'near_limit',
    'over_limit',
    'total_hits',
    'within_limit',
    'shadow_mode',
    'passed',
    'limited',
    'leased_hits',
  ]) {
    const name = `ratelimit_service_rate_limit_${stat}`;
    it(`labels ${stat} with domain and keys`, () => {
      expect(mapped(`${rule}.d.k_v.${stat}`)).toEqual([name, { domain: 'd', key1: 'k_v' }]);
      expect(mapped(`${rule}.d.a.b.${stat}`)).toEqual([name, { domain: 'd', key1: 'a', key2: 'b' }]);
      expect(mapped(`${rule}.d.a.b.c.e.${stat}`)).toEqual([name, { domain: 'd', key1: 'a', key2: 'b' }]);
    });
  }

  for (const [stat, name, labels] of [
    [
      'ratelimit.service.call.should_rate_limit.redis_error',
      'ratelimit_service_should_rate_limit_error',
      { err_type: 'redis_error' },
    ],
    [
      'ratelimit_server.ShouldRateLimit.total_requests',
      'ratelimit_service_total_requests',
      { grpc_method: 'ShouldRateLimit' },
    ],
    ['ratelimit.service.config_load_success', 'ratelimit_service_config_load_success', {}],
    ['ratelimit.service.config_load_error', 'ratelimit_service_config_load_error', {}],
    ['ratelimit.service.global_shadow_mode', 'ratelimit_service_global_shadow_mode', {}],
    ['runtime.load_attempts', 'runtime_load_attempts', {}],
    [
      `${rule}.d.k.over_limit_with_local_cache`,
      'ratelimit_service_rate_limit_d_k_over_limit_with_local_cache',
      {},
    ],
    [
      `${rule}.d.a.b.over_limit_with_local_cache`,
      'ratelimit_service_rate_limit_d_a_b_over_limit_with_local_cache',
      {},
    ],
    [
      `${rule}.d.a.b.c.over_limit_with_local_cache`,
      'ratelimit_service_rate_limit_d_a_b_c_over_limit_with_local_cache',
      {},
    ],
    [`${rule}.d.domain_not_found`, 'ratelimit_service_rate_limit_d_domain_not_found', {}],
  ] as const) {
    it(`makes ${name} of ${stat}`, () => expect(mapped(stat)).toEqual([name, labels]));
  }

  it('keeps response_time in a histogram of seconds', () => {
    expect(mapper.map('ratelimit_server.Check.response_time', 'observer')).toMatchObject({
      name: 'ratelimit_service_response_time_seconds',
      labels: new Map([['grpc_method', 'Check']]),
      scale: 0.001,
      observer: { type: 'histogram', buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] },
    });
  });

  it('leaves response_time in milliseconds when that is asked for', () => {
    const other = new Mapper(builtInMapping({ responseTimeAsMilliseconds: true }));
    expect(other.map('ratelimit_server.Check.response_time', 'observer')).toMatchObject({
      name: 'ratelimit_service_response_time_seconds',
      scale: 1,
    });
  });

  it('makes a summary of every other timer', () => {
    expect(mapper.map('some.timer', 'observer')).toMatchObject({
      name: 'some_timer',
      observer: { type: 'summary', quantiles: [0.5, 0.9, 0.99] },
    });
  });
});
