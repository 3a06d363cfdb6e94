/** Runs the limiter's rules, service and stores inside another program: without listeners, environment or threads. */
import { randomBytes, randomUUID } from 'node:crypto';
import type { LimiterContext, ServingModules } from '../../limiter/assembly/context.ts';
import {
  countingOptions,
  createLocalCache,
  createWarnings,
  responseOptions,
  wholeResponseOptions,
} from '../../limiter/assembly/decision-service.ts';
import { openStoreAdmin } from '../../limiter/assembly/operators/store-admin.ts';
import { openStore } from '../../limiter/assembly/store.ts';
import type { LimitPlan, Plan } from '../../limiter/decide/limit-plan.ts';
import { Code, type RateLimitRequest, ServiceError } from '../../limiter/decide/messages.ts';
import { type RequestLimits, RequestTooLarge } from '../../limiter/decide/request-bounds.ts';
import { assembleResponse, type ResponseOptions } from '../../limiter/decide/response.ts';
import type { DescriptorStatus, RateLimitResponse } from '../../limiter/decide/response-message.ts';
import { decodeWholeRequest, encodeRateLimitRequest } from '../../limiter/decide/wire-codec.ts';
import { countersNow } from '../../limiter/operate/counter-routes.ts';
import { CounterResets } from '../../limiter/operate/resets.ts';
import type { StoreAdmin } from '../../limiter/operate/store-admin/store-admin.ts';
import { BudgetService } from '../../limiter/reservations/budget-service.ts';
import { longestReservation } from '../../limiter/reservations/settings.ts';
import { type Decided, RateLimitService } from '../../limiter/service/rate-limit-service.ts';
import { requestLimits } from '../../limiter/settings/counting-settings.ts';
import { unsupportedReasons } from '../../limiter/settings/rule-support.ts';
import type { LimiterSettings } from '../../limiter/settings/settings.ts';
import { StatsRegistry } from '../../limiter/stats/registry/stats-registry.ts';
import { type Caller, callAbandoned } from '../../limiter/stores/operation.ts';
import type { Store } from '../../limiter/stores/store.ts';
import { StoreError } from '../../limiter/stores/store-error.ts';
import { Health } from '../../process/grpc/health.ts';
import { errorText } from '../../process/log/error-text.ts';
import { loggerOf } from '../../process/log/logger.ts';
import { FlushTurn } from '../../process/queues/loop-turns.ts';
import { inTime, systemClock, systemTimers, unrefTimers } from '../../process/time/clock.ts';
import type { Entry } from '../../rules/model.ts';
import type { RuleTable } from '../../rules/table/rule-table.ts';
import type {
  CallOptions,
  Decision,
  Descriptors,
  Limiter,
  LimiterEvent,
  LimiterOptions,
  Reservation,
  ReservedDescriptors,
  ReserveOptions,
  Rules,
} from './api.ts';
import { checkDomain, checkHits, checkOptions, checkSignal } from './checks.ts';
import { decisionOf, tooLargeDecision } from './decision.ts';
import { descriptorsOf } from './descriptors.ts';
import { librarySettings, timeoutOf } from './library-settings.ts';
import { LimiterError } from './limiter-error.ts';
import { OpenCalls, unlessAborted } from './open-calls.ts';
import { type ReadRulesResult, readRules } from './read-rules.ts';
import { Reservations, retryFailedSeconds } from './reservations.ts';
import { warn } from './warn.ts';

/** Chosen: the number of domains without rules that are reported. */
const maxUnknownDomains = 100;

/**
 * Rejects with a `LimiterError` if rules or options cannot be used. If Redis does not answer within `timeoutMs`, the limiter
 * opens nevertheless, and `onError` decides until Redis answers.
 */
export async function createLimiter(options: LimiterOptions): Promise<Limiter> {
  if (typeof options !== 'object' || options === null)
    throw new LimiterError('invalid', 'createLimiter takes an object with rules');
  const settings = librarySettings(options);
  const read = readRules(options.rules, settings);
  if ('errors' in read) throw new LimiterError('invalid', read.errors.join('\n'));
  const parts = { rules: read, redis: await redisModule(options) };
  const limiter = opened(() => new ProcessLimiter(options, settings, parts));
  await limiter.connect();
  return limiter;
}

/** Reports an address of a store that cannot be parsed. */
function opened<Value>(open: () => Value): Value {
  try {
    return open();
  } catch (error) {
    throw new LimiterError('invalid', errorText(error), { cause: error });
  }
}

