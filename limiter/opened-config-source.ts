/** Where the settings say that rules come from, and what is logged of it. */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { join } from 'node:path';

import type { Clock } from '../process/clock.ts';
import type { LogFields, Logger } from '../process/logger.ts';
import type { Timers } from '../process/timers.ts';
import { packageVersion } from '../process/version.ts';
import {
  type ConfigSource,
  FileConfigSource,
  routeGrpcErrors,
  XdsConfigSource,
} from './config-source/index.ts';
import { libraryWarning, type OriginLines, ruleFileLines, xdsLines } from './log-lines.ts';
import type { LimiterSettings } from './settings.ts';
import { registerXdsStats } from './stats/limiter-stats.ts';
import type { StatsRegistry } from './stats/stats-registry.ts';
import { xdsMaxMessageBytes } from './xds-settings.ts';

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

export function openConfigSource(parts: ConfigSourceParts): OpenedConfigSource {
  return parts.settings.configType === 'FILE' ? openFiles(parts) : openXds(parts);
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
      clock,
      timers,
    }),
    origin: ruleFileLines(log, join(root, subdirectory, appDirectory)),
  };
}

function openXds({ settings, clock, timers, random, registry, log }: ConfigSourceParts): OpenedConfigSource {
  const listener = xdsLines(log, settings.xdsServerUrl);
  routeGrpcErrors((text) => libraryWarning(log, text));
  const source = new XdsConfigSource({
    target: settings.xdsServerUrl,
    headers: settings.xdsAdditionalHeaders,
    tls: settings.xdsUseTls
      ? {
          certPath: settings.xdsTlsCert,
          keyPath: settings.xdsTlsKey,
          caPath: settings.xdsTlsCa,
          serverName: settings.xdsTlsSan,
        }
      : undefined,
    maxMessageBytes: xdsMaxMessageBytes(settings),
    keepaliveMs: settings.xdsKeepaliveMs,
    node: { id: settings.xdsNodeId, metadata: nodeMetadata(settings), version: packageVersion() },
    mergeDomains: settings.mergeDomainConfig,
    connectRetryMs: settings.xdsConnectRetryMs,
    backoff: {
      initialMs: settings.xdsBackoffInitialMs,
      maxMs: settings.xdsBackoffMaxMs,
      factor: settings.xdsBackoffFactor,
      jitter: settings.xdsBackoffJitter,
      random,
    },
    clock,
    timers,
    listener,
  });
  registerXdsStats(registry, () => source.connected);
  return { source, origin: listener };
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

/** `instance` is this process, over all of its connections. */
function nodeMetadata({ podName, xdsFleet, xdsNodeMetadata }: LimiterSettings): Record<string, string> {
  const pod = podName === '' ? hostname() : podName;
  return { pod, fleet: xdsFleet, instance: randomUUID(), ...Object.fromEntries(xdsNodeMetadata) };
}
