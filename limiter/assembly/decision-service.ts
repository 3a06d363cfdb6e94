/** Creates the service from the settings of decisions, headers and counting. */

import { unitOfHits } from '../../rules/describe.ts';
import type { DecisionObserver } from '../capabilities/parts.ts';
import { policyName } from '../decide/extra-headers.ts';
import type { LimitPlan } from '../decide/limit-plan.ts';
import type { ResponseOptions, StoreFailureAnswer } from '../decide/response.ts';
import { defaultLease } from '../leases/settings.ts';
import { lines } from '../log/lines.ts';
import { budgetOutcomes, type CountingOptions } from '../service/decision.ts';
import { LimitWarnings } from '../service/limit-warnings.ts';
import { RateLimitService } from '../service/rate-limit-service.ts';
import { nameForm } from '../settings/naming.ts';
import { unsupportedReasons } from '../settings/rule-support.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import {
  createBudgetStats,
  createLimiterStats,
  createWarningStats,
  registerLocalCacheStats,
} from '../stats/registry/limiter-stats.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { BoundedLocalCache } from '../stores/local-cache.ts';
import type { OnceClaims, ReservationStore, Store } from '../stores/store.ts';
import type { LimiterContext } from './context.ts';

interface DecisionParts {
  store: Store;
  /** Undefined if there is no local cache. */
  reservations?: ReservationStore | undefined;
  /** Undefined if no capability observes decisions. */
  observer?: DecisionObserver | undefined;
  /** Undefined if no marks of limits are reported. */
  warnings?: LimitWarnings | undefined;
}

export function createDecisionService(
  context: Pick<LimiterContext, 'settings' | 'clock' | 'random' | 'registry'>,
  { store, reservations, observer, warnings }: DecisionParts,
): RateLimitService {
  const { settings, clock, random, registry } = context;
  const stats = createLimiterStats(registry);
  const budgetStats = createBudgetStats(registry, budgetOutcomes);
  return new RateLimitService({
    store,
    reservations,
    whyReservesNothing: unsupportedReasons(settings).reservations,
    localCache: createLocalCache(settings, registry),
    stats: registry,
    clock,
    random,
    counting: countingOptions(settings),
    response: responseOptions(settings),
    warnings,
    events: {
      onServiceError: stats.serviceError,
      onStoreError: () => stats.storeError(),
      onUncounted: () => stats.uncounted(),
      onAbandoned: stats.abandoned,
      onGlobalShadow: stats.globalShadowMode,
      onOverridden: stats.overridden,
      onBudgetCall: budgetStats.called,
      onReservationsExpired: budgetStats.expired,
      ...observer,
      // With SHADOW_MODE, no request is over limit.
      onRequestOverLimit: settings.shadowMode ? undefined : observer?.onRequestOverLimit,
    },
  });
}

/** Chosen: the marks of limits that are logged in a minute, so that a rule with one counter per user does not flood the log. */
const warningsLogged = 100;

/** Counts and logs each mark that is reached. If `claims` is undefined, each limiter reports on its own. */
export function createWarnings(
  { clock, registry, log }: Pick<LimiterContext, 'clock' | 'registry' | 'log'>,
  claims: OnceClaims | undefined,
): LimitWarnings {
  const count = createWarningStats(registry);
  let [minuteEndsMs, room, further] = [Number.NEGATIVE_INFINITY, 0, 0];
  const onReached = (plan: LimitPlan, mark: number, used: number): void => {
    const { metric, capacity } = plan;
    const warned = { rule: plan.rule.path, policy: policyName(plan), mark };
    count(warned);
    const nowMs = clock.monotonicMs();
    if (nowMs >= minuteEndsMs) {
      if (further > 0) lines.moreLimitsWarned(log, { further });
      [minuteEndsMs, room, further] = [nowMs + 60_000, warningsLogged, 0];
    }
    if (room === 0) {
      further += 1;
      return;
    }
    room -= 1;
    lines.limitWarned(log, {
      ...warned,
      mark: `${mark}%`,
      metric: metric.key.slice(0, 256),
      used,
      of: capacity,
      unit: unitOfHits(plan.limit),
    });
  };
  return new LimitWarnings({ claims, clock, onReached });
}

export function countingOptions(settings: LimiterSettings): CountingOptions {
  return {
    cacheKeyPrefix: settings.cacheKeyPrefix,
    ...nameForm(settings),
    nearLimitRatio: settings.nearLimitRatio,
    defaultLease: defaultLease(settings),
    useCalendarMonthRateLimit: settings.useCalendarMonthRateLimit,
    expirationJitterMaxSeconds: settings.expirationJitterMaxSeconds,
    countersEndWithWindow: settings.backendType === 'memory',
    stopCacheKeyIncrementWhenOverLimit: settings.stopCacheKeyIncrementWhenOverLimit,
    storeFailureMode: storeFailureAnswer(settings),
  };
}

/** Undefined if the settings do not request it. */
export function createLocalCache(
  { localCacheSizeInBytes: maxBytes }: LimiterSettings,
  registry: StatsRegistry | undefined,
): BoundedLocalCache | undefined {
  if (maxBytes === 0) return undefined;
  const cache = new BoundedLocalCache({ maxBytes });
  if (registry !== undefined) registerLocalCacheStats(registry, cache.stats);
  return cache;
}

/** In the mode `local`, the store itself answers, and an operation that it cannot answer is an error. */
function storeFailureAnswer({ storeFailureMode }: LimiterSettings): StoreFailureAnswer {
  return storeFailureMode === 'local' ? 'error' : storeFailureMode;
}

/** The options of answers to backends over HTTP, which always have limit headers and Retry-After, in the configured style. */
export function wholeResponseOptions(settings: LimiterSettings): ResponseOptions {
  return {
    ...responseOptions({ ...settings, limitResponseHeadersEnabled: true }),
    describesLongestWait: true,
    retryAfter: true,
    requestHeaders: undefined,
    dynamicMetadata: false,
    identityMetadata: false,
  };
}

export function responseOptions(settings: LimiterSettings): ResponseOptions {
  const responseHeaders = {
    limit: settings.limitLimitHeader,
    remaining: settings.limitRemainingHeader,
    reset: settings.limitResetHeader,
  };
  const requestHeaders = {
    limit: settings.limitRequestLimitHeader,
    remaining: settings.limitRequestRemainingHeader,
    reset: settings.limitRequestResetHeader,
  };
  const { responseRuleIdentity: identity, limitResponseHeadersStyle: style } = settings;
  const withHeaders = settings.limitResponseHeadersEnabled;
  return {
    shadowMode: settings.shadowMode,
    quotaMode: settings.quotaMode,
    dynamicMetadata: settings.responseDynamicMetadata,
    identityMetadata: identity === 'metadata' || identity === 'both',
    identityHeader: identity === 'header' || identity === 'both' ? settings.ruleIdentityHeader : undefined,
    responseHeaders: withHeaders && style === 'legacy' ? responseHeaders : undefined,
    ietfUnit: withHeaders && style === 'ietf' ? settings.limitQuotaUnit : undefined,
    describesLongestWait: withHeaders && style === 'ietf',
    retryAfter: settings.limitRetryAfterHeaderEnabled,
    requestHeaders: settings.limitRequestHeadersEnabled ? requestHeaders : undefined,
    perUnitHeaders: settings.limitPerUnitHeadersEnabled,
    warningHeader: settings.limitWarningHeader || undefined,
  };
}
