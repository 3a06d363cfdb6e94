import { describe, expect, it } from 'vitest';
import { ruleSupport, unsupportedReasons } from './rule-support.ts';
import { parseLimiterSettings } from './settings.ts';

const redis = { BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: 'redis:6379' };
const cluster = { ...redis, REDIS_TYPE: 'cluster' };
const perSecond = {
  ...redis,
  REDIS_PERSECOND: 'true',
  REDIS_PERSECOND_SOCKET_TYPE: 'tcp',
  REDIS_PERSECOND_URL: 'redis:6380',
};
const none = { algorithms: undefined, groups: undefined, reservations: undefined };
const fixedOnly = (setting: string) => {
  const text = `${setting} counts only fixed windows, one for each rule; others need a Redis with scripts, or memory`;
  const reservations = `${setting} cannot store reservations; they need a Redis with scripts, or memory`;
  const shares = `${setting} cannot assign limits to quota clients, which needs a Redis with scripts, or memory`;
  return { algorithms: text, groups: text, reservations, shares };
};
const unreserved = (setting: string) => ({
  ...none,
  reservations: `${setting} with COUNTER_KEYS=compatible cannot store reservations, because the windows of a counter are in different slots; set COUNTER_KEYS=unambiguous`,
});
const spread = {
  ...none,
  groups: 'CACHE_KEY_PREFIX begins with {}: Redis Cluster uses the first braces to choose a node',
};

describe('what a store can never do', () => {
  it.each<[Record<string, string>, object]>([
    [{ BACKEND_TYPE: 'memory', REDIS_SCRIPTS: 'never', CACHE_KEY_PREFIX: '{}' }, none],
    [redis, none],
    [{ ...redis, REDIS_SCRIPTS: 'never' }, fixedOnly('REDIS_SCRIPTS=never')],
    [{ ...cluster, REDIS_SCRIPTS: 'never' }, fixedOnly('REDIS_SCRIPTS=never')],
    [{ BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: 'a:1' }, fixedOnly('BACKEND_TYPE=memcache')],
    [cluster, unreserved('REDIS_TYPE=CLUSTER')],
    [{ ...cluster, COUNTER_KEYS: 'unambiguous' }, none],
    [perSecond, none],
    [{ ...perSecond, REDIS_PERSECOND_TYPE: 'CLUSTER' }, unreserved('REDIS_PERSECOND_TYPE=CLUSTER')],
    [{ ...perSecond, REDIS_PERSECOND_TYPE: 'CLUSTER', COUNTER_KEYS: 'unambiguous' }, none],
    [{ ...redis, CACHE_KEY_PREFIX: 'a{}' }, spread],
    [{ ...redis, CACHE_KEY_PREFIX: '}{a}{}' }, none],
    [{ ...redis, CACHE_KEY_PREFIX: '{a' }, none],
  ])('follows from %j', (env, limits) => {
    const { settings, errors } = parseLimiterSettings(env);
    expect(errors).toBeUndefined();
    expect(settings && unsupportedReasons(settings)).toEqual(limits);
  });
});

describe('what rules may ask of a limiter', () => {
  const every = { admission: undefined, groups: undefined, reservations: undefined, calendarMonths: false };
  const local = { ...redis, STORE_FAILURE_MODE: 'local' };
  const reason =
    'STORE_FAILURE_MODE=local would count without them while the store fails; use allow, deny or error';
  const never = fixedOnly('REDIS_SCRIPTS=never');

  it.each<[Record<string, string>, object]>([
    [redis, every],
    [local, { ...every, reservations: reason }],
    [{ BACKEND_TYPE: 'memory', STORE_FAILURE_MODE: 'local' }, every],
    [
      { ...redis, USE_CALENDAR_MONTH_RATE_LIMIT: 'true' },
      { ...every, calendarMonths: true },
    ],
    [
      { ...local, REDIS_SCRIPTS: 'never' },
      { ...every, admission: never.algorithms, groups: never.groups, reservations: never.reservations },
    ],
  ])('follows from %j', (env, support) => {
    const { settings } = parseLimiterSettings(env);
    expect(settings && ruleSupport(settings)).toEqual(support);
  });
});
