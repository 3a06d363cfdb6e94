import type { Clock, Timers } from '../../process/time/clock.ts';
import { group, overrideKind, version } from '../../rules/language/kinds.ts';
import { classNameOf } from '../../rules/reader/read-spec.ts';
import type { KubernetesApi } from '../kubernetes/api.ts';
import type { ApiObject, Reading } from '../kubernetes/reflector.ts';
import { ResourceWatch, type WatchLimits, type WatchListener } from '../kubernetes/watch.ts';
import { type ConfigObject, type ConfigStatus, kindOf } from '../model/config-object.ts';
import { overrideStatusModel, statusModel } from '../model/object-models.ts';
import { VersionedMap } from '../model/versioned-map.ts';
import type { WriteLedger } from '../model/write-ledger.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';
import { type LabelSelector, type Labels, parseLabelSelector } from './label-selector.ts';

/** Where RateLimitConfigs and RateLimitOverrides come from. */
export interface ObjectSource {
  /** Throws when the place cannot be watched at all; a server that is away is an outage instead. */
  start(listener: SourceListener): void | Promise<void>;
  /** Keyed by uid, as last known. Another map once an object has changed. Empty before the first complete list. */
  readonly objects: ReadonlyMap<string, ConfigObject>;
  /** The objects that are no longer ours, by class or labels, while their status still has the name of this control plane. */
  left(): readonly ConfigObject[];
  /** Returns whether the object exists no longer, also not as one that is not ours. */
  isGone(object: ConfigObject): boolean;
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
  /** Called when `objects` may be older than what the place has by now, and when it no longer is. */
  cutOff(isCutOff: boolean): void;
}

export interface KubernetesSourceOptions extends Telemetry {
  client: KubernetesApi;
  /** WATCH_NAMESPACES, one watch each; empty: all namespaces, by one watch. */
  namespaces: readonly string[];
  /** CLASS_NAME: objects of other classes are those of other control planes. */
  className: string;
  /** LABEL_SELECTOR; empty: all objects of the class. */
  labelSelector: string;
  /** The `controllerName` in statuses of this control plane. */
  controllerName: string;
  /** Own status writes were decided here, so they are no reason to decide anew. */
  writes: WriteLedger<ConfigObject>;
  clock: Clock;
  timers: Timers;
  /** 0 <= x < 1: for waits. */
  random(): number;
  limits?: Partial<WatchLimits>;
}

type Kind = ConfigObject['kind'];

/** `fieldManager` of status writes: see `serverSideApply`. */
const ownManager = 'weir-control-plane';

/** An object, and whether class and labels say that it is ours. The spec of one that is not is not kept. */
interface Seen {
  object: ConfigObject;
  isOurs: boolean;
}

/**
 * The RateLimitConfigs and RateLimitOverrides of a Kubernetes cluster. All of the watched namespaces are asked for; class and labels are
 * looked at here, since the server would report an object that leaves them as of a deleted one.
 */
export class KubernetesSource implements ObjectSource {
  readonly #options: KubernetesSourceOptions;
  readonly #selects: LabelSelector;
  /** Keyed by `watchKey`. */
  #watches: ReadonlyMap<string, ResourceWatch<Seen>> = new Map();
  /** All by uid. */
  #objects = VersionedMap.of<ConfigObject>();
  /** The changes that `objects` does not show yet. */
  #changes = new Map<string, ConfigObject | undefined>();
  readonly #left = new Map<string, ConfigObject>();
  #listener: SourceListener | undefined;
  /** Watches that had their first list. */
  #listed = 0;
  /** Watches that are in an outage, and what was reported about the outage they share. */
  #out = 0;
  /** Watches whose right to watch is not known. */
  #doubtful = 0;
  readonly #reported = new Set<string>();

  /** Throws when the label selector is none; the settings refuse it before. */
  constructor(options: KubernetesSourceOptions) {
    this.#options = options;
    const parsed = parseLabelSelector(options.labelSelector);
    if ('problem' in parsed) throw new Error(`LABEL_SELECTOR: ${parsed.problem}`);
    this.#selects = parsed.selects;
  }

