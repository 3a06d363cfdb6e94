/** The limiter's own service and memory store, on a clock that its user moves: nothing waits, and no time passes by itself. */
import { countingOptions, createLocalCache, responseOptions } from '../limiter/assembly/decision-service.ts';
import type { Plan } from '../limiter/decide/limit-plan.ts';
import type { RateLimitRequest } from '../limiter/decide/messages.ts';
import type { ResponseOptions } from '../limiter/decide/response.ts';
import type { RateLimitResponse } from '../limiter/decide/response-message.ts';
import { reservationBounds } from '../limiter/reservations/settings.ts';
import type { ServiceEvents } from '../limiter/service/decision.ts';
import { LimitWarnings, type LimitWarningsOptions } from '../limiter/service/limit-warnings.ts';
import { type Decided, RateLimitService } from '../limiter/service/rate-limit-service.ts';
import type { LimiterSettings } from '../limiter/settings/settings.ts';
import type { RuleStats } from '../limiter/stats/registry/rule-stats.ts';
import { MemoryStore } from '../limiter/stores/memory/memory-store.ts';
import type { RuleMatcher } from '../rules/match-result.ts';

export interface VirtualAnswer {
  readonly response: RateLimitResponse;
  /** One plan for each descriptor. */
  readonly plans: readonly Plan[];
}

export type VirtualDecision = VirtualAnswer | { readonly error: Error };

export interface VirtualLimiterOptions {
  rules: RuleMatcher;
  stats: RuleStats;
  /** The settings of a limiter with BACKEND_TYPE=memory. */
  settings: LimiterSettings;
  /** The form of responses. Defaults to the form of gRPC. */
  response?: ResponseOptions | undefined;
  onOverLimit?: ServiceEvents['onOverLimit'];
  /** A mark of `warn_at` was reached. */
  onReached?: LimitWarningsOptions['onReached'];
}

/** The memory store answers before `decide` returns. */
interface Asker {
  readonly abandoned: false;
  decision: VirtualDecision;
}

const unanswered: VirtualDecision = { error: new Error('the store did not answer') };

export class VirtualLimiter {
  #nowMs = 0;
  readonly #store: MemoryStore;
  readonly #service: RateLimitService;
  readonly #decided: Decided<Asker>;

  constructor(options: VirtualLimiterOptions) {
    const { rules, stats, settings, response, onOverLimit, onReached = () => {} } = options;
    const clock = { nowMs: () => this.#nowMs, monotonicMs: () => this.#nowMs };
    this.#store = new MemoryStore({
      clock,
      maxCounters: settings.memoryStoreMaxCounters,
      maxBytes: settings.memoryStoreMaxBytes,
      reservations: reservationBounds(settings),
    });
    this.#service = new RateLimitService({
      store: this.#store,
      localCache: createLocalCache(settings, undefined),
      warnings: new LimitWarnings({ claims: undefined, clock, onReached }),
      stats,
      clock,
      random: () => 0,
      counting: countingOptions(settings),
      response: responseOptions(settings),
      events: {
        onServiceError: () => {},
        onStoreError: () => {},
        onUncounted: () => {},
        onAbandoned: () => {},
        onGlobalShadow: () => {},
        onOverLimit,
      },
    });
    this.#decided = {
      response,
      answer(response, asker, plans) {
        asker.decision = { response, plans };
      },
      reject(error, asker) {
        asker.decision = { error: error as Error };
      },
    };
    this.useRules(rules);
  }

  /** Replaces the rules. Counters stay. */
  useRules(rules: RuleMatcher): void {
    this.#service.useRules(rules);
  }

  /** The number of counters that were evicted before their end because the store was full. Their hits are missing. */
  get evicted(): number {
    return this.#store.evicted;
  }

  /** Decides a request. `timeMs` must not go backwards. An error means that the service rejected the request, with nothing counted. */
  decide(timeMs: number, request: RateLimitRequest): VirtualDecision {
    this.#nowMs = timeMs;
    const asker: Asker = { abandoned: false, decision: unanswered };
    this.#service.decide(request, asker, this.#decided);
    return asker.decision;
  }
}
