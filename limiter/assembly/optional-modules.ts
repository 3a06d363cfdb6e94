/**
 * The modules that only some settings need. Their libraries take longer to load than the rest of the limiter. If the settings need them,
 * they are loaded before anything is opened.
 */
import type { LimiterSettings } from '../settings/settings.ts';
import { sinkOf } from '../settings/stats-settings.ts';
import { loadCapabilities } from './capabilities.ts';
import type { OptionalModules, ServingModules } from './context.ts';

/** Loads all modules that a process needs for these settings. */
export async function loadOptionalModules(settings: LimiterSettings): Promise<OptionalModules> {
  const [serving, xds, prometheus] = await Promise.all([
    loadServingModules(settings),
    settings.configType === 'FILE' ? undefined : import('./xds-source.ts'),
    sinkOf(settings) === 'prometheus' ? import('./prometheus.ts') : undefined,
  ]);
  return { ...serving, xds, prometheus };
}

/** Loads the modules of a worker thread, which has neither a source of rules nor statistics to send. */
export async function loadServingModules(settings: LimiterSettings): Promise<ServingModules> {
  const [redis, memcache, capabilities] = await Promise.all([
    settings.backendType === 'redis' ? import('./redis.ts') : undefined,
    settings.backendType === 'memcache' ? import('./memcache.ts') : undefined,
    loadCapabilities(settings),
  ]);
  return { redis, memcache, capabilities };
}
