import { describe, expect, it } from 'vitest';
import { rejectionHint } from './redis-error.ts';

describe('rejectionHint', () => {
  it.each([
    ['MOVED', false, 'it is a node of a Redis Cluster: set REDIS_TYPE=cluster'],
    ['ASK', false, 'it is a node of a Redis Cluster: set REDIS_TYPE=cluster'],
    ['MOVED', true, undefined],
    ['NOAUTH', false, 'it requires a password: set REDIS_AUTH'],
    [
      'OOM',
      true,
      'it has reached maxmemory: raise it, or set maxmemory-policy volatile-lru (for budgets, use a separate Redis with noeviction)',
    ],
    ['WRONGTYPE', false, undefined],
  ])('of %s, in a cluster: %s', (code, isCluster, hint) => {
    expect(rejectionHint(code, { prefix: 'REDIS_', isCluster })).toBe(hint);
  });

  it('names the settings of the store', () => {
    const given = { prefix: 'REDIS_PERSECOND_', isCluster: false } as const;
    expect(rejectionHint('MOVED', given)).toBe(
      'it is a node of a Redis Cluster: set REDIS_PERSECOND_TYPE=cluster',
    );
  });
});
