/** What stands between the service and a store that may fail: a breaker around each, and the answer of last resort. */

import type { Health } from '../../process/grpc/health.ts';
import type { Logger } from '../../process/log/logger.ts';
import { ticksAfterReading } from '../../process/time/attended-time.ts';
import type { Timers } from '../../process/time/clock.ts';
import type { Clock } from '../../process/time/process-clock.ts';
import { hitsNotDelivered, storeAskedAgain, storeNotAsked } from '../log/lines.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import {
  registerBreakerStats,
  registerLocalFallbackStats,
  registerMemoryStoreStats,
} from '../stats/registry/limiter-stats.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { BreakerStore } from '../stores/calm/breaker-store.ts';
import { LocalFallbackStore } from '../stores/calm/local-fallback-store.ts';
import type { CounterStore } from '../stores/counter-store.ts';
import { MemoryStore } from '../stores/memory/memory-store.ts';

export interface CalmStoreParts {
  settings: LimiterSettings;
  clock: Clock;
  timers: Timers;
  random: () => number;
  registry: StatsRegistry;
  health: Health;
  log: Logger;
}

export interface BreakerRole {
  /** `store`, or `per_second_store` for that of REDIS_PERSECOND. */
  name: string;
  /** The timeout of the store: no request waits longer. */
  patienceMs: number;
}

/** The store behind its own breaker. */
export function withBreaker(
  parts: CalmStoreParts,
  store: CounterStore,
  { name, patienceMs }: BreakerRole,
): CounterStore {
  const { settings, clock, timers, random, registry, health, log } = parts;
  let openedMs = 0;
  const breaker = new BreakerStore({
    store,
    timers: {
      after: (delayMs, callback) => timers.after(delayMs, callback),
      every: ticksAfterReading(timers),
    },
    random,
    silenceMs: settings.storeBreakerSilenceMs,
    probeIntervalMs: settings.storeBreakerProbeIntervalMs,
    patienceMs,
    maxWaiting: settings.storeBreakerMaxWaiting,
    maxWaitingBytes: settings.storeBreakerMaxWaitingBytes,
    onChange: (open, reason = '') => {
      if (open) {
        openedMs = clock.monotonicMs();
        storeNotAsked(log, { store: name, reason, mode: settings.storeFailureMode });
      } else {
        const seconds = Math.round((clock.monotonicMs() - openedMs) / 100) / 10;
        storeAskedAgain(log, { store: name, seconds });
      }
      // As the Go service, health follows a store that was there only where that is asked for.
      if (settings.redisHealthCheckActiveConnection) health.set(`${name}_breaker`, !open);
    },
  });
  registerBreakerStats(registry, `${name}_breaker`, breaker);
  return breaker;
}

/** STORE_FAILURE_MODE=local around all stores together; the other modes are answered by the service. */
export function withLocalFallback(parts: CalmStoreParts, store: CounterStore): CounterStore {
  const { settings, clock, timers, registry, log } = parts;
  if (settings.storeFailureMode !== 'local') return store;
  const { memoryStoreMaxCounters: maxCounters, memoryStoreMaxBytes: maxBytes } = settings;
  const local = new MemoryStore({ clock, maxCounters, maxBytes });
  const fallback = new LocalFallbackStore({
    store,
    local,
    clock,
    timers,
    maxOwedKeys: maxCounters,
    maxOwedBytes: maxBytes,
    onUndelivered: (undelivered) => hitsNotDelivered(log, undelivered),
  });
  registerMemoryStoreStats(registry, local);
  registerLocalFallbackStats(registry, fallback);
  return fallback;
}
