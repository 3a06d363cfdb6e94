/** Where the settings say that rules come from, and what is logged of it. */
import { join } from 'node:path';
import type { LogFields } from '../../process/log/logger.ts';
import type { CheckOptions } from '../../rules/validate-sources.ts';
import { FileConfigSource } from '../config-source/file/file-source.ts';
import { ruleFileLines } from '../log/lines.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import { type LimiterContext, loaded, type OpenedConfigSource, type OptionalModules } from './context.ts';

export function openConfigSource(
  context: LimiterContext,
  { xds }: Pick<OptionalModules, 'xds'>,
): OpenedConfigSource {
  const { settings, clock, timers, log } = context;
  if (settings.configType !== 'FILE') return loaded(xds, 'the xDS client').openXds(context);
  const paths = {
    root: settings.runtimeRoot,
    subdirectory: settings.runtimeSubdirectory,
    appDirectory: settings.runtimeAppDirectory,
    ignoreDotFiles: settings.runtimeIgnoreDotFiles,
    watchRoot: settings.runtimeWatchRoot,
  };
  return {
    source: new FileConfigSource({
      paths,
      checks: ruleChecks(settings),
      review: {
        counterKeys: settings.counterKeys,
        sanitizeDescriptorMetricDots: settings.sanitizeDescriptorMetricDots,
      },
      clock,
      timers,
    }),
    origin: ruleFileLines(log, join(paths.root, paths.subdirectory, paths.appDirectory)),
  };
}

/** What is checked of rules, as the settings want it and the store can count. */
export function ruleChecks(settings: LimiterSettings): CheckOptions {
  const { backendType, redisScripts, cacheKeyPrefix, storeFailureMode } = settings;
  const isRedis = backendType === 'redis';
  const narrow =
    backendType === 'memcache'
      ? 'BACKEND_TYPE=memcache'
      : isRedis && redisScripts === 'never'
        ? 'REDIS_SCRIPTS=never'
        : undefined;
  const isLocal = backendType !== 'memory' && storeFailureMode === 'local';
  // Redis takes what stands between the first pair of braces for what decides where a key is.
  const noTag = isRedis && /^[^{]*\{\}/.test(cacheKeyPrefix);
  return {
    mergeDomains: settings.mergeDomainConfig,
    support: {
      admission:
        narrow &&
        `${narrow} counts fixed windows alone, one a rule; others need a Redis with scripts, or memory`,
      groups: noTag
        ? 'CACHE_KEY_PREFIX has {} for its first braces, by which Redis spreads them over nodes'
        : undefined,
      reservations: narrow
        ? `${narrow} keeps no reservations; they need a Redis with scripts, or memory`
        : isLocal
          ? 'STORE_FAILURE_MODE=local would count without them while the store is away; take allow, deny or error'
          : undefined,
      calendarMonths: settings.useCalendarMonthRateLimit,
    },
  };
}

/** The settings by which a source of rules that cannot start was looked for. */
export function sourceFields(settings: LimiterSettings): LogFields {
  if (settings.configType !== 'FILE') return { CONFIG_GRPC_XDS_SERVER_URL: settings.xdsServerUrl };
  return {
    RUNTIME_ROOT: settings.runtimeRoot,
    RUNTIME_SUBDIRECTORY: settings.runtimeSubdirectory,
    RUNTIME_APPDIRECTORY: settings.runtimeAppDirectory,
  };
}
