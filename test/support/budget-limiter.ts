import type { ResponseOptions } from '../../limiter/decide/response.ts';
import { BudgetService } from '../../limiter/reservations/budget-service.ts';
import type { Budgets } from '../../limiter/reservations/budgets.ts';
import type { CountingOptions, ServiceEvents } from '../../limiter/service/decision.ts';
import { RateLimitService, type RateLimitServiceOptions } from '../../limiter/service/rate-limit-service.ts';
import { StatsRegistry } from '../../limiter/stats/registry/stats-registry.ts';
import { BoundedLocalCache } from '../../limiter/stores/local-cache.ts';
import type { Store } from '../../limiter/stores/store.ts';
import type { Rule } from '../../rules/model.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { ManualClock } from './manual-clock.ts';
import { openMemoryStore } from './open-memory-store.ts';
import { bareResponse, ignoredEvents, plainCounting } from './plain-service.ts';
import { source } from './rule-builder.ts';

export interface BudgetLimiter {
  readonly clock: ManualClock;
  readonly registry: StatsRegistry;
  readonly service: RateLimitService;
  readonly budgets: Budgets;
  /** Statistics that are not 0 and whose name has this in it, without what stands before it. */
  counted(part: string): Record<string, number>;
}

interface BudgetLimiterOptions {
  rules: Rule[];
  counting?: Partial<CountingOptions>;
  response?: Partial<ResponseOptions>;
  events?: Partial<ServiceEvents>;
  warnings?: RateLimitServiceOptions['warnings'];
  maxReservations?: number;
  maxTtlMs?: number;
  /** Around the one in memory. */
  around?: (store: Store) => Store;
}

/** The id that Weir makes for the `n`th reservation of the domain `d`. */
export function madeId(n: number): string {
  return `w1.18ac3e73.id-${n}`;
}

/** What decides in a limiter, over memory, with rules of the domain `d`. Half a minute before a minute, a day and a month end. */
export function budgetLimiter(options: BudgetLimiterOptions): BudgetLimiter {
  const {
    rules,
    counting,
    response,
    events,
    warnings,
    maxReservations = 100,
    maxTtlMs = 3_600_000,
  } = options;
  const { around = (store) => store } = options;
  const clock = new ManualClock(Date.UTC(2026, 2, 31, 23, 59, 30));
  const registry = new StatsRegistry();
  const store = around(openMemoryStore({ clock, reservations: { maxReservations, recordMs: 600_000 } }));
  const service = new RateLimitService({
    store,
    localCache: new BoundedLocalCache({ maxBytes: 100_000 }),
    stats: registry,
    clock,
    random: () => 0,
    counting: { ...plainCounting, ...counting },
    response: { ...bareResponse, ...response },
    events: { ...ignoredEvents, ...events },
    warnings,
  });
  service.useRules(new RuleTable(compileRules([source('d', rules)])));
  let made = 0;
  const budgets = new BudgetService(service.parts, {
    maxTtlMs,
    newId: () => `id-${++made}`,
    response: { ...bareResponse, ...response, retryAfter: true },
  });
  const counted = (part: string): Record<string, number> =>
    Object.fromEntries(
      [...registry.statsLines()].flatMap((line) => {
        const [, name, value] = new RegExp(`${part}(.*): (\\d+)$`).exec(line) ?? [];
        return name === undefined || value === '0' ? [] : [[name, Number(value)]];
      }),
    );
  return { clock, registry, service, budgets, counted };
}
