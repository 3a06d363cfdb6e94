import type { Clock, Timers } from '../../process/time/clock.ts';
import { group, overrideKind, version } from '../../rules/language/kinds.ts';
import { classNameOf } from '../../rules/reader/manifest-reader.ts';
import { fieldManager, type KubernetesApi } from '../kubernetes/api.ts';
import { ResourceWatch, type WatchLimits, type WatchListener } from '../kubernetes/watch.ts';
import type { ApiObject, Reading } from '../kubernetes/watch-protocol.ts';
import { type ConfigObject, type ConfigStatus, kindOf } from '../model/config-object.ts';
import { overrideStatusModel, statusModel } from '../model/object-models.ts';
import { type ObjectVersions, shownVersions, watchKey } from '../model/object-versions.ts';
import { VersionedMap } from '../model/versioned-map.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import { type LabelSelector, type Labels, parseLabelSelector } from './label-selector.ts';

/** The source of RateLimitConfigs and RateLimitOverrides. */
export interface ObjectSource {
  /** Starts the source. Throws if the source cannot be watched at all. An unreachable server is an outage instead. */
  start(listener: SourceListener): void | Promise<void>;
  /** The last known objects by uid. The map is replaced once an object has changed. Empty before the first complete list. */
  readonly objects: ReadonlyMap<string, ConfigObject>;
  /** The versions that `objects` shows. A missing version is the last known one. */
  readonly versions: ObjectVersions;
  /** The objects that no longer belong to this control plane, by class or labels, while their status still has its name. */
  left(): readonly ConfigObject[];
  /** Returns whether the object no longer exists, not even as an object of another class. */
  isGone(object: ConfigObject): boolean;
  /** Settles when no request is in progress. The listener is not called after that. */
  close(): Promise<void>;
}

export interface SourceListener {
  /** Called once the first complete list has arrived, and when `objects` may have changed, possibly several times for one change. */
  changed(): void;
  /** Called when `objects` may be older than the source's objects, and when that is over. */
  cutOff(isCutOff: boolean): void;
}

export interface KubernetesSourceOptions extends Telemetry {
  client: KubernetesApi;
  /** WATCH_NAMESPACES, with one watch each. Empty for all namespaces, with one watch. */
  namespaces: readonly string[];
  /** CLASS_NAME. Objects of other classes belong to other control planes. */
  className: string;
  /** LABEL_SELECTOR. Empty for all objects of the class. */
  labelSelector: string;
  /** The `controllerName` in statuses of this control plane. */
  controllerName: string;
  clock: Clock;
  timers: Timers;
  /** A number from 0 to below 1, for waits. */
  random(): number;
  limits?: Partial<WatchLimits>;
}

type Kind = ConfigObject['kind'];

/** An object, and whether it belongs to this control plane by class and labels. If it does not, its spec is not stored. */
interface Seen {
  object: ConfigObject;
  isOurs: boolean;
}

/**
 * The RateLimitConfigs and RateLimitOverrides of a Kubernetes cluster. It watches all objects of the namespaces and filters by
 * class and labels here, because the server would report an object that no longer matches as deleted.
 */
export class KubernetesSource implements ObjectSource {
  readonly #options: KubernetesSourceOptions;
  readonly #selects: LabelSelector;
  /** Watches by `watchKey`. */
  #watches: ReadonlyMap<string, ResourceWatch<Seen>> = new Map();
  /** All objects by uid. */
  #objects = VersionedMap.of<ConfigObject>();
  /** The changes that `objects` does not show yet. */
  #changes = new Map<string, ConfigObject | undefined>();
  readonly #left = new Map<string, ConfigObject>();
  /** The number of watches that had their first list. */
  #listed = 0;
  /** The number of watches in an outage, and the reported reason for the outage that they share. */
  #out = 0;
  /** The number of watches whose right to watch is unknown. */
  #doubtful = 0;
  readonly #reported = new Set<string>();

  /** Throws if the label selector is invalid. The settings reject it before. */
  constructor(options: KubernetesSourceOptions) {
    this.#options = options;
    const parsed = parseLabelSelector(options.labelSelector);
    if ('problem' in parsed) throw new Error(`LABEL_SELECTOR: ${parsed.problem}`);
    this.#selects = parsed.selects;
  }

  start(listener: SourceListener): void {
    const { namespaces } = this.#options;
    const places = namespaces.length === 0 ? [undefined] : [...new Set(namespaces)];
    this.#watches = new Map(
      places.flatMap((namespace) =>
        ([undefined, overrideKind] as const).map((kind) => [
          watchKey(kind, namespace),
          this.#watch(kind, namespace, listener),
        ]),
      ),
    );
    for (const watch of this.#watches.values()) watch.start();
  }

