/** Limiter settings from the options of `createLimiter`. The environment is never read. */
import { rows as budgetSettings } from '../../limiter/reservations/settings.ts';
import { counterSettings, requestSettings } from '../../limiter/settings/counting-settings.ts';
import { decisionSettings, headerSettings } from '../../limiter/settings/decision-settings.ts';
import { type RedisPlace, redisSettings } from '../../limiter/settings/redis-settings.ts';
import { withStore } from '../../limiter/settings/rule-support.ts';
import { type LimiterSettings, parseLimiterSettings } from '../../limiter/settings/settings.ts';
import type { LimiterOptions, RedisStoreOptions } from './api.ts';
import { checkOptions } from './checks.ts';
import { LimiterError } from './limiter-error.ts';

const tables = [budgetSettings, counterSettings, decisionSettings, headerSettings, requestSettings];
const tlsNames = Object.values(redisSettings).filter(({ name }) => name.startsWith('REDIS_TLS_'));
/** Settings of counting, responses and TLS for Redis. All others concern the server, or are options of the library. */
const settingNames: ReadonlySet<string> = new Set(
  [...tables.flatMap((table) => Object.values(table)), ...tlsNames].map(({ name }) => name),
);

const defaultTimeoutMs = 250;
/** The longest delay of Node's timers. Longer ones fire immediately. */
const maxTimeoutMs = 0x7fff_ffff;
const failureModes = { allow: 'allow', deny: 'deny', throw: 'error' } as const;

/** Throws a `LimiterError` for an option or setting that cannot be used. */
export function librarySettings(options: LimiterOptions): LimiterSettings {
  checkOptions('createLimiter', options, ['rules', 'store', 'onError', 'onEvent', 'settings']);
  const { store, onError = 'allow', settings = {} } = options;
  if (!Object.hasOwn(failureModes, onError))
    throw new LimiterError('invalid', `onError is allow, deny or throw, not ${String(onError)}`);
  const { onEvent } = options;
  if (onEvent !== undefined && typeof onEvent !== 'function')
    throw new LimiterError('invalid', `onEvent is a function, not ${typeof onEvent}`);
  if (typeof settings !== 'object' || settings === null)
    throw new LimiterError('invalid', `settings is an object, not ${String(settings)}`);
  for (const name of Object.keys(settings)) {
    if (!settingNames.has(name))
      throw new LimiterError('invalid', `settings.${name} is not a setting that the library accepts`);
  }
  const { errors, settings: parsed } = parseLimiterSettings(settings);
  if (errors !== undefined)
    throw new LimiterError('invalid', errors.map(({ message }) => message).join('; '));
  return withStore(parsed, placeOf(store), failureModes[onError]);
}

/** Returns the place of the store. Undefined for memory. */
function placeOf(store: LimiterOptions['store']): RedisPlace | undefined {
  if (store === undefined) return undefined;
  checkOptions('store', store, ['redis', 'type', 'timeoutMs']);
  const { redis, type = 'single' } = store;
  const timeoutMs = timeoutOf(store);
  if (!(timeoutMs >= 1 && timeoutMs <= maxTimeoutMs))
    throw new LimiterError('invalid', `store.timeoutMs is from 1 to ${maxTimeoutMs}, not ${timeoutMs}`);
  if (!['single', 'sentinel', 'cluster'].includes(type))
    throw new LimiterError('invalid', `store.type is single, sentinel or cluster, not ${String(type)}`);
  checkRedis(redis);
  return { url: typeof redis === 'string' ? redis : '', type, timeoutMs };
}

function checkRedis(redis: unknown): void {
  if (typeof redis === 'string') return;
  if (typeof redis !== 'object' || redis === null || !('callBuffer' in redis || 'sendCommand' in redis))
    throw new LimiterError('invalid', 'store.redis is an address, or a client of ioredis or redis');
  // A cluster client sends a command to the node of its first key, and a call of this library has many keys.
  if (('isCluster' in redis && redis.isCluster === true) || 'slots' in redis)
    throw new LimiterError(
      'invalid',
      "store.redis is a client of a cluster, which is not supported: give the addresses of its nodes, and type: 'cluster'",
    );
  if (keyPrefixOf(redis) !== '')
    throw new LimiterError(
      'invalid',
      'store.redis has a keyPrefix, so that it would share no counters: remove it, and set settings.CACHE_KEY_PREFIX',
    );
}

function keyPrefixOf(client: object): string {
  const options = 'options' in client ? client.options : undefined;
  if (typeof options !== 'object' || options === null || !('keyPrefix' in options)) return '';
  return String(options.keyPrefix ?? '');
}

/** Returns the timeout of connecting and of every call. */
export function timeoutOf({ timeoutMs = defaultTimeoutMs }: RedisStoreOptions): number {
  return timeoutMs;
}
