/**
 * What the two halves of a capability get and provide: the half of the main thread, and that of the threads that answer callers. They
 * are loaded if the settings of the capability ask for them. `limiter/assembly/capabilities.ts` goes through the list of them.
 */
import type { AdmittedCaller, CallerGate, CallerRejection, CallTracer } from '../../process/grpc/handlers.ts';
import type { Health } from '../../process/grpc/health.ts';
import type { ApiRoute, ReportChange } from '../../process/http/api-route.ts';
import type { Logger } from '../../process/log/logger.ts';
import type { LoopTurns } from '../../process/queues/loop-turns.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { Entry } from '../../rules/model.ts';
import type { Override } from '../../rules/override.ts';
import type { RuleTable } from '../../rules/table/rule-table.ts';
import type { OverridesFound } from '../decide/override-index.ts';
import type { ResponseOptions } from '../decide/response.ts';
import type { GrpcMethod } from '../grpc/request-handler.ts';
import type { CallerRoute } from '../http/caller-route.ts';
import type { DebugPages } from '../http/debug-pages.ts';
import type { DecideForHttp } from '../http/http-decision.ts';
import type { EffectiveLimit } from '../operate/counter-view.ts';
import type { StoreAdmin } from '../operate/store-admin/store-admin.ts';
import type { CountingOptions, ServiceEvents } from '../service/decision.ts';
import type { ExcessResponses } from '../service/over-without-limit.ts';
import type { RateLimitService } from '../service/rate-limit-service.ts';
import type { ShouldRateLimitOptions } from '../service/should-rate-limit.ts';
import type { Mapping } from '../stats/prometheus/mapping-rules.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import type { Store } from '../stores/store.ts';
import type { Threads } from './messages.ts';

/** Dependencies shared by all parts of a limiter, one of each for each thread. */
export interface CapabilityContext<Settings> {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly timers: Timers;
  /** Returns a number from 0 to below 1. */
  readonly random: () => number;
  readonly registry: StatsRegistry;
  /** The health that callers see. */
  readonly health: Health;
  readonly log: Logger;
}

export interface MainContext<Settings> extends CapabilityContext<Settings> {
  readonly threads: Threads;
  /** The name of this limiter. */
  readonly limiter: string;
  /** Returns the rules in force; undefined: none are loaded yet. */
  rules(): RuleTable | undefined;
  /** The store for operators, separate from the connections that count. */
  readonly storeAdmin: StoreAdmin;
  readonly counting: CountingOptions;
}

export interface MainPart {
  /** Routes of `/v1` on the debug listener. They `report` each change. */
  routes?(report: ReportChange): ApiRoute[];
  /** Admits operators. Undefined admits everybody whom nothing else rejects. */
  readonly gate?: OperatorGate;
  /** Pages of the debug listener. */
  readonly pages?: DebugPages;
  /** Called before the first rules are loaded. Rejects if the limiter cannot run without it. */
  start?(): Promise<void>;
  /** Called when the store answers. */
  storeAnswers?(): void;
  /** Called before the store is closed. */
  close?(): void | Promise<void>;
  /** The overrides of this process. */
  readonly overrides?: OverridesHere;
  /**
   * Returns how statistics become metrics of Prometheus, in place of the built-in mapping. @throws if the limiter cannot run without it
   */
  mapping?(): Mapping;
}

/** Overrides of this process, whatever their source. */
export interface OverridesHere {
  /** Returns the number of overrides in force. */
  count(): number;
  find(domain: string, entries: readonly Entry[]): OverridesFound | undefined;
  readonly limitOf: EffectiveLimit;
  /** Uses these overrides of a control plane from now on. Resolves when they are in force in all threads. */
  useObjects(overrides: readonly Override[]): Promise<void>;
}

/** The same as `CallerGate`; the rights of admitted operators are bits of `Right`. */
export interface OperatorGate {
  admit(
    ...asked: Parameters<CallerGate['admit']>
  ): (AdmittedCaller & { readonly rights: number }) | CallerRejection;
}

export interface ThreadContext<Settings> extends CapabilityContext<Settings> {
  /** The number of the worker (LIMITER_WORKERS), from 1 on; 0: the main thread serves callers itself. */
  readonly worker: number;
}

export interface ThreadPart {
  /** Decorates each store that is asked over a network, inside its circuit breaker. */
  aroundServer?(store: Store, name: 'store' | 'per_second_store'): Store;
  /** Decorates the store that counts, outside circuit breakers. */
  aroundStore?(store: Store): Store;
  /** Called when the store's server rejects scripts or leases, so that features that need them must end. */
  storeRejectsScripts?(): void;
  /** Admits callers at the two listeners; undefined: every caller that reaches them. */
  readonly gate?: CallerGate;
  /** Tracers of calls at the two listeners. */
  readonly tracers?: { readonly grpc: CallTracer; readonly http: CallTracer };
  /** Called before the first decision, and before rules and messages. */
  opened?(decisions: Decisions): void;
  /** Methods of the gRPC listener by path. `served` are the paths of the limiter and of capabilities earlier in the list. */
  grpc?(decisions: Decisions, served: readonly string[]): ReadonlyMap<string, GrpcMethod>;
  /** Routes of `/v1` on the HTTP listener, by path. */
  http?(decisions: Decisions): ReadonlyMap<string, CallerRoute>;
  /** Observes decisions. */
  readonly observes?: DecisionObserver;
  /** Called when decisions use these rules from now on. */
  useRules?(rules: RuleTable): void;
  /** Called with the overrides in force from now on. */
  useOverrides?(overrides: readonly Override[]): void;
  /** Called when these counters were reset; undefined: unknown. */
  forget?(keys: readonly string[] | undefined): void;
  /** Handles messages of the main half: a method for each kind of message. */
  readonly messages?: object;
  /** Called with the connections of the store. Timers must start here, so that a start that fails before leaves none running. */
  start?(): void | Promise<void>;
  /** Called before the gRPC listener sends GOAWAY: long calls end with OK. Resolves soon, whatever the store does. */
  drain?(): Promise<void>;
  /** Called when callers are gone and the store is still open. */
  beforeStoreCloses?(): void | Promise<void>;
  /** Called when the store is closed. */
  close?(): void | Promise<void>;
}

export type DecisionObserver = Pick<ServiceEvents, 'onOverLimit' | 'onRequestOverLimit' | 'onPlansEnded'>;

/** The parts with which one thread decides and answers callers. */
export interface Decisions {
  /** Counts each hit at once, without leases and the local fallback. */
  readonly store: Store;
  readonly service: Pick<RateLimitService, 'parts'>;
  /** The service, the bounds of requests, and the answers to requests beyond them. */
  readonly asked: ShouldRateLimitOptions;
  /** The options of answers over HTTP, which contain all details. */
  readonly wholeResponse: ResponseOptions;
  readonly excess: ExcessResponses;
  /** Decides a request over HTTP, with all details. */
  readonly decide: DecideForHttp;
  /** Applies these overrides to decisions from now on. */
  useOverrides(overrides: readonly Override[]): void;
  readonly counting: CountingOptions;
  /** The turns of the event loop in which callers are served. */
  readonly turns: LoopTurns;
  /** Whether all requests pass, whatever the rules. */
  readonly allPass: boolean;
  /** Why the store supports no shares; undefined: it supports them. */
  readonly whyNoShares: string | undefined;
}
