/** The limiter's own rules, service and stores in a process of somebody else, without listeners, settings and threads. */
import { randomBytes, randomUUID } from 'node:crypto';
import type { LimiterContext, ServingModules } from '../../limiter/assembly/context.ts';
import {
  countingOptions,
  createLocalCache,
  createWarnings,
  responseOptions,
  wholeResponseOptions,
} from '../../limiter/assembly/decision-service.ts';
import { openOffice } from '../../limiter/assembly/operators/office.ts';
import { openStore } from '../../limiter/assembly/store.ts';
import type { DescriptorStatus, RateLimitResponse } from '../../limiter/decide/decided.ts';
import type { LimitPlan, Plan } from '../../limiter/decide/limit-plan.ts';
import { Code, type RateLimitRequest, ServiceError } from '../../limiter/decide/messages.ts';
import { type RequestBounds, RequestTooLarge } from '../../limiter/decide/request-bounds.ts';
import { assembleResponse, type ResponseOptions } from '../../limiter/decide/response.ts';
import { encodeRateLimitRequest } from '../../limiter/decide/wire-codec.ts';
import { countersNow } from '../../limiter/operate/counter-routes.ts';
import type { StoreOffice } from '../../limiter/operate/office/office.ts';
import { CounterResets } from '../../limiter/operate/resets.ts';
import type {
  BudgetFailure,
  BudgetQuestion,
  Budgets,
  ReserveAnswer,
  SettleAnswer,
  SettleQuestion,
} from '../../limiter/service/budgets.ts';
import { type Decided, RateLimitService } from '../../limiter/service/rate-limit-service.ts';
import { kindOfId, reservationIdForm } from '../../limiter/service/reservation-id.ts';
import { longestReservation, requestBounds } from '../../limiter/settings/counting-settings.ts';
import type { LimiterSettings } from '../../limiter/settings/settings.ts';
import { storeLimits } from '../../limiter/settings/store-limits.ts';
import { StatsRegistry } from '../../limiter/stats/registry/stats-registry.ts';
import { type Caller, callAbandoned } from '../../limiter/stores/operation.ts';
import type { Store } from '../../limiter/stores/store.ts';
import { StoreError } from '../../limiter/stores/store-error.ts';
import { Health } from '../../process/grpc/health.ts';
import { errorText } from '../../process/log/error-text.ts';
import { loggerOf } from '../../process/log/logger.ts';
import { systemClock, systemTimers, type Timers } from '../../process/time/clock.ts';
import { FlushTurn } from '../../process/time/loop-turns.ts';
import type { Entry } from '../../rules/model.ts';
import type { RuleTable } from '../../rules/table/rule-table.ts';
import type {
  CallOptions,
  Decision,
  Descriptors,
  Limiter,
  LimiterEvent,
  LimiterOptions,
  Reason,
  Reservation,
  ReservedDescriptors,
  ReserveOptions,
  Rules,
} from './api.ts';
import { decisionOf, headersOf, tooLargeDecision } from './decision.ts';
import { descriptorsOf, reservedOf } from './descriptors.ts';
import { librarySettings, timeoutOf } from './library-settings.ts';
import { LimiterError } from './limiter-error.ts';
import { OpenCalls, unlessAborted } from './open-calls.ts';
import { type RulesRead, readRules } from './read-rules.ts';
import { warn } from './warn.ts';

/** Chosen: domains without rules that are reported. */
const mostUnknownDomains = 100;

/**
 * Rejects with a `LimiterError` for rules or options that cannot be used. If Redis does not answer within `timeoutMs`, the limiter opens
 * all the same, and `onError` decides until Redis answers.
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

/** An address of a store may be none. */
function opened<Value>(open: () => Value): Value {
  try {
    return open();
  } catch (error) {
    throw new LimiterError('invalid', errorText(error), { cause: error });
  }
}

/** Loaded where it is needed alone: who counts in memory needs no sockets. */
async function redisModule({ store }: LimiterOptions): Promise<ServingModules['redis']> {
  if (store === undefined) return undefined;
  if (typeof store.redis === 'string') return import('../../limiter/assembly/redis.ts');
  const { givenClientModule } = await import('./given-client.ts');
  return givenClientModule(store.redis, timeoutOf(store));
}

