/**
 * Leases of each thread that answers callers. They are outside of the circuit breaker, so that they are spent while Redis is
 * unavailable.
 */
import { randomBytes } from 'node:crypto';
import type { ThreadContext, ThreadPart } from '../capabilities/parts.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { LeaseStore } from './lease-store.ts';
import type { LeaseSettings } from './settings.ts';

export function thread({ settings, clock, timers, registry }: ThreadContext<LeaseSettings>): ThreadPart {
  let leases: LeaseStore | undefined;
  return {
    aroundStore: (store) => {
      leases = new LeaseStore({
        ...{ store, clock, timers },
        limiter: randomBytes(12).toString('base64url'),
        maxCounters: settings.leasesMaxCounters,
      });
      registerLeaseStats(registry, leases.book);
      return leases;
    },
    storeRejectsScripts: () => leases?.stop(),
    // Leases end with the rules with which they were taken.
    observes: { onPlansEnded: () => leases?.endAll() },
    forget: (keys) => (keys === undefined ? leases?.endAll() : leases?.cancel(keys)),
  };
}

/** Statistics of hits that were leased, spent, given back and lost. */
export function registerLeaseStats(
  registry: StatsRegistry,
  book: {
    readonly [name in
      | 'counters'
      | 'outstanding'
      | 'granted'
      | 'spent'
      | 'returned'
      | 'lostAtMost'
      | 'unwatched']: number;
  },
): void {
  registry.gauge('ratelimit.leases.counters', () => book.counters);
  registry.gauge('ratelimit.leases.outstanding', () => book.outstanding);
  registry.counterFrom('ratelimit.leases.granted', () => book.granted);
  registry.counterFrom('ratelimit.leases.spent', () => book.spent);
  registry.counterFrom('ratelimit.leases.returned', () => book.returned);
  registry.counterFrom('ratelimit.leases.lost_at_most', () => book.lostAtMost);
  registry.counterFrom('ratelimit.leases.unwatched', () => book.unwatched);
}
