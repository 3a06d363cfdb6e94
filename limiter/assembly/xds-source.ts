/** Opens the source of rules from a management server, and logs and counts its events. Loads grpc-js: see `optional-modules.ts`. */

import { randomUUID } from 'node:crypto';
import type { JsonObject } from '@bufbuild/protobuf';
import { packageVersion } from '../../process/files/package-file.ts';
import { processLines } from '../../process/log/process-lines.ts';
import { capabilities } from '../../rules/language/capabilities.ts';
import type { RuleSupport } from '../../rules/validate-limits.ts';
import { routeGrpcErrors } from '../config-source/xds/ads-stream.ts';
import { XdsConfigSource } from '../config-source/xds/xds-source.ts';
import { connectionLines } from '../log/connection-lines.ts';
import { lines } from '../log/lines.ts';
import { nameForm } from '../settings/naming.ts';
import { ruleSupport } from '../settings/rule-support.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import { xdsMaxMessageBytes, xdsSettings } from '../settings/xds-settings.ts';
import { registerXdsStats } from '../stats/registry/limiter-stats.ts';
import { ruleChecks } from './config-source.ts';
import { type LimiterContext, limiterName, type OpenedConfigSource } from './context.ts';

export function openXds(context: LimiterContext): OpenedConfigSource {
  const { settings, clock, timers, random, registry, log } = context;
  const { xdsServerUrl: server } = settings;
  routeGrpcErrors((text) => processLines.libraryWarning(log, { text }));
  const source = new XdsConfigSource({
    target: server,
    headers: settings.xdsAdditionalHeaders,
    tls: settings.xdsUseTls
      ? {
          certPath: settings.xdsTlsCert,
          keyPath: settings.xdsTlsKey,
          caPath: settings.xdsTlsCa,
          serverName: settings.xdsTlsSan,
          fileSettings: {
            certPath: xdsSettings.xdsTlsCert.name,
            keyPath: xdsSettings.xdsTlsKey.name,
            caPath: xdsSettings.xdsTlsCa.name,
          },
        }
      : undefined,
    tokenFile: settings.xdsTokenFile === '' ? undefined : settings.xdsTokenFile,
    maxMessageBytes: xdsMaxMessageBytes(settings),
    maxBytes: { bytes: settings.xdsMaxBytes, setting: xdsSettings.xdsMaxBytes.name },
    keepaliveMs: settings.xdsKeepaliveMs,
    node: { id: settings.xdsNodeId, metadata: nodeMetadata(settings), version: packageVersion() },
    incremental: settings.configType === 'GRPC_XDS_DELTA',
    checks: ruleChecks(settings),
    review: nameForm(settings),
    connectRetryMs: settings.xdsConnectRetryMs,
    backoff: {
      initialMs: settings.xdsBackoffInitialMs,
      maxMs: settings.xdsBackoffMaxMs,
      factor: settings.xdsBackoffFactor,
      jitter: settings.xdsBackoffJitter,
      exactFirst: settings.isXdsBackoffFactorSet,
      random,
    },
    clock,
    timers,
    listener: {
      connected: () => lines.xdsConnected(log, { server }),
      attemptFailed: (reason, retryMs) => lines.xdsAttemptFailed(log, { server, reason, retryMs }),
      notIncremental: () => lines.xdsNotIncremental(log, { server }),
      noRulesYet: () => lines.xdsNoRulesYet(log, { server }),
      tlsFilesRejected: (reason) => connectionLines.clientTlsRejected(log, { client: 'xDS', reason }),
    },
  });
  registerXdsStats(registry, source);
  return {
    source,
    origin: {
      noRules: () => lines.noRules(log, { server }),
      unreachable: (reason, areLoaded) => lines.xdsUnreachable(log, { server, reason, areLoaded }),
      reachable: () => lines.xdsReachable(log, { server }),
    },
  };
}

/**
 * `instance` identifies this process on all of its connections. The control plane reads from `counter_keys` whether counters may
 * collide, from `capabilities` which rules this version supports, and from `rule_support` which of them the limiter would reject.
 */
function nodeMetadata(settings: LimiterSettings): JsonObject {
  const { xdsFleet: fleet, counterKeys: counter_keys, xdsNodeMetadata } = settings;
  return {
    pod: limiterName(settings),
    fleet,
    instance: randomUUID(),
    ...Object.fromEntries(xdsNodeMetadata),
    counter_keys,
    capabilities: [...capabilities],
    ...supportMetadata(ruleSupport(settings)),
  };
}

/** Empty for a limiter that supports all rules. */
function supportMetadata(support: RuleSupport): JsonObject {
  const limits = Object.entries(support).filter(([, limit]) => limit !== undefined && limit !== false);
  return limits.length === 0 ? {} : { rule_support: Object.fromEntries(limits) };
}