/** Timers that keep no process alive. */
const looseTimers: Timers = {
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs).unref();
    return () => clearTimeout(timer);
  },
  every(intervalMs, callback) {
    const timer = setInterval(callback, intervalMs).unref();
    return () => clearInterval(timer);
  },
};

/** Chosen: when to try again where the store failed. */
const retryFailedSeconds = 1;

/** One call. */
class Call implements Caller {
  readonly #signal: AbortSignal | undefined;
  /** Hits that have to fit in, counted or not. Undefined: they are taken back. */
  readonly asked: number | undefined;
  readonly request: RateLimitRequest;
  readonly resolve: (decision: Decision) => void;
  readonly reject: (reason: unknown) => void;

  constructor(
    request: RateLimitRequest,
    { signal, asked }: { signal: AbortSignal | undefined; asked: number | undefined },
    { resolve, reject }: Pick<PromiseWithResolvers<Decision>, 'resolve' | 'reject'>,
  ) {
    this.request = request;
    this.#signal = signal;
    this.asked = asked;
    this.resolve = resolve;
    this.reject = reject;
  }

  get abandoned(): boolean {
    return this.#signal?.aborted === true;
  }

  giveUp(): void {
    this.reject(this.#signal?.reason);
  }
}

interface LimiterParts {
  rules: Extract<RulesRead, { table: RuleTable }>;
  redis: ServingModules['redis'];
}

class ProcessLimiter implements Limiter {
  readonly #options: LimiterOptions;
  readonly #settings: LimiterSettings;
  readonly #response: ResponseOptions;
  readonly #bounds: RequestBounds;
  readonly #store: Store;
  readonly #connectStore: () => Promise<void>;
  readonly #service: RateLimitService;
  readonly #budgets: Budgets;
  readonly #office: StoreOffice;
  readonly #resets: CounterResets;
  readonly #calls = new OpenCalls();
  #rules: Rules;
  #table: RuleTable;
  readonly #unknownDomains = new Set<string>();
  /** Of the decision that is made now. */
  #exceeded: LimitPlan[] = [];
  #isUncounted = false;
  #closing: Promise<void> | undefined;
  readonly #decided: Decided<Call>;

