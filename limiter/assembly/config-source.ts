/** Where the settings say that rules come from, and what is logged of it. */
import { join } from 'node:path';
import type { LogFields, Logger } from '../../process/log/logger.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { ConfigSource } from '../config-source/config-source.ts';
import { FileConfigSource } from '../config-source/file/file-source.ts';
import { type OriginLines, ruleFileLines } from '../log/lines.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { loaded, type OptionalParts } from './optional-parts.ts';

export function openConfigSource(
  parts: ConfigSourceParts & { optional: Pick<OptionalParts, 'xds'> },
): OpenedConfigSource {
  if (parts.settings.configType === 'FILE') return openFiles(parts);
  return loaded(parts.optional.xds, 'the xDS client').openXds(parts);
}

function openFiles({ settings, clock, timers, log }: ConfigSourceParts): OpenedConfigSource {
  const {
    runtimeRoot: root,
    runtimeSubdirectory: subdirectory,
    runtimeAppDirectory: appDirectory,
  } = settings;
  const { runtimeIgnoreDotFiles: ignoreDotFiles, runtimeWatchRoot: watchRoot } = settings;
  return {
    source: new FileConfigSource({
      paths: { root, subdirectory, appDirectory, ignoreDotFiles, watchRoot },
      mergeDomains: settings.mergeDomainConfig,
      review: {
        counterKeys: settings.counterKeys,
        undottedMetrics: settings.sanitizeDescriptorMetricDots,
      },
      clock,
      timers,
    }),
    origin: ruleFileLines(log, join(root, subdirectory, appDirectory)),
  };
}

/** The settings by which a source of rules that cannot start was looked for. */
export function sourceFields(settings: LimiterSettings): LogFields {
  if (settings.configType === 'GRPC_XDS_SOTW') return { CONFIG_GRPC_XDS_SERVER_URL: settings.xdsServerUrl };
  return {
    RUNTIME_ROOT: settings.runtimeRoot,
    RUNTIME_SUBDIRECTORY: settings.runtimeSubdirectory,
    RUNTIME_APPDIRECTORY: settings.runtimeAppDirectory,
  };
}

/** What it takes to open a source of rules. */
export interface ConfigSourceParts {
  settings: LimiterSettings;
  clock: Clock;
  timers: Timers;
  random: () => number;
  registry: StatsRegistry;
  log: Logger;
}

export interface OpenedConfigSource {
  source: ConfigSource;
  origin: OriginLines;
}
