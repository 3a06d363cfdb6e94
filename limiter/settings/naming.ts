/** Settings that determine the names of counters and statistics, for all code that writes or explains them. */
import type { NameForm } from '../../rules/match-result.ts';
import { defaultLease } from '../leases/settings.ts';
import type { LimiterSettings } from './settings.ts';

export function nameForm(settings: LimiterSettings): NameForm {
  const { sanitizeDescriptorMetricDots, counterKeys, requestMaxTextBytes: maxTextBytes } = settings;
  return { sanitizeDescriptorMetricDots, counterKeys, maxTextBytes };
}

/** Returns the settings with which an explanation of a request equals a decision of this limiter. */
export function explainingSettings(settings: LimiterSettings) {
  const { cacheKeyPrefix, useCalendarMonthRateLimit } = settings;
  return {
    cacheKeyPrefix,
    useCalendarMonthRateLimit,
    defaultLease: defaultLease(settings) ?? 0,
    names: nameForm(settings),
  };
}
