/**
 * The modules that only some settings need, and whose libraries take longer to load than all the rest of a limiter: they are
 * loaded before anything is opened, where the settings name them.
 */
import type { LimiterSettings } from '../settings/settings.ts';
import { sinkOf } from '../settings/stats-settings.ts';
import { loadCapabilities } from './capabilities.ts';
import type { OptionalModules, ServingModules } from './context.ts';

/** All that a process needs which the settings describe. */
export async function loadOptionalModules(settings: LimiterSettings): Promise<OptionalModules> {
  const [serving, xds, prometheus] = await Promise.all([
    loadServingModules(settings),
    settings.configType === 'FILE' ? undefined : import('./xds-source.ts'),
    sinkOf(settings) === 'prometheus' ? import('./prometheus.ts') : undefined,
  ]);
  return { ...serving, xds, prometheus };
}

/** Of a worker thread, which has neither a source of rules nor statistics to send. */
export async function loadServingModules(settings: LimiterSettings): Promise<ServingModules> {
  const [redis, memcache, capabilities] = await Promise.all([
    settings.backendType === 'redis' ? import('./redis.ts') : undefined,
    settings.backendType === 'memcache' ? import('./memcache.ts') : undefined,
    loadCapabilities(settings),
  ]);
  return { redis, memcache, capabilities };
}
