import type { Clock, Timers } from '../../process/time/clock.ts';
import { group, plural, version } from '../../rules/manifest/spec-model.ts';
import type { KubernetesClient } from '../kubernetes/client.ts';
import { ResourceWatch, type WatchLimits, type WatchListener } from '../kubernetes/watch.ts';
import type { ObjectEvent } from '../kubernetes/watch-protocol.ts';
import { type ConfigObject, objectKey } from '../model/config-object.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';
import { OwnWrites } from './own-writes.ts';
import { readConfigObject } from './read-config-object.ts';

export interface KubernetesSourceOptions extends Telemetry {
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
  /** By namespace; undefined: all. */
  #watches: ReadonlyMap<string | undefined, ResourceWatch<ConfigObject>> = new Map();
  #listener: SourceListener | undefined;
  readonly #ownWrites = new OwnWrites((writer) => {
    if (writer === 'own') this.#listener?.statusShown();
    else this.#listener?.changed();
  });
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
    this.#listener = listener;
    const places = namespaces.length === 0 ? [undefined] : [...new Set(namespaces)];
    this.#watches = new Map(places.map((namespace) => [namespace, this.#watch(namespace, listener)]));
    for (const watch of this.#watches.values()) watch.start();
  }

  objects(): readonly ConfigObject[] {
    if (!this.#isListed) return [];
    return [...this.#watches.values()].flatMap((watch) => [...watch.items.values()]);
  }

  newest(object: ConfigObject): ConfigObject | undefined {
    const watch = this.#watches.get(undefined) ?? this.#watches.get(object.namespace);
    const newest = watch?.items.get(objectKey(object));
    return newest?.uid === object.uid ? newest : undefined;
  }

  /** This process writes the object's status: see `OwnWrites.begin`. */
  writing({ uid }: ConfigObject): (resourceVersion?: string) => void {
    return this.#ownWrites.begin(uid);
  }

  async close(): Promise<void> {
    this.#listener = undefined;
    await Promise.all([...this.#watches.values()].map((watch) => watch.close()));
  }

  get #isListed(): boolean {
    return this.#watches.size > 0 && this.#listed === this.#watches.size;
  }

  #watch(namespace: string | undefined, listener: SourceListener): ResourceWatch<ConfigObject> {
    return new ResourceWatch({
      ...this.#options,
      resource: { group, version, plural, namespace },
      read: readConfigObject,
      isNews: (event, before) => this.#isNews(event, before),
      listener: this.#listenerOf(listener),
    });
  }

  /** Whatever changes the generation is news at once, whoever writes a status meanwhile. */
  #isNews({ type, object }: ObjectEvent, before: ConfigObject | undefined): boolean {
    const { uid = '', generation, resourceVersion = '' } = object.metadata;
    if (type === 'DELETED') this.#ownWrites.forget(uid);
    if (type !== 'MODIFIED' || before?.uid !== uid || before.generation !== generation) return true;
    const writer = this.#ownWrites.writerOf(uid, resourceVersion);
    if (writer === 'own') this.#listener?.statusShown();
    return writer === 'other';
  }

  /** Joins the watches: all have to be listed, and one that is out is an outage. Each has a listener of its own. */
  #listenerOf(listener: SourceListener): WatchListener {
    const { log, metrics } = this.#options;
    let isOut = false;
    return {
      listed: () => {
        this.#listed++;
        if (!this.#isListed) return;
        metrics.sourceConnected();
        lines.sourceListed(log, this.objects().length);
        listener.listed();
      },
      changed: () => {
        if (this.#isListed) listener.changed();
      },
      unreachable: (reason) => {
        if (!isOut) this.#out++;
        isOut = true;
        if (this.#told.has(reason)) return;
        this.#told.add(reason);
        metrics.sourceLost();
        lines.sourceUnreachable(log, reason, this.#isListed);
      },
      reachable: () => {
        isOut = false;
        this.#out--;
        if (this.#out > 0) return;
        this.#told.clear();
        metrics.sourceConnected();
        lines.sourceReachable(log);
      },
      skipped: (object, reason) => {
        metrics.sourceSkipped();
        lines.objectSkipped(log, object, reason);
      },
    };
  }
}

/** Where RateLimitConfigs come from. */
export interface ObjectSource {
  /** Throws when the place cannot be watched at all; a server that is away is an outage instead. */
  start(listener: SourceListener): void | Promise<void>;
  /** As last known, in no order; empty before the first complete list. */
  objects(): readonly ConfigObject[];
  /** The same object as it is in `objects` now; undefined when it is gone. */
  newest(object: ConfigObject): ConfigObject | undefined;
  /** Settles when nothing of it runs any more; the listener is not called after that. */
  close(): Promise<void>;
}

export interface SourceListener {
  /** The first complete list is in: from now on what is missing is not there. Comes once. */
  listed(): void;
  /** An own status write is in `objects` now, and nothing else has changed. */
  statusShown(): void;
  /** `objects` may have changed. Comes only after `listed`, maybe several times for one change. */
  changed(): void;
}
