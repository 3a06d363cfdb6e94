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
import type { RateLimitResponse } from '../../limiter/decide/decided.ts';
import type { LimitPlan, Plan } from '../../limiter/decide/limit-plan.ts';
import { type RateLimitRequest, ServiceError } from '../../limiter/decide/messages.ts';
import { type RequestBounds, RequestTooLarge } from '../../limiter/decide/request-bounds.ts';
import { assembleResponse, foreseenStatus, type ResponseOptions } from '../../limiter/decide/response.ts';
import { encodeRateLimitRequest } from '../../limiter/decide/wire-codec.ts';
import { countersNow } from '../../limiter/operate/counter-routes.ts';
import type { StoreOffice } from '../../limiter/operate/office/office.ts';
import { CounterResets } from '../../limiter/operate/resets.ts';
import type { BudgetFailure, Budgets } from '../../limiter/service/budgets.ts';
import { type Decided, RateLimitService } from '../../limiter/service/rate-limit-service.ts';
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
  Reservation,
  ReservedDescriptors,
  ReserveOptions,
  Rules,
} from './api.ts';
import { decisionOf, headersOf, tooLargeDecision } from './decision.ts';
import { descriptorsOf, reservedOf } from './descriptors.ts';
import { librarySettings, timeoutOf } from './library-settings.ts';
import { LimiterError } from './limiter-error.ts';
import { type RulesRead, readRules } from './read-rules.ts';
import { warn } from './warn.ts';

/** Chosen: domains without rules that are reported. */
const mostUnknownDomains = 100;

/**
 * Rejects with a `LimiterError` for rules or options that cannot be used. A Redis that does not answer within `timeoutMs` is none:
 * `onError` decides until it does.
 */
