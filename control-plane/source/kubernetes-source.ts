import type { Clock, Timers } from '../../process/time/clock.ts';
import { group, plural, version } from '../../rules/manifest/spec-model.ts';
import type { KubernetesClient } from '../kubernetes/client.ts';
import { ResourceWatch, type WatchLimits, type WatchListener } from '../kubernetes/watch.ts';
import type { ConfigObject } from '../model/config-object.ts';
import { readConfigObject } from './read-config-object.ts';

export interface KubernetesSourceOptions {
  client: KubernetesClient;
  /** WATCH_NAMESPACES, one watch each; empty: all namespaces, by one watch. */
  namespaces: readonly string[];
  /** LABEL_SELECTOR; empty: all objects. An object that stops to match is gone. */
  labelSelector: string;
  clock: Clock;
  timers: Timers;
  /** 0 <= x < 1: for waits. */
  random(): number;
  limits?: Partial<WatchLimits>;
}

/** The RateLimitConfigs of a Kubernetes cluster. */
export class KubernetesSource implements ObjectSource {
  readonly #options: KubernetesSourceOptions;
  #watches: ResourceWatch<ConfigObject>[] = [];
  /** Watches that had their first list. */
  #listed = 0;
  /** Watches that are in an outage, and what was told of the outage they share. */
  #out = 0;
  readonly #told = new Set<string>();

  constructor(options: KubernetesSourceOptions) {
    this.#options = options;
  }

  start(listener: SourceListener): void {
    const { namespaces } = this.#options;
    const places = namespaces.length === 0 ? [undefined] : [...new Set(namespaces)];
    this.#watches = places.map((namespace) => this.#watch(namespace, listener));
    for (const watch of this.#watches) watch.start();
  }

  objects(): readonly ConfigObject[] {
    if (!this.#isListed) return [];
    return this.#watches.flatMap((watch) => [...watch.items.values()]);
  }

  async close(): Promise<void> {
    await Promise.all(this.#watches.map((watch) => watch.close()));
  }

  get #isListed(): boolean {
    return this.#watches.length > 0 && this.#listed === this.#watches.length;
  }

  #watch(namespace: string | undefined, listener: SourceListener): ResourceWatch<ConfigObject> {
    const { client, labelSelector, clock, timers, random, limits } = this.#options;
    return new ResourceWatch({
      client,
      resource: { group, version, plural, namespace },
      labelSelector,
      read: readConfigObject,
      listener: this.#listenerOf(listener),
      clock,
      timers,
      random,
      ...(limits === undefined ? {} : { limits }),
    });
  }

  /** Joins the watches: all have to be listed, and one that is out is an outage. Each has a listener of its own. */
  #listenerOf(listener: SourceListener): WatchListener {
    let isOut = false;
    return {
      listed: () => {
        this.#listed++;
        if (this.#isListed) listener.listed();
      },
      changed: () => {
        if (this.#isListed) listener.changed();
      },
      unreachable: (reason) => {
        if (!isOut) this.#out++;
        isOut = true;
        if (this.#told.has(reason)) return;
        this.#told.add(reason);
        listener.unreachable(reason);
      },
      reachable: () => {
        isOut = false;
        this.#out--;
        if (this.#out > 0) return;
        this.#told.clear();
        listener.reachable();
      },
      skipped: (object, reason) => listener.skipped(object, reason),
    };
  }
}

/** Where RateLimitConfigs come from. */
export interface ObjectSource {
  /** Throws when the place cannot be watched at all; a server that is away is an outage instead. */
  start(listener: SourceListener): void | Promise<void>;
  /** As last known, in no order; empty before the first complete list. */
  objects(): readonly ConfigObject[];
  /** Settles when nothing of it runs any more; the listener is not called after that. */
  close(): Promise<void>;
}

export interface SourceListener {
  /** The first complete list is in: from now on what is missing is not there. Comes once. */
  listed(): void;
  /** `objects` may have changed. Comes only after `listed`, maybe several times for one change. */
  changed(): void;
  /** The objects may be out of date from now on. Comes once an outage, and again when its reason is another one. */
  unreachable(reason: string): void;
  reachable(): void;
  /** `namespace/name` and why it cannot be read; what was read of it before stays. */
  skipped(object: string, reason: string): void;
  /** `limits.yaml:12:3` and what is wrong there, once for each time that the file changes. Directories only. */
  problem(place: string, text: string): void;
}
