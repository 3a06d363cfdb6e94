import { describe, expect, it } from 'vitest';
import { documentedStatistics } from '../../../test/support/documented-statistics.ts';
import { helpOf } from './exposition.ts';
import { builtInMapping, Mapper } from './mapper.ts';

describe('the help of metrics', () => {
  it('is there for every documented statistic that the built-in mapping does not name', () => {
    const mapper = new Mapper(builtInMapping({ responseTimeAsMilliseconds: false }));
    const unmapped = documentedStatistics().filter((stat) =>
      (['counter', 'gauge', 'observer'] as const).every((kind) => mapper.map(stat, kind)?.isMapped === false),
    );
    expect(unmapped.length).toBeGreaterThan(60);
    expect(unmapped.filter((stat) => helpOf(stat) === undefined)).toEqual([]);
  });

  it('is that of the first store for the second', () => {
    expect(helpOf('ratelimit.redis_per_second_pool.nodes')).toBe('Masters of the Redis Cluster.');
    expect(helpOf('ratelimit.per_second_store_breaker.open')).toBe(
      '1 while the circuit breaker of the store is open.',
    );
  });

  it('says of rules what their hits are, whatever mapping names them', () => {
    expect(helpOf('ratelimit.service.rate_limit.llm.team_a.total_hits')).toContain('hits_unit');
    expect(helpOf('ratelimit.service.rate_limit.llm.team.constructor')).toBeUndefined();
  });

  it('is not known of what is not counted', () => {
    expect(helpOf('some.counter')).toBeUndefined();
    expect(helpOf('constructor')).toBeUndefined();
  });
});
