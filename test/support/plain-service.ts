import type { ResponseOptions } from '../../limiter/decide/response.ts';
import type { CountingOptions, ServiceEvents } from '../../limiter/service/decision.ts';

/** As the settings are when nothing is set. */
export const plainCounting: CountingOptions = {
  cacheKeyPrefix: '',
  counterKeys: 'compatible',
  maxTextBytes: 16_384,
  nearLimitRatio: 0.8,
  defaultLease: undefined,
  sanitizeDescriptorMetricDots: false,
  useCalendarMonthRateLimit: false,
  expirationJitterMaxSeconds: 0,
  countersEndWithWindow: false,
  stopCacheKeyIncrementWhenOverLimit: false,
  storeFailureMode: 'error',
};

/** Without headers and metadata. */
export const bareResponse: ResponseOptions = {
  shadowMode: false,
  quotaMode: false,
  dynamicMetadata: false,
  identityMetadata: false,
  identityHeader: undefined,
  responseHeaders: undefined,
  ietfUnit: undefined,
  describesLongestWait: false,
  retryAfter: false,
  requestHeaders: undefined,
  perUnitHeaders: false,
  warningHeader: undefined,
};

export const ignoredEvents: ServiceEvents = {
  onServiceError: () => {},
  onStoreError: () => {},
  onUncounted: () => {},
  onAbandoned: () => {},
  onGlobalShadow: () => {},
};
