/**
 * Decides from the settings which rules the store supports. Limiters and `weir check` reject rules that need a missing capability, and
 * calls that need one get the reason. Rejections that depend on the server, such as the rights of a user, are errors of the operation
 * instead.
 */
import type { RuleSupport } from '../../rules/validate-limits.ts';
import type { UnsupportedReasons } from '../stores/store.ts';
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

export function unsupportedReasons(settings: StoreSettings): UnsupportedReasons {
  const { backendType, redisScripts, cacheKeyPrefix } = settings;
  if (backendType === 'memory') return allSupported;
  if (backendType === 'memcache') return withoutScripts('BACKEND_TYPE=memcache');
  if (redisScripts === 'never') return withoutScripts('REDIS_SCRIPTS=never');
  // Redis determines the node of a key from the text between the first pair of braces.
  const hasNoTag = /^[^{]*\{\}/.test(cacheKeyPrefix);
  return {
    algorithms: undefined,
    groups: hasNoTag
      ? 'CACHE_KEY_PREFIX begins with {}: Redis Cluster uses the first braces to choose a node'
      : undefined,
    reservations: clusterReason(settings),
    shares: undefined,
  };
}

/** Returns the capabilities that rules may use: those of the limiter's store, reduced by its other settings. */
export function ruleSupport(
  settings: StoreSettings & Pick<LimiterSettings, 'storeFailureMode' | 'useCalendarMonthRateLimit'>,
): RuleSupport {
  const { algorithms: admission, groups, reservations } = unsupportedReasons(settings);
  const isLocal = settings.backendType !== 'memory' && settings.storeFailureMode === 'local';
  return {
    admission,
    groups,
    reservations:
      reservations ??
      (isLocal
        ? 'STORE_FAILURE_MODE=local would count without them while the store fails; use allow, deny or error'
        : undefined),
    calendarMonths: settings.useCalendarMonthRateLimit,
  };
}

const allSupported: UnsupportedReasons = {
  algorithms: undefined,
  groups: undefined,
  reservations: undefined,
  shares: undefined,
};

function withoutScripts(setting: string): UnsupportedReasons {
  const fixedOnly = `${setting} counts only fixed windows, one for each rule; others need a Redis with scripts, or memory`;
  return {
    algorithms: fixedOnly,
    groups: fixedOnly,
    reservations: `${setting} cannot store reservations; they need a Redis with scripts, or memory`,
    shares: `${setting} cannot assign limits to quota clients, which needs a Redis with scripts, or memory`,
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
    `${cluster} with COUNTER_KEYS=compatible cannot store reservations, because the windows of a counter are in different slots; set COUNTER_KEYS=unambiguous`
  );
}

/** Returns the settings with the store of a program that is configured by code. Undefined: memory. */
export function withStore(
  settings: LimiterSettings,
  place: RedisPlace | undefined,
  storeFailureMode: LimiterSettings['storeFailureMode'],
): LimiterSettings {
  if (place === undefined) return { ...settings, backendType: 'memory', storeFailureMode };
  return { ...settings, ...redisAt(place), backendType: 'redis', storeFailureMode };
}
