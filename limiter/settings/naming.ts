/** What settings say of the names of counters and statistics, for all that write such names or explain them. */
import type { NameForm } from '../../rules/match-result.ts';
import { defaultLease } from '../leases/settings.ts';
import type { LimiterSettings } from './settings.ts';

export function nameForm(settings: LimiterSettings): NameForm {
  const { sanitizeDescriptorMetricDots, counterKeys, requestMaxTextBytes: maxTextBytes } = settings;
  return { sanitizeDescriptorMetricDots, counterKeys, maxTextBytes };
}

/** By which a request is explained as this limiter decides it. */
export function explainingSettings(settings: LimiterSettings) {
  const { cacheKeyPrefix, useCalendarMonthRateLimit } = settings;
  return {
    cacheKeyPrefix,
    useCalendarMonthRateLimit,
    defaultLease: defaultLease(settings) ?? 0,
    names: nameForm(settings),
  };
}
