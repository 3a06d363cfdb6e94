/**
 * The parts that only some settings need, and whose libraries take longer to load than all the rest of a limiter: they are
 * loaded before anything is opened, where the settings name them.
 */
import type { LimiterSettings } from '../settings/settings.ts';
import { sinkOf } from '../settings/stats-settings.ts';

export interface OptionalParts {
  readonly redis: typeof import('./redis.ts') | undefined;
  readonly memcache: typeof import('./memcache.ts') | undefined;
  readonly xds: typeof import('./xds-source.ts') | undefined;
  readonly prometheus: typeof import('./prometheus.ts') | undefined;
  readonly reflection: typeof import('../grpc/reflection.ts') | undefined;
}

/** All that a process needs which the settings describe. */
export async function loadOptionalParts(settings: LimiterSettings): Promise<OptionalParts> {
  const [serving, xds, prometheus] = await Promise.all([
    loadServingParts(settings),
    settings.configType === 'FILE' ? undefined : import('./xds-source.ts'),
    sinkOf(settings) === 'prometheus' ? import('./prometheus.ts') : undefined,
  ]);
  return { ...serving, xds, prometheus };
}

/** Of a worker thread, which has neither a source of rules nor statistics to send. */
export async function loadServingParts(settings: LimiterSettings): Promise<ServingOptionalParts> {
  const [redis, memcache, reflection] = await Promise.all([
    settings.backendType === 'redis' ? import('./redis.ts') : undefined,
    settings.backendType === 'memcache' ? import('./memcache.ts') : undefined,
    settings.grpcReflection ? import('../grpc/reflection.ts') : undefined,
  ]);
  return { redis, memcache, reflection };
}

export type ServingOptionalParts = Pick<OptionalParts, 'redis' | 'memcache' | 'reflection'>;

/** Throws when the settings did not name the part for which it was asked now. */
export function loaded<Part>(part: Part | undefined, name: string): Part {
  if (part === undefined) throw new Error(`${name} is not loaded`);
  return part;
}
