/**
 * Connects settings, parts and listeners, and closes them in reverse order. It is the only file that knows all parts of the control
 * plane.
 */
import { hostname } from 'node:os';
import { routeLibraryWarnings } from '../process/log/error-text.ts';
import { type LogDestination, openLog } from '../process/log/pino-logger.ts';
import { processLines, reportNotRun } from '../process/log/process-lines.ts';
import { enforceMinimumTls } from '../process/net/minimum-tls.ts';
import { type Clock, systemClock, systemTimers, type Timers } from '../process/time/clock.ts';
import type { SignalSource } from '../process/time/shutdown.ts';
import type { OpenBacking } from './backing.ts';
import { ControlPlane, type ControlPlanePorts } from './control-plane.ts';
import { parseControlPlaneSettings } from './settings/settings.ts';
import type { ControlPlaneSettings } from './settings/table.ts';
import { lines } from './telemetry/log-lines.ts';

export interface ControlPlaneHost {
  /** The environment of the process, without settings that turn verification off. */
  env: Record<string, string | undefined>;
  /** The source of signals. Defaults to this process. */
  signals?: SignalSource;
  clock?: Clock;
  timers?: Timers;
  /** A number from 0 to below 1. */
  random?: () => number;
  /** The host's name. Defaults to the name of this machine. */
  hostName?: string;
  /** The destination of the log. Defaults to standard error. */
  logDestination?: LogDestination;
  /** Called when all listeners are open. */
  onListening?: (ports: ControlPlanePorts) => void;
}

/** Runs a control plane until a signal ends it, or until it cannot start. Resolves to the exit status. */
export async function runControlPlane(host: ControlPlaneHost): Promise<number> {
  const parsed = parseControlPlaneSettings(host.env);
  const log = openLog(parsed, host);
  if (parsed.errors !== undefined) return 1;
  const { settings } = parsed;
  if (enforceMinimumTls(host.env)) processLines.verificationStays(log);
  routeLibraryWarnings((text) => processLines.libraryWarning(log, { text }));
  try {
    const controlPlane = new ControlPlane({
      settings,
      log,
      openBacking: await loadBacking(settings),
      env: host.env,
      hostName: host.hostName ?? hostname(),
      signals: host.signals ?? process,
      clock: host.clock ?? systemClock,
      timers: host.timers ?? systemTimers,
      random: host.random ?? Math.random,
      onListening: host.onListening ?? (() => {}),
    });
    return await controlPlane.run();
  } catch (error) {
    lines.startFailed(log, { error });
    return 1;
  }
}

/** Loads only the code for this kind of source, because the Kubernetes library alone takes 80 MB. */
async function loadBacking({ source }: ControlPlaneSettings): Promise<OpenBacking> {
  if (source === 'KUBERNETES') return (await import('./cluster-backing.ts')).openClusterBacking;
  const { DirectoryBacking } = await import('./directory-backing.ts');
  return (options) => {
    const { manifestsDirectory: folder, className } = options.settings;
    return new DirectoryBacking({ ...options, folder, className });
  };
}

if (import.meta.main) reportNotRun('control-plane/main.ts', 'control-plane');