  get objects(): VersionedMap<ConfigObject> {
    if (!this.#isListed || this.#changes.size === 0) return this.#objects;
    this.#objects = this.#objects.with(this.#changes);
    this.#changes = new Map();
    return this.#objects;
  }

  get versions(): ObjectVersions {
    return shownVersions(this.#watches);
  }

  left(): readonly ConfigObject[] {
    return this.#isListed ? [...this.#left.values()] : [];
  }

  /**
   * Reads an object that is not stored yet, in the form that it would have in `objects`. Returns undefined if `objects` would not contain
   * it because of its namespace, class or labels.
   */
  previewed(object: ApiObject, kind?: Kind): Reading<ConfigObject> | undefined {
    if (this.#watchOf(kind, object.metadata.namespace ?? '') === undefined) return undefined;
    const reading = this.#read(object, kind);
    if (!('item' in reading)) return reading;
    return reading.item.isOurs ? { item: reading.item.object } : undefined;
  }

  isGone(object: ConfigObject): boolean {
    return this.#seen(object)?.object.uid !== object.uid;
  }

  #put(object: ConfigObject, place: 'ours' | 'left' | undefined): void {
    const { uid } = object;
    this.#changes.set(uid, place === 'ours' ? object : undefined);
    if (place === 'left') this.#left.set(uid, object);
    else this.#left.delete(uid);
  }

  #isLeft({ object: { status }, isOurs }: Seen): boolean {
    return !isOurs && status?.controllerName === this.#options.controllerName;
  }

  #seen({ kind, namespace, name }: Pick<ConfigObject, 'kind' | 'namespace' | 'name'>): Seen | undefined {
    return this.#watchOf(kind, namespace)?.items.get(`${namespace}/${name}`);
  }

