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
    expect(rejectionHint({ code, text: `${code} some text` }, { prefix: 'REDIS_', isCluster })).toBe(hint);
  });

  it.each([
    "ERR ACL failure in script: User u has no permissions to run the 'hlen' command script: on @user_script:1.",
    'ERR ACL failure in script: No permissions to access a key script: on @user_script:1.',
    "ERR The user executing the script can't run this command or subcommand script: 41585, on @user_script:1.",
    "ERR Error running script (call to f_4158): @user_script: 1: The user executing the script can't run this command or subcommand",
  ])('of a right that is missing within a script: %s', (text) => {
    const given = { prefix: 'REDIS_', isCluster: false } as const;
    expect(rejectionHint({ code: 'ERR', text }, given)).toBe(
      "the user's ACL denies it: docs/store.md lists the rights of a limiter",
    );
  });

  it('names the settings of the store', () => {
    const given = { prefix: 'REDIS_PERSECOND_', isCluster: false } as const;
    expect(rejectionHint({ code: 'MOVED', text: 'MOVED 1 10.0.0.1:6379' }, given)).toBe(
      'it is a node of a Redis Cluster: set REDIS_PERSECOND_TYPE=cluster',
    );
  });
});
