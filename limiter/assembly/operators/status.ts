/** Builds the data of the admin API from the parts of a limiter: status, rates, rules. */

import { packageVersion } from '../../../process/files/package-file.ts';
import type { ApiRoute } from '../../../process/http/api-route.ts';
import type { RuleError } from '../../../rules/rule-error.ts';
import type { OverridesHere } from '../../capabilities/parts.ts';
import type { RulesInForce } from '../../config-source/rules-in-force.ts';
import { defaultLease } from '../../leases/settings.ts';
import { RateSampler } from '../../operate/rates.ts';
import { ruleRoutes } from '../../operate/rule-routes.ts';
import { statusRoutes } from '../../operate/status-routes.ts';
import { explainingSettings } from '../../settings/naming.ts';
import { sinkOf } from '../../settings/stats-settings.ts';
import { adminChanges } from '../../stats/registry/operator-stats.ts';
import type { LimiterContext } from '../context.ts';
import type { servingThreads } from '../serving.ts';

export interface StatusParts {
  self: { readonly name: string; readonly instance: string };
  rules: RulesInForce;
  threads: ReturnType<typeof servingThreads>;
  overrides: OverridesHere | undefined;
  /** The names of enabled capabilities. */
  capabilities: readonly string[];
  /** Whether the limiter serves callers. */
  isServing(): boolean;
}

/** `close` stops the periodic sampling of statistics. */
export function openStatus(
  context: LimiterContext,
  parts: StatusParts,
): { routes: ApiRoute[]; close(): void } {
  const { settings, registry, clock, timers, health } = context;
  const { self, rules, threads, overrides, capabilities } = parts;
  const store = storeStatus(context);
  const sampler = new RateSampler({
    onLook: () => void store(),
    registry,
    clock,
    timers,
    takeLatencies: () => threads.reach('takeLatencies', undefined),
    domains: () => rules.table?.domainNames() ?? [],
  });
  const startedAt = new Date(clock.nowMs()).toISOString();
  const routes = [
    ...statusRoutes({
      limiter: { ...self, version: packageVersion(), node: process.version, startedAt, pid: process.pid },
      ready: () => health.healthy && parts.isServing(),
      failing: () => health.failing,
      capabilities,
      rules: (readsAll) => ({
        version: rules.table?.contentHash ?? null,
        domains: rules.table?.domainCount ?? 0,
        rules: rules.table?.ruleCount ?? 0,
        loadedAt: timeOrNull(rules.loadedMs),
        lastLoadFailed: rules.lastLoadFailed,
        lastError: readsAll ? errorJson(rules.lastError) : null,
        source: settings.configType === 'FILE' ? 'file' : 'xds',
        overrides: overrides?.count() ?? 0,
      }),
      store,
      sinks: () => [{ name: sinkOf(settings), linesDropped: droppedLines(context) }],
      changes: () =>
        Object.fromEntries(
          adminChanges.map((what) => [
            what,
            registry.valueNamed('ratelimit.admin.changes', [['what', what]]) ?? 0,
          ]),
        ),
      refresh: () => registry.refreshAll(),
      sampler,
    }),
    ...ruleRoutes({
      table: () => rules.table,
      registry,
      sampler,
      nowMs: () => clock.nowMs(),
      overrides: (domain, entries) => overrides?.find(domain, entries),
      explaining: explainingSettings(settings),
    }),
  ];
  return { routes, close: () => sampler.close() };
}

/**
 * The state of the store. The time since which the breaker is open is only as exact as the requests are frequent. Health is less precise,
 * because it follows a store only if that is configured.
 */
function storeStatus({ settings, registry, clock }: LimiterContext): () => Record<string, unknown> {
  let openSinceMs: number | undefined;
  return () => {
    const open = ['store_breaker', 'per_second_store_breaker'].map((name) =>
      registry.valueNamed(`ratelimit.${name}.open`),
    );
    const hasBreaker = open.some((value) => value !== undefined);
    const isOpen = open.some((value) => value === 1);
    openSinceMs = isOpen ? (openSinceMs ?? clock.nowMs()) : undefined;
    const isAway = ['store', 'per_second_store'].some(
      (name) => registry.valueNamed(`ratelimit.${name}.available`) === 0,
    );
    const nodesDown = registry.valueNamed('ratelimit.memcache.nodes_down') ?? 0;
    return {
      type: settings.backendType,
      connected: !isAway && nodesDown === 0,
      breaker: hasBreaker ? (isOpen ? 'open' : 'closed') : 'none',
      openSince: timeOrNull(openSinceMs),
      failureMode: settings.backendType === 'memory' ? 'none' : settings.storeFailureMode,
      leases: defaultLease(settings) !== undefined,
    };
  };
}

/** Chosen: one or two lines of a terminal. */
const longestErrorText = 300;

/** Returns the first line of an error. */
function errorJson(error: RuleError | undefined): object | null {
  if (error === undefined) return null;
  const { source, text, line = null, column = null } = error;
  return { source, line, column, text: text.split('\n', 1)[0]!.slice(0, longestErrorText) };
}

/** Null for a sink that does not count lines, because it is scraped, or if there is no sink. */
function droppedLines({ settings, registry }: LimiterContext): number | null {
  return registry.valueNamed(`ratelimit.${sinkOf(settings)}.lines_dropped`) ?? null;
}

function timeOrNull(ms: number | undefined): string | null {
  return ms === undefined ? null : new Date(ms).toISOString();
}
