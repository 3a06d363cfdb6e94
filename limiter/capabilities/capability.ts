/**
 * A capability is what a limiter can do besides deciding, in a folder of its own below `limiter/`: a declaration, which imports
 * nothing that runs, and two halves, loaded where its settings ask for them. `limiter/settings/capabilities.ts` lists them all,
 * `limiter/assembly/capabilities.ts` goes through the list.
 */
import type { AdmittedCaller, CallerGate, CallerRefusal, CallTracer } from '../../process/grpc/handlers.ts';
import type { Health } from '../../process/grpc/health.ts';
import type { ApiRoute, ReportChange } from '../../process/http/api-route.ts';
import type { Logger } from '../../process/log/logger.ts';
import type { Environment, SettingsTable } from '../../process/settings/settings-reader.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { Entry } from '../../rules/model.ts';
import type { Override } from '../../rules/override.ts';
import type { RuleTable } from '../../rules/table/rule-table.ts';
import type { OverridesFound } from '../decide/override-index.ts';
import type { ResponseOptions } from '../decide/response.ts';
import type { GrpcMethod } from '../grpc/request-handler.ts';
import type { CallerRoute } from '../http/caller-route.ts';
import type { DebugPages } from '../http/debug-pages.ts';
import type { EffectiveLimit } from '../operate/counter-view.ts';
import type { StoreAdmin } from '../operate/store-admin/store-admin.ts';
import type { CountingOptions, ServiceEvents } from '../service/decision.ts';
import type { Excess } from '../service/excess.ts';
import type { RateLimitService } from '../service/rate-limit-service.ts';
import type { ShouldRateLimitOptions } from '../service/should-rate-limit.ts';
import type { Mapping } from '../stats/prometheus/mapping-rules.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import type { Store } from '../stores/store.ts';
import type { Threads } from './messages.ts';

/** `Own`: those of its own rows. */
export interface Capability<Settings = never, Own = never> {
  /** That of its folder. */
  readonly name: string;
  readonly settings?: DeclaredSettings<Own>;
  /** Whether these settings ask for it: without, nothing of its halves is loaded. */
  isWanted(settings: Settings): boolean;
  load(): Promise<CapabilityThreads<Settings>>;
}

/** Its rows of `docs/settings.md`, of the chart and of the environment. */
export interface DeclaredSettings<Own = never> {
  /** The table that they are in: that of the title, or a new one. */
  readonly title: string;
  /** They stand before the setting that the program handles by this name, or the new table before the one of this title. Undefined: last. */
  readonly before?: string;
  readonly rows: SettingsTable;
  /** Prefixes of names: a variable that begins so and that nothing reads is warned about. */
  readonly ownPrefixes?: readonly string[];
  /** Sentences about values that are allowed and not wise. */
  warnings?(settings: Own, env: Environment): string[];
  /** What else the program reads of the environment, as further members of the settings. */
  derived?(settings: Own, env: Environment): object;
}

export interface CapabilityThreads<Settings> {
  /** Runs once, in the main thread. */
  main?(context: MainContext<Settings>): MainPart;
  /** Runs in each thread that answers callers: in the workers of LIMITER_WORKERS, else in the main thread. */
  thread?(context: ThreadContext<Settings>): ThreadPart;
}

export interface LoadedCapability<Settings> {
  readonly name: string;
  readonly halves: CapabilityThreads<Settings>;
}

/** Dependencies shared by all parts of a limiter, one of each for each thread. */
export interface CapabilityContext<Settings> {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly timers: Timers;
  /** From 0 to below 1. */
  readonly random: () => number;
  readonly registry: StatsRegistry;
  /** What callers see. */
  readonly health: Health;
  readonly log: Logger;
}

export interface MainContext<Settings> extends CapabilityContext<Settings> {
  readonly threads: Threads;
  /** The name of this limiter. */
  readonly limiter: string;
  /** Those in force; undefined: there are none yet. */
  rules(): RuleTable | undefined;
  /** For operators: away from the connections that count. */
  readonly storeAdmin: StoreAdmin;
  readonly counting: CountingOptions;
}