  constructor(options: LimiterOptions, settings: LimiterSettings, { rules, redis }: LimiterParts) {
    this.#options = options;
    this.#settings = settings;
    this.#response = wholeResponseOptions(settings);
    this.#bounds = requestBounds(settings);
    const context = this.#context(settings);
    const modules = { redis, memcache: undefined, reflection: undefined };
    const { store, connect, memory } = openStore(context, {
      ...{ modules, flushTurn: new FlushTurn() },
      ...{ resolveSrv: undefined, spanMaker: undefined },
    });
    this.#store = store;
    this.#connectStore = connect;
    this.#office = openOffice(context, { modules, memory, resolveSrv: undefined });
    this.#service = new RateLimitService({
      ...{ store, stats: context.registry, clock: context.clock, random: context.random },
      whyReservesNothing: storeLimits(settings).reservations,
      localCache: createLocalCache(settings, undefined),
      counting: countingOptions(settings),
      response: responseOptions(settings),
      warnings: createWarnings(context, store.claims),
      events: {
        onServiceError: () => {},
        onStoreError: ({ message }) => this.#tell({ type: 'store-error', message }),
        onUncounted: ({ message }) => {
          this.#isUncounted = true;
          this.#tell({ type: 'store-error', message });
        },
        onAbandoned: () => {},
        onGlobalShadow: () => {},
        onOverLimit: (_domain, hit) => void this.#exceeded.push(hit.counter),
      },
    });
    this.#budgets = this.#service.budgets({
      ...longestReservation(settings),
      newId: () => randomBytes(16).toString('hex'),
      response: this.#response,
    });
    const self = { name: 'library', instance: randomUUID() };
    this.#resets = new CounterResets({
      ...{ office: this.#office, self, newId: randomUUID, clock: context.clock, timers: looseTimers },
      // Others forget as they hear of it, and nobody waits for their word.
      heartbeats: { living: async () => [self] },
      operate: async (order) => {
        if (order.order === 'forget-counters') this.#service.forgetCounters(order.keys);
      },
    });
    this.#decided = {
      response: this.#response,
      answer: (response, call, plans) => this.#answer(response, call, plans),
      refuse: (error, call) => this.#refuse(error, call),
    };
    this.#rules = options.rules;
    this.#table = rules.table;
    this.#useRules(rules);
  }

  #context(settings: LimiterSettings): LimiterContext {
    return {
      settings,
      clock: systemClock,
      timers: looseTimers,
      random: Math.random,
      registry: new StatsRegistry({ countsLeases: false }),
      health: new Health(),
      log: loggerOf(
        (level, message, fields = {}) =>
          this.#tell({ type: 'log', level: level === 'announce' ? 'info' : level, message, fields }),
        (level) => level !== 'debug' && this.#options.onEvent !== undefined,
      ),
    };
  }

  /** Waits for a Redis as long as for any call. */
  async connect(): Promise<void> {
    const { store } = this.#options;
    const connecting = this.#connectStore().catch(() => {});
    if (store === undefined) return connecting;
    let callOff = (): void => {};
    const late = new Promise<void>((resolve) => {
      callOff = systemTimers.after(timeoutOf(store), resolve);
    });
    await Promise.race([connecting, late]);
    callOff();
  }

  check(domain: string, descriptors: Descriptors, { hits = 1, signal }: CallOptions = {}): Promise<Decision> {
    return this.#ask(domain, descriptors, { hits, signal });
  }

  peek(domain: string, descriptors: Descriptors, { hits = 1, signal }: CallOptions = {}): Promise<Decision> {
    return this.#ask(domain, descriptors, { hits: 0, signal, peeked: hits });
  }

  refund(
    domain: string,
    descriptors: Descriptors,
    { hits = 1, signal }: CallOptions = {},
  ): Promise<Decision> {
    return this.#ask(domain, descriptors, { hits, signal, takesBack: true });
  }

  async reset(domain: string, descriptors: Descriptors): Promise<number> {
    this.#throwIfClosed();
    if (typeof domain !== 'string') throw new LimiterError('invalid', `domain is text, not ${typeof domain}`);
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

  async reserve(
    domain: string,
    given: ReservedDescriptors,
    { amount, ttlMs, id, signal }: ReserveOptions = {},
  ): Promise<Reservation> {
    this.#throwIfClosed();
    signal?.throwIfAborted();
    const { descriptors, amounts } = reservedOf(given);
    if (amounts === undefined || amount !== undefined || amounts.includes(undefined))
      checkHits('amount', amount);
    for (const one of amounts ?? []) if (one !== undefined) checkHits('amount', one);
    if (id !== undefined && !isChosenId(id))
      throw new LimiterError('invalid', 'id is 1 to 255 visible ASCII characters, not w0. or w1. first');
    const question = this.#decoded(domain, descriptors, 1);
    if (question === undefined) return nothingReserved(amount, { allowed: false, reason: 'too-large' });
    const { descriptors: decoded } = question;
    const asker = {
      get abandoned() {
        return signal?.aborted === true;
      },
    };
    const about = { domain, descriptors: decoded };
    const ask = { ...about, amount, amounts, ttlMs: ttlMs && Math.ceil(ttlMs), id, recalled: false };
    const reserving = this.#calls.while(async () => {
      const answered = await new Promise<ReserveAnswer | BudgetFailure>((done) =>
        this.#budgets.reserve(ask, asker, done),
      );
      // Nobody will settle it.
      if (asker.abandoned && 'allowed' in answered) await this.#settle({ ...about, actual: 0 }, answered);
      return answered;
    });
    const answer = await unlessAborted(signal, reserving);
    if ('failure' in answer) return this.#notReserved(amount, answer, domain);
    const { allowed, id: made, expiresAtMs } = answer;
    const headers = headersOf(answer.headers);
    const seconds = headers['Retry-After'];
    const settle = async (cost: number | readonly number[] | undefined): Promise<number> => {
      this.#throwIfClosed();
      const [actual, actuals] = typeof cost === 'object' ? [undefined, cost] : [cost, undefined];
      if (actuals !== undefined && actuals.length !== decoded.length)
        throw new LimiterError('invalid', `${decoded.length} descriptors, and ${actuals.length} amounts`);
      for (const one of actuals ?? [actual]) if (one !== undefined) checkHits('actual', one);
      const costs = { ...about, actual, amounts: actuals };
      const settled = await this.#calls.while(() => this.#settle(costs, answer));
      if ('failure' in settled) throw new LimiterError(codeOf(settled), settled.message);
      return settled.charged;
    };
    return {
      allowed,
      reason: allowed ? this.#whyHeld(answer) : 'limit',
      id: allowed ? made : undefined,
      amount,
      expiresAt: allowed && expiresAtMs > 0 ? new Date(expiresAtMs) : undefined,
      retryAfterMs: seconds === undefined ? undefined : Number(seconds) * 1000,
      headers,
      commit: (actual) => settle(actual),
      release: async () => void (await settle(0)),
    };
  }

  /** By the rules of then, as those of now may have no counter for it. */
  #settle(
    costs: BudgetQuestion & Pick<SettleQuestion, 'actual'>,
    { allowed, id, plans }: ReserveAnswer,
  ): Promise<Pick<SettleAnswer, 'charged'> | BudgetFailure> {
    if (!allowed) return Promise.resolve({ charged: 0 });
    const question = { ...costs, id, plans, unknown: 'charge' } as const;
    return new Promise((done) => this.#budgets.settle(question, { abandoned: false }, done));
  }

  /** Why limits did not refuse it; undefined: it fits in. */
  #whyHeld({ amount, plans, scopes }: ReserveAnswer): Reason {
    if (plans.every(({ kind }) => kind !== 'limited'))
      return plans.some(({ kind }) => kind === 'unlimited') ? 'unlimited' : 'no-rule';
    return amount !== 0 && scopes.some((one) => one.refused || one.isExceeded) ? 'shadow' : undefined;
  }

  async reload(rules: Rules = this.#rules): Promise<boolean> {
    this.#throwIfClosed();
    const read = readRules(rules, this.#settings);
    if ('errors' in read) {
      this.#tell({ type: 'rules-rejected', errors: read.errors });
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
    await this.#office.close();
    await this.#store.close();
  }

  /** For middleware. */
  [warn](message: string): void {
    if (this.#options.onEvent === undefined) process.emitWarning(message, 'WeirWarning');
    else this.#tell({ type: 'warning', message });
  }

  #useRules({ table, warnings }: Extract<RulesRead, { table: RuleTable }>): void {
    this.#table = table;
    this.#service.useRules(table);
    this.#unknownDomains.clear();
    this.#tell({ type: 'rules-loaded', domains: table.domainNames(), warnings });
  }

  async #ask(
    domain: string,
    given: Descriptors,
    how: { hits: number; signal: AbortSignal | undefined; peeked?: number; takesBack?: boolean },
  ): Promise<Decision> {
    const { hits, signal, peeked, takesBack = false } = how;
    this.#throwIfClosed();
    signal?.throwIfAborted();
    checkHits('hits', peeked ?? hits);
    const request = this.#decoded(domain, descriptorsOf(given), hits);
    if (request === undefined) return tooLargeDecision;
    request.foreseenHits = peeked;
    if (takesBack) for (const descriptor of request.descriptors) descriptor.isNegativeHits = true;
    const { promise, resolve, reject } = Promise.withResolvers<Decision>();
    let isOver = false;
    const over = <Value>(then: (value: Value) => void) => {
      return (value: Value): void => {
        isOver = true;
        then(value);
      };
    };
    const asked = takesBack ? undefined : (peeked ?? hits);
    const call = new Call(request, { signal, asked }, { resolve: over(resolve), reject: over(reject) });
    this.#service.decide(request, call, this.#decided);
    if (isOver) return promise;
    return unlessAborted(
      signal,
      this.#calls.while(() => promise),
    );
  }

  /** As a limiter reads a request off the wire: texts beyond their bound are counted by hash. Undefined: it is too large. */
  #decoded(domain: string, descriptors: Entry[][], hits: number): RateLimitRequest | undefined {
    if (typeof domain !== 'string') throw new LimiterError('invalid', `domain is text, not ${typeof domain}`);
    try {
      return this.#bounds.decodeWhole(encodeRateLimitRequest(domain, descriptors, hits));
    } catch (error) {
      if (error instanceof RequestTooLarge) return undefined;
      throw error;
    }
  }

  #answer(response: RateLimitResponse, call: Call, plans: readonly Plan[]): void {
    const [exceeded, isUncounted] = [this.#exceeded, this.#isUncounted];
    if (exceeded.length > 0) this.#exceeded = [];
    this.#isUncounted = false;
    if (plans.some(({ kind }) => kind === 'domain-not-found')) this.#noteNoDomain(call.request.domain);
    const observed = { exceeded, isUncounted, options: this.#response };
    const { foreseenHits = 0 } = call.request;
    for (const { plan, limitRemaining } of response.statuses)
      if (plan !== undefined && limitRemaining < foreseenHits) exceeded.push(plan);
    call.resolve(decisionOf(this.#withUsefulWaits(response, call, plans), plans, observed));
  }

  /** Waiting does not help hits that never fit in, and a store is back sooner than a window ends. */
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
        ? { ...status, neverFits: true }
        : { ...status, durationUntilResetSeconds: retryFailedSeconds };
    });
    if (!isOther) return response;
    return assembleResponse({ request, plans, statuses }, this.#response, { onGlobalShadow: () => {} });
  }

  #refuse(error: unknown, call: Call): void {
    this.#exceeded = [];
    this.#isUncounted = false;
    if (error === callAbandoned) call.giveUp();
    else if (error instanceof RequestTooLarge) call.resolve(tooLargeDecision);
    else if (error instanceof ServiceError)
      call.reject(new LimiterError('invalid', error.message, { cause: error }));
    else call.reject(storeFailure(error));
  }

  #notReserved(amount: number | undefined, failure: BudgetFailure, domain: string): Reservation {
    const { onError = 'allow' } = this.#options;
    const { message, retryAfterSeconds } = failure;
    switch (failure.failure) {
      case 'no-domain':
        this.#noteNoDomain(domain);
        return nothingReserved(amount, { allowed: true, reason: 'no-rule' });
      case 'full':
        return {
          ...nothingReserved(amount, { allowed: false, reason: 'full' }),
          retryAfterMs: retryAfterSeconds === undefined ? undefined : retryAfterSeconds * 1000,
        };
      case 'unavailable':
        this.#tell({ type: 'store-error', message });
        if (onError === 'throw') throw new LimiterError('store', message);
        return {
          ...nothingReserved(amount, { allowed: onError === 'allow', reason: 'store' }),
          retryAfterMs: onError === 'allow' ? undefined : retryFailedSeconds * 1000,
        };
      default:
        throw new LimiterError(codeOf(failure), message);
    }
  }

  #noteNoDomain(domain: string): void {
    if (this.#unknownDomains.has(domain) || this.#unknownDomains.size >= mostUnknownDomains) return;
    this.#unknownDomains.add(domain);
    this.#tell({ type: 'no-domain', domain });
  }

  #throwIfClosed(): void {
    if (this.#closing !== undefined) throw new LimiterError('closed', 'the limiter is closed');
  }

  #tell(event: LimiterEvent): void {
    // A listener must not decide about requests, at once or later.
    try {
      const later: unknown = this.#options.onEvent?.(event);
      if (later !== undefined) Promise.resolve(later).catch(() => {});
    } catch {}
  }
}

