/** Overrides of this process: by files, by the API and by a control plane, joined and handed to the threads that serve. */
import { join, resolve } from 'node:path';
import type { ApiRoute, TellOfChange } from '../../../process/http/api-route.ts';
import type { RuleMatcher } from '../../../rules/match-result.ts';
import type { Override } from '../../../rules/override.ts';
import { limitUnder, overridable } from '../../decide/overridden.ts';
import * as lines from '../../log/lines.ts';
import type { EffectiveLimit } from '../../operate/counter-view.ts';
import { KeptOverrides } from '../../operate/kept-overrides.ts';
import type { StoreOffice } from '../../operate/office/office.ts';
import type { Order } from '../../operate/orders.ts';
import { OverrideFiles } from '../../operate/override-files.ts';
import { overrideRoutes } from '../../operate/override-routes.ts';
import { OverridesInForce } from '../../operate/overrides-in-force.ts';
import type { LimiterSettings } from '../../settings/settings.ts';
import { registerOverrideStats } from '../../stats/registry/operator-stats.ts';
import type { LimiterContext } from '../context.ts';
import { countingOptions } from '../decision-service.ts';

interface OverridesParts {
  office: StoreOffice;
  /** Reaches every thread that serves. */
  operate(order: Order): Promise<unknown>;
  /** Those in force; undefined: there are none yet. */
  rules(): RuleMatcher | undefined;
}

export interface OpenedOverrides {
  readonly inForce: OverridesInForce;
  /** Of a control plane; settles when they are in force everywhere. */
  useObjects(overrides: readonly Override[]): Promise<void>;
  routes(tell: TellOfChange): ApiRoute[];
  readonly limitOf: EffectiveLimit;
  /** They are in force from the first decision on. */
  startFiles(): void;
  /** What the store keeps comes as soon as it answers. */
  startKept(): void;
  close(): void;
}

export function openOverrides(
  context: LimiterContext,
  { office, operate, rules }: OverridesParts,
): OpenedOverrides {
  const { settings, clock, timers, registry, log } = context;
  const counting = countingOptions(settings);
  const inForce = new OverridesInForce({ operate, rules, clock, timers });
  const kept = new KeptOverrides({
    office,
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
    loaded: (overrides, isMended) => lines.overridesLoaded(log, { overrides }, isMended),
    refused: (problems, total) => lines.overridesRefused(log, { problems, total }),
    clock,
    timers,
  });
  registerOverrideStats(registry, { inForce, files });
  return {
    inForce,
    useObjects: (overrides) => inForce.use('object', overrides),
    limitOf: ({ domain, entries, rule, limit, nowMs }) => {
      const found = inForce.find(domain, entries);
      if (found === undefined) return undefined;
      const one = overridable(limit, rule.limits);
      const { override, isLifted, limit: effective } = limitUnder(one, found, nowMs, counting);
      if (override === undefined) return undefined;
      return { id: override.id, kind: override.effect.kind, limit: isLifted ? undefined : effective };
    },
    routes: (tell) =>
      overrideRoutes({
        ...{ office, kept, inForce, rules, clock, tell },
        settings: counting,
        most: settings.overridesMax,
        maxSeconds: settings.overridesMaxSeconds,
      }),
    startFiles: () => files.start(),
    startKept: () => kept.start(),
    close: () => {
      files.close();
      kept.close();
      inForce.close();
    },
  };
}

/** Beside the rules and never in them: a limiter of another maker would take it for a rule file. */
function overridesDirectory({ overridesDir, runtimeRoot, runtimeSubdirectory }: LimiterSettings): string {
  return overridesDir === '' ? join(resolve(runtimeRoot), runtimeSubdirectory, 'overrides') : overridesDir;
}
