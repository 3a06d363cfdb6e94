/** Loads the capabilities that the settings enable, and combines their parts. */

import type { ApiRoute, ReportChange } from '../../process/http/api-route.ts';
import type { Override } from '../../rules/override.ts';
import type { RuleTable } from '../../rules/table/rule-table.ts';
import type { Capability, LoadedCapability } from '../capabilities/capability.ts';
import { type MessageCarrier, type SentMessage, Threads } from '../capabilities/messages.ts';
import type {
  DecisionObserver,
  Decisions,
  MainContext,
  MainPart,
  ThreadPart,
} from '../capabilities/parts.ts';
import type { GrpcMethod } from '../grpc/request-handler.ts';
import type { CallerRoute } from '../http/caller-route.ts';
import type { DebugPages } from '../http/debug-pages.ts';
import { capabilities } from '../settings/capabilities.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import type { Store } from '../stores/store.ts';
import type { LimiterContext } from './context.ts';

type Loaded = LoadedCapability<LimiterSettings>;

const all: readonly Capability<LimiterSettings>[] = capabilities;

export async function loadCapabilities(settings: LimiterSettings): Promise<Loaded[]> {
  const wanted = all.filter((capability) => capability.isWanted(settings));
  return Promise.all(wanted.map(async ({ name, load }) => ({ name, halves: await load() })));
}

/** The parts of capabilities in the main thread. */
export class MainParts {
  readonly #parts: readonly MainPart[];

  constructor(
    context: LimiterContext,
    loaded: readonly Loaded[],
    {
      carrier,
      ...of
    }: { carrier: MessageCarrier } & Omit<MainContext<LimiterSettings>, keyof LimiterContext | 'threads'>,
  ) {
    this.#parts = loaded.flatMap(
      ({ name, halves }) => halves.main?.({ ...context, ...of, threads: new Threads(carrier, name) }) ?? [],
    );
  }

  routes(report: ReportChange): ApiRoute[] {
    return this.#parts.flatMap((part) => part.routes?.(report) ?? []);
  }

  get pages(): DebugPages[] {
    return this.#parts.flatMap((part) => part.pages ?? []);
  }

  get gate(): MainPart['gate'] {
    return firstOf(this.#parts, 'gate');
  }

  get overrides(): MainPart['overrides'] {
    return firstOf(this.#parts, 'overrides');
  }

  get mapping(): MainPart['mapping'] {
    return firstOf(this.#parts, 'mapping');
  }

  async start(): Promise<void> {
    for (const part of this.#parts) await part.start?.();
  }

  storeAnswers(): void {
    for (const part of this.#parts) part.storeAnswers?.();
  }

  async close(): Promise<void> {
    await Promise.all(this.#parts.map((part) => part.close?.()));
  }
}

/** The parts of capabilities in one thread that answers callers. */
export class ThreadParts {
  readonly #parts = new Map<string, ThreadPart>();

  constructor(context: LimiterContext, loaded: readonly Loaded[], worker: number) {
    for (const { name, halves } of loaded) {
      const part = halves.thread?.({ ...context, worker });
      if (part !== undefined) this.#parts.set(name, part);
    }
  }

  aroundServer(store: Store, name: 'store' | 'per_second_store'): Store {
    return this.#all.reduce((inner, part) => part.aroundServer?.(inner, name) ?? inner, store);
  }

  aroundStore(store: Store): Store {
    return this.#all.reduce((inner, part) => part.aroundStore?.(inner) ?? inner, store);
  }

  storeRejectsScripts(): void {
    for (const part of this.#all) part.storeRejectsScripts?.();
  }

  get gate(): ThreadPart['gate'] {
    return firstOf(this.#all, 'gate');
  }

  get tracers(): ThreadPart['tracers'] {
    return firstOf(this.#all, 'tracers');
  }

  get observer(): DecisionObserver {
    const all = this.#all.flatMap(({ observes }) => observes ?? []);
    return {
      onOverLimit: joined(all.flatMap(({ onOverLimit }) => onOverLimit ?? [])),
      onRequestOverLimit: joined(all.flatMap(({ onRequestOverLimit }) => onRequestOverLimit ?? [])),
      onPlansEnded: joined(all.flatMap(({ onPlansEnded }) => onPlansEnded ?? [])),
    };
  }

  opened(decisions: Decisions): void {
    for (const part of this.#all) part.opened?.(decisions);
  }

  /** Returns the methods to add to the existing methods with these paths. */
  grpc(decisions: Decisions, paths: readonly string[]): Map<string, GrpcMethod> {
    const methods = new Map<string, GrpcMethod>();
    for (const part of this.#all) {
      const added = part.grpc?.(decisions, [...paths, ...methods.keys()]) ?? [];
      for (const [path, method] of added) methods.set(path, method);
    }
    return methods;
  }

  http(decisions: Decisions): Map<string, CallerRoute> {
    return new Map(this.#all.flatMap((part) => [...(part.http?.(decisions) ?? [])]));
  }

  useRules(rules: RuleTable): void {
    for (const part of this.#all) part.useRules?.(rules);
  }

  useOverrides(overrides: readonly Override[]): void {
    for (const part of this.#all) part.useOverrides?.(overrides);
  }

  forget(keys: readonly string[] | undefined): void {
    for (const part of this.#all) part.forget?.(keys);
  }

  /** Returns the answer of the part, or undefined if it has no such message. */
  receive({ capability, kind, argument }: SentMessage): unknown {
    const messages = this.#parts.get(capability)?.messages as Record<string, (argument: unknown) => unknown>;
    return messages?.[kind]?.(argument);
  }

  /** Adds a part of the process itself, under a name that no capability has. */
  add(name: string, part: ThreadPart): void {
    this.#parts.set(name, part);
  }

  /** The carrier of messages if this is the only thread. */
  get carrier(): MessageCarrier {
    const reach = async (message: SentMessage): Promise<unknown[]> =>
      [await this.receive(message)].filter((answer) => answer !== undefined);
    return {
      count: 0,
      ask: reach,
      reach,
      askOne: () => Promise.resolve(undefined),
      publish: async (message) => void (await this.receive(message)),
    };
  }

  async start(): Promise<void> {
    await Promise.all(this.#all.map((part) => part.start?.()));
  }

  async drain(): Promise<void> {
    await Promise.all(this.#all.map((part) => part.drain?.()));
  }

  async beforeStoreCloses(): Promise<void> {
    await Promise.all(this.#all.map((part) => part.beforeStoreCloses?.()));
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((part) => part.close?.()));
  }

  get #all(): ThreadPart[] {
    return [...this.#parts.values()];
  }
}

/** Returns a listener that calls all listeners. Without listeners or with a single one, decisions have no extra cost. */
function joined<Args extends unknown[]>(
  listeners: readonly ((...args: Args) => void)[],
): ((...args: Args) => void) | undefined {
  if (listeners.length <= 1) return listeners[0];
  return (...args) => {
    for (const listener of listeners) listener(...args);
  };
}

function firstOf<Part, Name extends keyof Part>(parts: readonly Part[], name: Name): Part[Name] | undefined {
  return parts.find((part) => part[name] !== undefined)?.[name];
}