/** Loads the Redis code only when it is needed: counting in memory needs no sockets. */
async function redisModule({ store }: LimiterOptions): Promise<ServingModules['redis']> {
  if (store === undefined) return undefined;
  if (typeof store.redis === 'string') return import('../../limiter/assembly/redis.ts');
  const { givenClientModule } = await import('./given-client.ts');
  return givenClientModule(store.redis, timeoutOf(store));
}

/** One call of a method. */
class Call implements Caller {
  readonly #signal: AbortSignal | undefined;
  readonly #decision = Promise.withResolvers<Decision>();
  /** The open calls that it belongs to while it waits for the store. */
  #waiting: OpenCalls | undefined;
  #isOver = false;
  readonly request: RateLimitRequest;
  /** Hits that must fit, counted or not. Undefined if the call is a refund. */
  readonly asked: number | undefined;

  constructor(request: RateLimitRequest, signal: AbortSignal | undefined, asked: number | undefined) {
    this.request = request;
    this.#signal = signal;
    this.asked = asked;
  }

  get abandoned(): boolean {
    return this.#signal?.aborted === true;
  }

  /** Resolves with the decision. Call it once, after the service has the request. */
  decided(calls: OpenCalls): Promise<Decision> {
    if (!this.#isOver) {
      this.#waiting = calls;
      calls.began();
    }
    return unlessAborted(this.#signal, this.#decision.promise);
  }

  resolve(decision: Decision): void {
    this.#over();
    this.#decision.resolve(decision);
  }

  reject(reason: unknown): void {
    this.#over();
    this.#decision.reject(reason);
  }

  #over(): void {
    this.#isOver = true;
    this.#waiting?.ended();
  }

  giveUp(): void {
    this.reject(this.#signal?.reason);
  }
}

/** Methods that ask about hits. */
type Asking = 'check' | 'peek' | 'refund';

const callOptions = ['hits', 'signal'] as const satisfies readonly (keyof CallOptions)[];

interface LimiterParts {
  rules: Extract<ReadRulesResult, { table: RuleTable }>;
  redis: ServingModules['redis'];
}

class ProcessLimiter implements Limiter {
  readonly #options: LimiterOptions;
  readonly #settings: LimiterSettings;
  readonly #response: ResponseOptions;
  readonly #bounds: RequestLimits;
  readonly #store: Store;
  readonly #connectStore: () => Promise<void>;
  readonly #service: RateLimitService;
  readonly #reservations: Reservations;
  readonly #storeAdmin: StoreAdmin;
  readonly #resets: CounterResets;
  readonly #calls = new OpenCalls();
  #rules: Rules;
  #table: RuleTable;
  readonly #unknownDomains = new Set<string>();
  /** Limits that the current decision exceeds. */
  #exceeded: LimitPlan[] = [];
  #isUncounted = false;
  #closing: Promise<void> | undefined;
  readonly #decided: Decided<Call>;

