/** Opens the source of rules that the settings name, and logs its events. */

import { join } from 'node:path';
import type { LogFields } from '../../process/log/logger.ts';
import type { SourceCheckOptions } from '../../rules/validate-sources.ts';
import { FileConfigSource } from '../config-source/file/file-source.ts';
import { lines } from '../log/lines.ts';
import { nameForm } from '../settings/naming.ts';
import { ruleSupport } from '../settings/rule-support.ts';
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
  const path = join(paths.root, paths.subdirectory, paths.appDirectory);
  return {
    source: new FileConfigSource({
      paths,
      checks: ruleChecks(settings),
      review: nameForm(settings),
      clock,
      timers,
    }),
    origin: {
      noRules: () => lines.noRules(log, { path }),
      unreachable: (error) => lines.ruleFilesUnreachable(log, { path, error }),
      reachable: () => lines.ruleFilesReachable(log, { path }),
    },
  };
}

/** The checks of rules that the settings request and the store requires. */
export function ruleChecks(settings: LimiterSettings): SourceCheckOptions {
  return { mergeDomains: settings.mergeDomainConfig, support: ruleSupport(settings) };
}

/** The settings that determine the source of rules, for the log line of a source that cannot start. */
export function sourceFields(settings: LimiterSettings): LogFields {
  if (settings.configType !== 'FILE') return { CONFIG_GRPC_XDS_SERVER_URL: settings.xdsServerUrl };
  return {
    RUNTIME_ROOT: settings.runtimeRoot,
    RUNTIME_SUBDIRECTORY: settings.runtimeSubdirectory,
    RUNTIME_APPDIRECTORY: settings.runtimeAppDirectory,
  };
}
