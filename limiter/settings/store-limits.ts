/**
 * What the store of these settings can never do. Limiters and `weir check` reject rules that need it, and calls that need it get the
 * reason. What only the server decides, such as the rights of a user, is an error of the operation instead.
 */
import type { RuleSupport } from '../../rules/validate-limits.ts';
import type { StoreLimits } from '../stores/store.ts';
import { type RedisPlace, redisAt } from './redis-settings.ts';
import type { LimiterSettings } from './settings.ts';

type StoreSettings = Pick<
  LimiterSettings,
  | 'backendType'
  | 'redisScripts'
  | 'redisType'
  | 'redisPerSecond'
  | 'redisPerSecondType'
  | 'counterKeys'
  | 'cacheKeyPrefix'
>;

export function storeLimits(settings: StoreSettings): StoreLimits {
  const { backendType, redisScripts, cacheKeyPrefix } = settings;
  if (backendType === 'memory') return noLimits;
  if (backendType === 'memcache') return withoutScripts('BACKEND_TYPE=memcache');
  if (redisScripts === 'never') return withoutScripts('REDIS_SCRIPTS=never');
  // Redis takes what stands between the first pair of braces for what decides where a key is.
  const hasNoTag = /^[^{]*\{\}/.test(cacheKeyPrefix);
  return {
    algorithms: undefined,
    groups: hasNoTag
      ? 'CACHE_KEY_PREFIX has {} for its first braces, by which Redis spreads them over nodes'
      : undefined,
    reservations: clusterReason(settings),
    shares: undefined,
  };
}

/** What rules may ask of a limiter: what its store can do, and what its other settings leave of that. */
export function ruleSupport(
  settings: StoreSettings & Pick<LimiterSettings, 'storeFailureMode' | 'useCalendarMonthRateLimit'>,
): RuleSupport {
  const { algorithms: admission, groups, reservations } = storeLimits(settings);
  const isLocal = settings.backendType !== 'memory' && settings.storeFailureMode === 'local';
  return {
    admission,
    groups,
    reservations:
      reservations ??
      (isLocal
        ? 'STORE_FAILURE_MODE=local would count without them while the store is away; take allow, deny or error'
        : undefined),
    calendarMonths: settings.useCalendarMonthRateLimit,
  };
}

const noLimits: StoreLimits = {
  algorithms: undefined,
  groups: undefined,
  reservations: undefined,
  shares: undefined,
};

function withoutScripts(setting: string): StoreLimits {
  const fixedOnly = `${setting} counts fixed windows alone, one a rule; others need a Redis with scripts, or memory`;
  return {
    algorithms: fixedOnly,
    groups: fixedOnly,
    reservations: `${setting} keeps no reservations; they need a Redis with scripts, or memory`,
    shares: `${setting} shares nothing out to quota clients, which needs a Redis with scripts, or memory`,
  };
}

function clusterReason({
  redisType,
  redisPerSecond,
  redisPerSecondType,
  counterKeys,
}: StoreSettings): string | undefined {
  if (counterKeys === 'unambiguous') return undefined;
  const cluster =
    redisType === 'CLUSTER'
      ? 'REDIS_TYPE=CLUSTER'
      : redisPerSecond && redisPerSecondType === 'CLUSTER'
        ? 'REDIS_PERSECOND_TYPE=CLUSTER'
        : undefined;
  return (
    cluster &&
    `${cluster} with COUNTER_KEYS=compatible keeps no reservations, because the windows of a counter are in different slots; set COUNTER_KEYS=unambiguous`
  );
}

/** The same settings with this store, of a program that is configured by code; undefined: memory. */
export function withStore(
  settings: LimiterSettings,
  place: RedisPlace | undefined,
  storeFailureMode: LimiterSettings['storeFailureMode'],
): LimiterSettings {
  if (place === undefined) return { ...settings, backendType: 'memory', storeFailureMode };
  return { ...settings, ...redisAt(place), backendType: 'redis', storeFailureMode };
}