  constructor(options: LimiterOptions, settings: LimiterSettings, { rules, redis }: LimiterParts) {
    this.#options = options;
    this.#settings = settings;
    this.#response = wholeResponseOptions(settings);
    this.#bounds = requestLimits(settings);
    const context = this.#context(settings);
    const modules = { redis, memcache: undefined, capabilities: [] };
    const { store, reservations, connect, memory } = openStore(context, {
      ...{ modules, flushTurn: new FlushTurn() },
      resolveSrv: undefined,
    });
    this.#store = store;
    this.#connectStore = connect;
    this.#storeAdmin = openStoreAdmin(context, { modules, memory, resolveSrv: undefined });
    this.#service = new RateLimitService({
      ...{ store, reservations, stats: context.registry, clock: context.clock, random: context.random },
      whyReservesNothing: unsupportedReasons(settings).reservations,
      localCache: createLocalCache(settings, undefined),
      counting: countingOptions(settings),
      response: responseOptions(settings),
      warnings: createWarnings(context, store.claims),
      events: {
        onServiceError: () => {},
        onStoreError: ({ message }) => this.#emit({ type: 'store-error', message }),
        onUncounted: ({ message }) => {
          this.#isUncounted = true;
          this.#emit({ type: 'store-error', message });
        },
        onAbandoned: () => {},
        onGlobalShadow: () => {},
        onOverLimit: (_domain, hit) => void this.#exceeded.push(hit.counter),
      },
    });
    this.#reservations = new Reservations({
      budgets: new BudgetService(this.#service.parts, {
        ...longestReservation(settings),
        newId: () => randomBytes(16).toString('hex'),
        response: this.#response,
      }),
      calls: this.#calls,
      onError: options.onError ?? 'allow',
      throwIfClosed: () => this.#throwIfClosed(),
      decode: (domain, descriptors) => this.#decoded(domain, descriptors, 1),
      noteNoDomain: (domain) => this.#noteNoDomain(domain),
      storeFailed: (message) => this.#emit({ type: 'store-error', message }),
    });
    const self = { name: 'library', instance: randomUUID() };
    this.#resets = new CounterResets({
      ...{ storeAdmin: this.#storeAdmin, self, newId: randomUUID, clock: context.clock, timers: unrefTimers },
      // Limiters forget the counters when they read the order; the library does not wait for them.
      heartbeats: { living: async () => [self] },
      forget: async (keys) => this.#service.forgetCounters(keys),
    });
    this.#decided = {
      response: this.#response,
      answer: (response, call, plans) => this.#answer(response, call, plans),
      reject: (error, call) => this.#reject(error, call),
    };
    this.#rules = options.rules;
    this.#table = rules.table;
    this.#useRules(rules);
  }

  #context(settings: LimiterSettings): LimiterContext {
    return {
      settings,
      clock: systemClock,
      timers: unrefTimers,
      random: Math.random,
      registry: new StatsRegistry({ countsLeases: false }),
      health: new Health(),
      log: loggerOf(
        (level, message, fields = {}) =>
          this.#emit({ type: 'log', level: level === 'announce' ? 'info' : level, message, fields }),
        (level) => level !== 'debug' && this.#options.onEvent !== undefined,
      ),
    };
  }

  /** Waits for Redis no longer than a call would. */
  async connect(): Promise<void> {
    const { store } = this.#options;
    const connecting = this.#connectStore().catch(() => {});
    if (store === undefined) return connecting;
    await inTime(systemTimers, timeoutOf(store), connecting, undefined);
  }

  check(domain: string, descriptors: Descriptors, options?: CallOptions): Promise<Decision> {
    return this.#ask('check', domain, descriptors, options);
  }

  peek(domain: string, descriptors: Descriptors, options?: CallOptions): Promise<Decision> {
    return this.#ask('peek', domain, descriptors, options);
  }

  refund(domain: string, descriptors: Descriptors, options?: CallOptions): Promise<Decision> {
    return this.#ask('refund', domain, descriptors, options);
  }

  async reset(domain: string, descriptors: Descriptors): Promise<number> {
    this.#throwIfClosed();
    checkDomain(domain);
    const nowMs = systemClock.nowMs();
    const settings = countingOptions(this.#settings);
    const table = this.#table;
    const refs = descriptorsOf(descriptors).flatMap((entries) => {
      const match = table.match(domain, entries, settings);
      return match === undefined || match.rule.unlimited ? [] : countersNow(match, nowMs, settings);
    });
    if (refs.length === 0) return 0;
    return this.#calls.while(async () => {
      try {
        return (await this.#resets.reset(refs.map(({ ref }) => ref))).reset;
      } catch (error) {
        throw storeFailure(error);
      }
    });
  }

  reserve(domain: string, descriptors: ReservedDescriptors, options?: ReserveOptions): Promise<Reservation> {
    return this.#reservations.reserve(domain, descriptors, options);
  }

  async reload(rules: Rules = this.#rules): Promise<boolean> {
    this.#throwIfClosed();
    const read = readRules(rules, this.#settings);
    if ('errors' in read) {
      this.#emit({ type: 'rules-rejected', errors: read.errors });
      return false;
    }
    this.#rules = rules;
    this.#useRules(read);
    return true;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#calls.end();
    await this.#storeAdmin.close();
    await this.#store.close();
  }

  /** Reports a warning of the middleware. */
  [warn](message: string): void {
    if (this.#options.onEvent === undefined) process.emitWarning(message, 'WeirWarning');
    else this.#emit({ type: 'warning', message });
  }

  #useRules({ table, warnings }: Extract<ReadRulesResult, { table: RuleTable }>): void {
    this.#table = table;
    this.#service.useRules(table);
    this.#unknownDomains.clear();
    this.#emit({ type: 'rules-loaded', domains: table.domainNames(), warnings });
  }

  /** Uses as few promises as possible, because others cost a fifth of a decision in memory. */
  #ask(method: Asking, domain: string, given: Descriptors, options?: CallOptions): Promise<Decision> {
    try {
      return this.#decide(method, domain, given, options);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #decide(method: Asking, domain: string, given: Descriptors, options: CallOptions = {}): Promise<Decision> {
    this.#throwIfClosed();
    checkOptions(method, options, callOptions);
    const { hits = 1, signal } = options;
    checkSignal(signal);
    checkHits('hits', hits);
    const request = this.#decoded(domain, descriptorsOf(given), method === 'peek' ? 0 : hits);
    if (request === undefined) return Promise.resolve(tooLargeDecision);
    if (method === 'peek') request.foreseenHits = hits;
    if (method === 'refund') for (const descriptor of request.descriptors) descriptor.isNegativeHits = true;
    const call = new Call(request, signal, method === 'refund' ? undefined : hits);
    this.#service.decide(request, call, this.#decided);
    return call.decided(this.#calls);
  }

  /** Decodes a request as a limiter does, so that long texts are counted by their hash. Undefined if it is too large. */
  #decoded(domain: string, descriptors: Entry[][], hits: number): RateLimitRequest | undefined {
    checkDomain(domain);
    try {
      return decodeWholeRequest(encodeRateLimitRequest(domain, descriptors, hits), this.#bounds);
    } catch (error) {
      if (error instanceof RequestTooLarge) return undefined;
      throw error;
    }
  }

  #answer(response: RateLimitResponse, call: Call, plans: readonly Plan[]): void {
    const [exceeded, isUncounted] = [this.#exceeded, this.#isUncounted];
    const { foreseenHits = 0 } = call.request;
    for (const { plan, limitRemaining } of response.statuses)
      if (plan !== undefined && limitRemaining < foreseenHits) exceeded.push(plan);
    // The next decision gets a new list.
    if (exceeded.length > 0) this.#exceeded = [];
    this.#isUncounted = false;
    if (plans.some(({ kind }) => kind === 'domain-not-found')) this.#noteNoDomain(call.request.domain);
    const observed = { exceeded, isUncounted, options: this.#response };
    call.resolve(decisionOf(this.#withUsefulWaits(response, call, plans), plans, observed));
  }

  /** Corrects wait times: hits above the capacity never fit, and a failed store recovers sooner than a window ends. */
  #withUsefulWaits(
    response: RateLimitResponse,
    { request, asked = 0 }: Call,
    plans: readonly Plan[],
  ): RateLimitResponse {
    let isOther = false;
    const statuses = response.statuses.map((status, index): DescriptorStatus => {
      if (status.code !== Code.OVER_LIMIT) return status;
      const isCounted = status.plan !== undefined;
      if (isCounted && !neverFits(plans[index]!, asked)) return status;
      isOther = true;
      return isCounted
        ? { ...status, neverPasses: true }
        : { ...status, durationUntilResetSeconds: retryFailedSeconds };
    });
    if (!isOther) return response;
    return assembleResponse({ request, plans, statuses }, this.#response, { onGlobalShadow: () => {} });
  }

  #reject(error: unknown, call: Call): void {
    this.#exceeded = [];
    this.#isUncounted = false;
    if (error === callAbandoned) call.giveUp();
    else if (error instanceof RequestTooLarge) call.resolve(tooLargeDecision);
    else if (error instanceof ServiceError)
      call.reject(new LimiterError('invalid', error.message, { cause: error }));
    else call.reject(storeFailure(error));
  }

  #noteNoDomain(domain: string): void {
    if (this.#unknownDomains.has(domain) || this.#unknownDomains.size >= maxUnknownDomains) return;
    this.#unknownDomains.add(domain);
    this.#emit({ type: 'no-domain', domain });
  }

  #throwIfClosed(): void {
    if (this.#closing !== undefined) throw new LimiterError('closed', 'the limiter is closed');
  }

  #emit(event: LimiterEvent): void {
    // An error in a listener, thrown or rejected, must not affect decisions.
    try {
      const later: unknown = this.#options.onEvent?.(event);
      if (later !== undefined) Promise.resolve(later).catch(() => {});
    } catch {}
  }
}

/** Whether so many hits exceed one of the limits even when its counter is empty. */
function neverFits(plan: Plan, hits: number): boolean {
  return plan.kind === 'limited' && plan.limits.some(({ capacity }) => hits > capacity);
}

function storeFailure(error: unknown): unknown {
  return error instanceof StoreError
    ? new LimiterError('store', error.textForCallers, { cause: error })
    : error;
}