  start(listener: SourceListener): void {
    const { namespaces } = this.#options;
    this.#listener = listener;
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

  left(): readonly ConfigObject[] {
    return this.#isListed ? [...this.#left.values()] : [];
  }

  /** One that is not stored yet, as `objects` would have it; undefined: it would not, by namespace, class or labels. */
  foreseen(object: ApiObject, kind?: Kind): Reading<ConfigObject> | undefined {
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
    this.#listener = undefined;
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

  /**
   * Returns whether it is news. A change is news at once if it changes the generation of our object, or makes an object ours
   * or no longer ours, even if another process writes a status meanwhile. Changes to other objects are no news.
   */
  #shown(now: Seen | undefined, before: Seen | undefined): boolean {
    if (now === before) return false;
    const { writes } = this.#options;
    const isSame = before?.object.uid === now?.object.uid;
    if (before !== undefined && !isSame) {
      writes.forget(before.object.uid);
      this.#put(before.object, undefined);
    }
    if (now !== undefined)
      this.#put(now.object, now.isOurs ? 'ours' : this.#isLeft(now) ? 'left' : undefined);
    if (![before, now].some((seen) => seen?.isOurs || (seen && this.#isLeft(seen)))) return false;
    const isOther = !isSame || before?.isOurs !== now?.isOurs;
    if (!now || isOther || before?.object.generation !== now.object.generation) return true;
    const isOwn = writes.isOwn(now.object);
    if (isOwn) this.#listener?.statusShown();
    return !isOwn;
  }

  /**
   * Joins the watches: all have to be listed, and one that is out is an outage. Each has a listener of its own. Where the
   * definition of overrides is not installed yet there are none.
   */
  #listenerOf(listener: SourceListener, kind: Kind): WatchListener {
    const { log, metrics } = this.#options;
    let isOut = false;
    let hasCounted = false;
    const counted = (): void => {
      if (hasCounted) {
        if (this.#isListed) listener.changed();
        return;
      }
      hasCounted = true;
      this.#listed++;
      if (!this.#isListed) return;
      metrics.sourceConnected();
      lines.sourceListed(log, this.objects.size);
      listener.listed();
    };
    return {
      listed: counted,
      changed: () => {
        if (this.#isListed) listener.changed();
      },
      unreachable: (reason, status) => {
        if (kind !== undefined && status === 404) {
          if (!hasCounted) lines.overridesUnknown(log, reason);
          if (!hasCounted) counted();
          return;
        }
        if (!isOut) this.#out++;
        isOut = true;
        listener.cutOff(true);
        if (this.#reported.has(reason)) return;
        this.#reported.add(reason);
        metrics.sourceLost();
        lines.sourceUnreachable(log, reason, this.#isListed);
      },
      reachable: () => {
        if (!isOut) return;
        isOut = false;
        this.#out--;
        if (this.#out > 0) return;
        this.#reported.clear();
        metrics.sourceConnected();
        lines.sourceReachable(log);
        if (this.#doubtful === 0) listener.cutOff(false);
      },
      doubtful: (isDoubtful) => {
        this.#doubtful += isDoubtful ? 1 : -1;
        if (isDoubtful || this.#out + this.#doubtful === 0) listener.cutOff(isDoubtful);
      },
      skipped: (object, reason) => {
        metrics.all.sourceSkipped.inc();
        lines.objectSkipped(log, kindOf({ kind }).kind, object, reason);
      },
    };
  }
}

/**
 * The status of an object as far as it can be read: another version of this project may have written it, or a person.
 * Undefined when there is none.
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
  /** Undefined when it is not readable: then every control plane says so. */
  className: string | undefined;
  labels: Labels;
}

/** Returns the part of an object of the Kubernetes API to store: no annotations, and only a time of managed fields. */
export function readConfigObject(object: ApiObject, kind?: Kind): ReadObject | { unreadable: string } {
  const { namespace, name, uid, generation, resourceVersion, creationTimestamp = '' } = object.metadata;
  if (typeof namespace !== 'string') return { unreadable: 'it has no metadata.namespace' };
  if (typeof uid !== 'string') return { unreadable: 'it has no metadata.uid' };
  if (typeof generation !== 'number') return { unreadable: 'it has no metadata.generation' };
  const createdMs = Date.parse(creationTimestamp);
  const editedMs = timeOfEdit(object);
  const statusManager = managerOfStatus(object);
  return {
    item: {
      ...(kind && { kind }),
      namespace,
      name,
      uid,
      generation,
      createdMs: Number.isNaN(createdMs) ? 0 : createdMs,
      ...(editedMs === undefined ? {} : { editedMs }),
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
      ...(statusManager === undefined ? {} : { statusManager }),
      spec: object['spec'],
      status: readStatus(object['status'], kind),
    },
    className: classNameOf(object['spec']),
    labels: object.metadata.labels ?? {},
  };
}

/** The newest write of all managers that was not one of the status. */
function timeOfEdit({ metadata: { managedFields = [] } }: ApiObject): number | undefined {
  const times = managedFields
    .filter(({ subresource }) => subresource === undefined || subresource === '')
    .map(({ time = '' }) => Date.parse(time))
    .filter((time) => !Number.isNaN(time));
  return times.length === 0 ? undefined : Math.max(...times);
}

/** The newest of those that are no control plane of ours. */
function managerOfStatus({ metadata: { managedFields = [] } }: ApiObject): string | undefined {
  const writers = managedFields.filter(
    ({ subresource, manager }) => subresource === 'status' && manager !== undefined && manager !== ownManager,
  );
  const newest = writers.sort((a, b) => Date.parse(b.time ?? '') - Date.parse(a.time ?? ''))[0];
  return newest?.manager;
}

function watchKey(kind: Kind, namespace = '*'): string {
  return `${kindOf({ kind }).plural} ${namespace}`;
}