  #watchOf(kind: Kind, namespace: string): ResourceWatch<Seen> | undefined {
    return this.#watches.get(watchKey(kind)) ?? this.#watches.get(watchKey(kind, namespace));
  }

  async close(): Promise<void> {
    await Promise.all([...this.#watches.values()].map((watch) => watch.close()));
  }

  get #isListed(): boolean {
    return this.#watches.size > 0 && this.#listed === this.#watches.size;
  }

  #watch(kind: Kind, namespace: string | undefined, listener: SourceListener): ResourceWatch<Seen> {
    const { client, clock, timers, random, limits = {} } = this.#options;
    return new ResourceWatch<Seen>({
      client,
      clock,
      timers,
      random,
      limits,
      resource: { group, version, plural: kindOf({ kind }).plural, namespace },
      read: (object) => this.#read(object, kind),
      itemShown: (now, before) => this.#shown(now, before),
      listener: this.#listenerOf(listener, kind),
    });
  }

  #read(object: ApiObject, kind: Kind): Reading<Seen> {
    const reading = readConfigObject(object, kind);
    if (!('item' in reading)) return reading;
    const { item, className, labels } = reading;
    const isOurs =
      (className === undefined || className === this.#options.className) && this.#selects(labels);
    return { item: { object: isOurs ? item : { ...item, spec: undefined }, isOurs } };
  }

  /** Returns whether the change is about objects that are ours or were, which includes writes of their statuses. */
  #shown(now: Seen | undefined, before: Seen | undefined): boolean {
    if (now === before) return false;
    if (before !== undefined && before.object.uid !== now?.object.uid) this.#put(before.object, undefined);
    if (now !== undefined)
      this.#put(now.object, now.isOurs ? 'ours' : this.#isLeft(now) ? 'left' : undefined);
    return [before, now].some((seen) => seen !== undefined && (seen.isOurs || this.#isLeft(seen)));
  }

  /**
   * Joins the watches: all must be listed, and one unreachable watch is an outage. Each has its own listener. If the definition
   * of overrides is not installed yet, there are none.
   */
  #listenerOf(listener: SourceListener, kind: Kind): WatchListener {
    const { log, metrics } = this.#options;
    let isOut = false;
    let wasDoubtful = false;
    let hasCounted = false;
    const changed = (): void => {
      const isFirst = !hasCounted;
      hasCounted = true;
      if (isFirst) this.#listed++;
      if (!this.#isListed) return;
      if (isFirst) {
        metrics.sourceConnected();
        lines.sourceListed(log, { objects: this.objects.size });
      }
      listener.changed();
    };
    const reachable = (): void => {
      if (!isOut) return;
      isOut = false;
      this.#out--;
      if (this.#out > 0) return;
      this.#reported.clear();
      metrics.sourceConnected();
      lines.sourceReachable(log);
      if (this.#doubtful === 0) listener.cutOff(false);
    };
    const doubtful = (isDoubtful: boolean): void => {
      if (isDoubtful === wasDoubtful) return;
      wasDoubtful = isDoubtful;
      this.#doubtful += isDoubtful ? 1 : -1;
      if (isDoubtful || this.#out + this.#doubtful === 0) listener.cutOff(isDoubtful);
    };
    return {
      changed,
      doubtful,
      reachable,
      unreachable: (reason, status) => {
        if (kind !== undefined && status === 404) {
          // There is nothing to miss.
          doubtful(false);
          reachable();
          if (hasCounted) return;
          lines.overridesUnknown(log, { reason });
          changed();
          return;
        }
        if (!isOut) this.#out++;
        isOut = true;
        listener.cutOff(true);
        if (this.#reported.has(reason)) return;
        this.#reported.add(reason);
        metrics.sourceLost();
        lines.sourceUnreachable(log, { reason, isListed: this.#isListed });
      },
      skipped: (object, reason) => {
        metrics.all.sourceSkipped.inc();
        lines.objectSkipped(log, { kind: kindOf({ kind }).kind, object, reason });
      },
    };
  }
}

/**
 * Returns the readable part of an object's status. Another version of Weir, or a person, may have written it. Returns undefined if there
 * is none.
 */
export function readStatus(value: unknown, kind?: Kind): ConfigStatus | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const model = kind === undefined ? statusModel : overrideStatusModel;
  const whole = model.safeParse(value);
  return whole.success ? whole.data : readParts(value as Record<string, unknown>, model.shape);
}

function readParts(
  value: Record<string, unknown>,
  { conditions, ...models }: (typeof statusModel | typeof overrideStatusModel)['shape'],
): ConfigStatus {
  const status: ConfigStatus = { observedGeneration: 0, conditions: [] };
  for (const [field, model] of Object.entries(models)) {
    const reading = model.safeParse(value[field]);
    if (field in value && reading.success) Object.assign(status, { [field]: reading.data });
  }
  const elements: unknown = value['conditions'];
  for (const element of Array.isArray(elements) ? elements : []) {
    const reading = conditions.element.safeParse(element);
    if (reading.success) status.conditions.push(reading.data);
  }
  return status;
}

interface ReadObject {
  item: ConfigObject;
  /** Undefined if it is not readable. In this case, every control plane reports it. */
  className: string | undefined;
  labels: Labels;
}

/** Returns the part of an object of the Kubernetes API to store. It contains no annotations, and only one time of the managed fields. */
export function readConfigObject(object: ApiObject, kind?: Kind): ReadObject | { unreadable: string } {
  const { namespace, name, uid, generation, resourceVersion, creationTimestamp = '' } = object.metadata;
  if (typeof namespace !== 'string') return { unreadable: 'it has no metadata.namespace' };
  if (typeof uid !== 'string') return { unreadable: 'it has no metadata.uid' };
  if (typeof generation !== 'number') return { unreadable: 'it has no metadata.generation' };
  const createdMs = Date.parse(creationTimestamp);
  return {
    item: {
      ...(kind && { kind }),
      namespace,
      name,
      uid,
      generation,
      createdMs: Number.isNaN(createdMs) ? 0 : createdMs,
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
      ...lastWrites(object),
      spec: object['spec'],
      status: readStatus(object['status'], kind),
    },
    className: classNameOf(object['spec']),
    labels: object.metadata.labels ?? {},
  };
}

/** Returns when anything but the status was last written, and the last writer of the status that is not a control plane of Weir. */
function lastWrites({ metadata }: ApiObject) {
  const last: Pick<ConfigObject, 'editedMs' | 'statusManager'> = {};
  let statusMs = Number.NEGATIVE_INFINITY;
  for (const { subresource = '', manager = fieldManager, time = '' } of metadata.managedFields ?? []) {
    const ms = Date.parse(time);
    if (subresource === '' && ms > (last.editedMs ?? Number.NEGATIVE_INFINITY)) last.editedMs = ms;
    if (subresource !== 'status' || manager === fieldManager || ms <= statusMs) continue;
    last.statusManager = manager;
    statusMs = ms;
  }
  return last;
}