export async function createLimiter(options: LimiterOptions): Promise<Limiter> {
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

/** One call. */
class Call implements Caller {
  readonly #signal: AbortSignal | undefined;
  /** To peek: hits that would have to fit in. Undefined: the hits were counted, or taken back. */
  readonly peeked: number | undefined;
  readonly request: RateLimitRequest;
  readonly resolve: (decision: Decision) => void;
  readonly reject: (reason: unknown) => void;

  constructor(
    request: RateLimitRequest,
    { signal, peeked }: { signal: AbortSignal | undefined; peeked: number | undefined },
    { resolve, reject }: Pick<PromiseWithResolvers<Decision>, 'resolve' | 'reject'>,
  ) {
    this.request = request;
    this.#signal = signal;
    this.peeked = peeked;
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
  /** Keeps the process alive while a call is open. */
  readonly #alive = setInterval(() => {}, 0x7fff_ffff).unref();
  #open = 0;
  #rules: Rules;
  #table: RuleTable;
  readonly #unknownDomains = new Set<string>();
  /** Of the decision that is made now. */
  #exceeded: LimitPlan[] = [];
  #isUncounted = false;
  #isClosed = false;
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
    const nowMs = systemClock.nowMs();
    const settings = countingOptions(this.#settings);
    const table = this.#table;
    const refs = descriptorsOf(descriptors).flatMap((entries) => {
      const match = table.match(domain, entries, settings);
      return match === undefined || match.rule.unlimited ? [] : countersNow(match, nowMs, settings);
    });
    if (refs.length === 0) return 0;
    return this.#whileOpen(async () => {
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
    const question = this.#decoded(domain, descriptors, 1);
    if (question === undefined) return nothingReserved(amount, { allowed: false, reason: 'too-large' });
    const { descriptors: decoded } = question;
    const asker = {
      get abandoned() {
        return signal?.aborted === true;
      },
    };
    const about = { domain, descriptors: decoded };
    const answer = await this.#whileOpen(
      () =>
        new Promise<Parameters<Parameters<Budgets['reserve']>[2]>[0]>((done) =>
          this.#budgets.reserve({ ...about, amount, amounts, ttlMs, id, recalled: false }, asker, done),
        ),
    );
    if ('failure' in answer) return this.#notReserved(amount, answer, domain);
    const { allowed, id: made, expiresAtMs, headers, scopes } = answer;
    const seconds = Math.max(0, ...scopes.map(({ refused, resetSeconds }) => (refused ? resetSeconds : 0)));
    const settle = async (cost: number | readonly number[] | undefined): Promise<number> => {
      const [actual, actuals] = typeof cost === 'object' ? [undefined, cost] : [cost, undefined];
      if (actuals !== undefined && actuals.length !== decoded.length)
        throw new LimiterError('invalid', `${decoded.length} descriptors, and ${actuals.length} amounts`);
      for (const one of actuals ?? [actual]) if (one !== undefined) checkHits('actual', one);
      if (!allowed) return 0;
      const settled = await this.#whileOpen(
        () =>
          new Promise<Parameters<Parameters<Budgets['settle']>[2]>[0]>((done) =>
            this.#budgets.settle(
              { ...about, id: made, actual, amounts: actuals, unknown: 'charge' },
              { abandoned: false },
              done,
            ),
          ),
      );
      if ('failure' in settled) throw new LimiterError(codeOf(settled), settled.message);
      return settled.charged;
    };
    return {
      allowed,
      reason: allowed ? (scopes.length === 0 ? 'unlimited' : undefined) : 'limit',
      id: allowed ? made : undefined,
      amount,
      expiresAt: allowed && expiresAtMs > 0 ? new Date(expiresAtMs) : undefined,
      retryAfterMs: allowed ? undefined : seconds * 1000,
      headers: headersOf(headers),
      commit: (actual) => settle(actual),
      release: async () => void (await settle(0)),
    };
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

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#office.close();
    await this.#store.close();
    clearInterval(this.#alive);
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
    if (takesBack) for (const descriptor of request.descriptors) descriptor.isNegativeHits = true;
    const { promise, resolve, reject } = Promise.withResolvers<Decision>();
    let isOver = false;
    const over = <Value>(then: (value: Value) => void) => {
      return (value: Value): void => {
        isOver = true;
        then(value);
      };
    };
    const call = new Call(request, { signal, peeked }, { resolve: over(resolve), reject: over(reject) });
    this.#service.decide(request, call, this.#decided);
    if (isOver) return promise;
    const giveUp = (): void => call.giveUp();
    signal?.addEventListener('abort', giveUp);
    return this.#whileOpen(() => promise).finally(() => signal?.removeEventListener('abort', giveUp));
  }

  /** As a limiter reads a request off the wire: texts beyond their bound are counted by hash. Undefined: it is too large. */
  #decoded(domain: string, descriptors: Entry[][], hits: number): RateLimitRequest | undefined {
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
    const answer = call.peeked === undefined ? response : this.#peeked(response, call, plans, exceeded);
    call.resolve(decisionOf(answer, plans, observed));
  }

  /** What the answer would be if so many hits were counted. */
  #peeked(
    { statuses }: RateLimitResponse,
    { request, peeked = 0 }: Call,
    plans: readonly Plan[],
    exceeded: LimitPlan[],
  ): RateLimitResponse {
    for (const { plan, limitRemaining } of statuses)
      if (plan !== undefined && limitRemaining < peeked) exceeded.push(plan);
    const foreseen = statuses.map((status) => foreseenStatus(status, peeked));
    return assembleResponse({ request, plans, statuses: foreseen }, this.#response, {
      onGlobalShadow: () => {},
    });
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
        return nothingReserved(amount, { allowed: onError === 'allow', reason: 'store' });
      default:
        throw new LimiterError(codeOf(failure), message);
    }
  }

  #noteNoDomain(domain: string): void {
    if (this.#unknownDomains.has(domain) || this.#unknownDomains.size >= mostUnknownDomains) return;
    this.#unknownDomains.add(domain);
    this.#tell({ type: 'no-domain', domain });
  }

  async #whileOpen<Value>(work: () => Promise<Value>): Promise<Value> {
    if (this.#open === 0) this.#alive.ref();
    this.#open += 1;
    try {
      return await work();
    } finally {
      this.#open -= 1;
      if (this.#open === 0) this.#alive.unref();
    }
  }

  #throwIfClosed(): void {
    if (this.#isClosed) throw new LimiterError('closed', 'the limiter is closed');
  }

  #tell(event: LimiterEvent): void {
    try {
      this.#options.onEvent?.(event);
    } catch {
      // A listener must not decide about requests.
    }
  }
}

function checkHits(name: string, hits: number | undefined): void {
  if (hits === undefined || !Number.isSafeInteger(hits) || hits < 0)
    throw new LimiterError('invalid', `${name} is a whole number from 0 to 2^53 - 1, not ${String(hits)}`);
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