export interface MainPart {
  /** Routes of `/v1` on the debug listener, `report` of each change. */
  routes?(report: ReportChange): ApiRoute[];
  /** Who may use them; undefined: anyone who is not kept out otherwise. */
  readonly gate?: OperatorGate;
  /** Pages of the debug listener. */
  readonly pages?: DebugPages;
  /** Before the first rules are loaded. Rejects when the limiter cannot run without it. */
  start?(): Promise<void>;
  /** The store answers. */
  storeAnswers?(): void;
  /** Before the store is closed. */
  close?(): void | Promise<void>;
  /** The overrides. */
  readonly overrides?: OverridesHere;
  /** How statistics become metrics of Prometheus, in place of the built-in mapping. Throws when the limiter cannot run without it. */
  mapping?(): Mapping;
}

/** Overrides of this process, whatever they came by. */
export interface OverridesHere {
  /** Those in force. */
  count(): number;
  find(domain: string, entries: readonly Entry[]): OverridesFound | undefined;
  readonly limitOf: EffectiveLimit;
  /** Those of a control plane from now on; settles when they are in force everywhere. */
  useObjects(overrides: readonly Override[]): Promise<void>;
}

/** As `CallerGate`; the rights of whom it lets in are bits of `Right`. */
export interface OperatorGate {
  admit(
    ...asked: Parameters<CallerGate['admit']>
  ): (AdmittedCaller & { readonly rights: number }) | CallerRefusal;
}

export interface ThreadContext<Settings> extends CapabilityContext<Settings> {
  /** Of LIMITER_WORKERS, from 1 on; 0: the main thread serves callers itself. */
  readonly worker: number;
}

export interface ThreadPart {
  /** Around each store that is asked over a network, inside of its circuit breaker. */
  aroundServer?(store: Store, name: 'store' | 'per_second_store'): Store;
  /** Around the store that counts, outside of circuit breakers. */
  aroundStore?(store: Store): Store;
  /** The server of the store refuses scripts, or leases: what needs them ends. */
  storeRefusesScripts?(): void;
  /** Of callers at the two listeners; undefined: anyone who reaches them may ask. */
  readonly gate?: CallerGate;
  /** Of calls at the two listeners. */
  readonly tracers?: { readonly grpc: CallTracer; readonly http: CallTracer };
  /** Before anything is decided, and before rules and messages come. */
  opened?(decisions: Decisions): void;
  /** Methods of the gRPC listener by path; `served` are those of the capabilities listed before, and of the limiter. */
  grpc?(decisions: Decisions, served: readonly string[]): ReadonlyMap<string, GrpcMethod>;
  /** Routes of `/v1` on the HTTP listener, by path. */
  http?(decisions: Decisions): ReadonlyMap<string, CallerRoute>;
  /** What it wants to know of decisions. */
  readonly observes?: Observer;
  /** Decisions are by these from now on. */
  useRules?(rules: RuleTable): void;
  /** The overrides in force from now on. */
  useOverrides?(overrides: readonly Override[]): void;
  /** These counters were reset; undefined: nobody knows which. */
  forget?(keys: readonly string[] | undefined): void;
  /** What the main half asks and publishes: a method for each kind of message. */
  readonly messages?: object;
  /** With the connections of the store: timers begin here, so that a start that fails before leaves none behind. */
  start?(): void | Promise<void>;
  /** The gRPC listener is about to send GOAWAY: long calls end with OK. Settles soon, whatever the store does. */
  drain?(): Promise<void>;
  /** Callers are gone; the store is still there. */
  beforeStoreCloses?(): void | Promise<void>;
  /** The store is closed. */
  close?(): void | Promise<void>;
}

export type Observer = Pick<ServiceEvents, 'onOverLimit' | 'onRefused' | 'onPlansEnded'>;

/** What one thread decides with, as it answers callers. */
export interface Decisions {
  /** Counts each hit as it comes: without leases and the local fallback. */
  readonly store: Store;
  readonly service: Pick<RateLimitService, 'parts'>;
  /** Service, bounds and what is done with requests beyond them. */
  readonly asked: ShouldRateLimitOptions;
  /** Of what callers ask over HTTP: all that is known. */
  readonly wholeResponse: ResponseOptions;
  readonly excess: Excess;
  /** Decides with these over the rules from now on. */
  useOverrides(overrides: readonly Override[]): void;
  readonly counting: CountingOptions;
  /** Nothing is refused, whatever rules say. */
  readonly allPass: boolean;
  /** Why the store shares nothing out; undefined: it does. */
  readonly whyNoShares: string | undefined;
}
