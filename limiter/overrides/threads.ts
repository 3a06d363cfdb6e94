/** Overrides of this process from files, the API and a control plane. They are joined and published to the threads that serve. */
import { join, resolve } from 'node:path';
import type { Override } from '../../rules/override.ts';
import type { Decisions, MainContext, MainPart, ThreadPart } from '../capabilities/parts.ts';
import { limitWithOverrides, overridable } from '../decide/limit-with-overrides.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { lines } from './lines.ts';
import { OverrideFiles } from './override-files.ts';
import { overrideRoutes } from './override-routes.ts';
import { OverridesInForce } from './overrides-in-force.ts';
import type { OverrideSettings } from './settings.ts';
import { StoredOverrides } from './stored-overrides.ts';

/** Messages to each thread that serves. */
interface OverrideMessages {
  /** Makes the thread decide with these overrides over the rules from now on. Replaces all earlier ones. */
  use(overrides: readonly Override[]): void;
}

export function thread(): ThreadPart {
  let decisions: Decisions | undefined;
  const messages: OverrideMessages = { use: (overrides) => decisions?.useOverrides(overrides) };
  return {
    messages,
    opened: (opened) => {
      decisions = opened;
    },
  };
}

export function main(context: MainContext<OverrideSettings>): MainPart {
  const { settings, clock, timers, registry, log, storeAdmin, rules, counting } = context;
  const threads = context.threads.of<OverrideMessages>();
  const inForce = new OverridesInForce({
    publish: (overrides) => threads.publish('use', overrides),
    ...{ rules, clock, timers },
  });
  const stored = new StoredOverrides({
    storeAdmin,
    use: async (overrides, when) =>
      when === 'now' ? inForce.use('api', overrides) : inForce.useSoon('api', overrides),
    onGivenBack: (overrides) => lines.overridesGivenBack(log, { overrides }),
    clock,
    timers,
    pollMs: settings.overridesPollIntervalMs,
  });
  const files = new OverrideFiles({
    directory: overridesDirectory(settings),
    ignoreDotFiles: settings.runtimeIgnoreDotFiles,
    maxSeconds: settings.overridesMaxSeconds,
    use: (overrides) => void inForce.use('file', overrides),
    loaded: (overrides, isRecovered) =>
      lines[isRecovered ? 'overridesValidAgain' : 'overridesLoaded'](log, { overrides }),
    rejected: (problems, total) => lines.overridesRejected(log, { problems, total }),
    clock,
    timers,
  });
  registerOverrideStats(registry, { inForce, files });
  return {
    overrides: {
      count: () => inForce.count,
      find: (domain, entries) => inForce.find(domain, entries),
      useObjects: (overrides) => inForce.use('object', overrides),
      limitOf: ({ domain, entries, rule, limit, nowMs }) => {
        const found = inForce.find(domain, entries);
        if (found === undefined) return undefined;
        const one = overridable(limit, rule.limits);
        const { override, isLifted, limit: effective } = limitWithOverrides(one, found, nowMs, counting);
        if (override === undefined) return undefined;
        return { id: override.id, kind: override.effect.kind, limit: isLifted ? undefined : effective };
      },
    },
    routes: (report) =>
      overrideRoutes({
        ...{ storeAdmin, stored, inForce, rules, clock, report },
        settings: counting,
        max: settings.overridesMax,
        maxSeconds: settings.overridesMaxSeconds,
      }),
    // The overrides are in force from the first decision on.
    start: async () => files.start(),
    storeAnswers: () => stored.start(),
    close: () => {
      files.close();
      stored.close();
      inForce.close();
    },
  };
}

/** Returns a directory beside the rules and never inside them, because other limiters would read its files as rule files. */
function overridesDirectory({ overridesDir, runtimeRoot, runtimeSubdirectory }: OverrideSettings): string {
  return overridesDir === '' ? join(resolve(runtimeRoot), runtimeSubdirectory, 'overrides') : overridesDir;
}

/** Registers statistics of the main thread. */
export function registerOverrideStats(
  registry: StatsRegistry,
  {
    inForce,
    files,
  }: {
    inForce: { readonly count: number; readonly conflicted: number };
    files: { readonly wasLastRejected: boolean };
  },
): void {
  registry.gauge('ratelimit.overrides.in_force', () => inForce.count);
  registry.gauge('ratelimit.overrides.conflicted', () => inForce.conflicted);
  registry.gauge('ratelimit.overrides.files_refused', () => Number(files.wasLastRejected));
}