function checkHits(name: string, hits: number | undefined): void {
  if (hits === undefined || !Number.isSafeInteger(hits) || hits < 0)
    throw new LimiterError('invalid', `${name} is a whole number from 0 to 2^53 - 1, not ${String(hits)}`);
}

function isChosenId(id: string): boolean {
  return reservationIdForm.test(id) && kindOfId(id) === 'chosen';
}

/** So many hits exceed one of the limits also when nothing is used. */
function neverFits(plan: Plan, hits: number): boolean {
  return plan.kind === 'limited' && plan.limits.some(({ capacity }) => hits > capacity);
}

function nothingReserved(
  amount: number | undefined,
  { allowed, reason }: Pick<Reservation, 'allowed' | 'reason'>,
): Reservation {
  return {
    ...{ allowed, reason, amount, headers: {} },
    ...{ id: undefined, expiresAt: undefined, retryAfterMs: undefined },
    commit: async () => 0,
    release: async () => {},
  };
}

function storeFailure(error: unknown): unknown {
  return error instanceof StoreError
    ? new LimiterError('store', error.textForCallers, { cause: error })
    : error;
}

function codeOf({ failure }: BudgetFailure): LimiterError['code'] {
  if (failure === 'conflict' || failure === 'unsupported') return failure;
  return failure === 'unavailable' ? 'store' : 'invalid';
}
