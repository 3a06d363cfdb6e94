import { describe, expect, it } from 'vitest';
import { parseLimiterSettings } from '../settings/settings.ts';
import { ruleChecks } from './config-source.ts';

const redis = { BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: 'redis:6379' };
const none = { admission: undefined, groups: undefined, reservations: undefined, calendarMonths: false };
const spread = 'CACHE_KEY_PREFIX has {} for its first braces, by which Redis spreads them over nodes';

describe('what a limiter can count', () => {
  it.each<[Record<string, string>, object]>([
    [{ BACKEND_TYPE: 'memory', REDIS_SCRIPTS: 'never', CACHE_KEY_PREFIX: '{}' }, none],
    [redis, none],
    [
      { ...redis, REDIS_SCRIPTS: 'never' },
      {
        ...none,
        admission:
          'REDIS_SCRIPTS=never counts fixed windows alone, one a rule; others need a Redis with scripts, or memory',
        reservations: 'REDIS_SCRIPTS=never keeps no reservations; they need a Redis with scripts, or memory',
      },
    ],
    [
      { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: 'a:1' },
      {
        ...none,
        admission:
          'BACKEND_TYPE=memcache counts fixed windows alone, one a rule; others need a Redis with scripts, or memory',
        reservations:
          'BACKEND_TYPE=memcache keeps no reservations; they need a Redis with scripts, or memory',
      },
    ],
    [
      { ...redis, STORE_FAILURE_MODE: 'local' },
      {
        ...none,
        reservations:
          'STORE_FAILURE_MODE=local would count without them while the store is away; take allow, deny or error',
      },
    ],
    [{ BACKEND_TYPE: 'memory', STORE_FAILURE_MODE: 'local' }, none],
    [
      { ...redis, CACHE_KEY_PREFIX: 'a{}' },
      { ...none, groups: spread },
    ],
    [{ ...redis, CACHE_KEY_PREFIX: '}{a}{}' }, none],
    [{ ...redis, CACHE_KEY_PREFIX: '{a' }, none],
    [
      { ...redis, USE_CALENDAR_MONTH_RATE_LIMIT: 'true' },
      { ...none, calendarMonths: true },
    ],
  ])('follows from %j', (env, support) => {
    const { settings } = parseLimiterSettings({ MERGE_DOMAIN_CONFIG: 'true', ...env });
    expect(settings && ruleChecks(settings)).toEqual({ mergeDomains: true, support });
  });
});
