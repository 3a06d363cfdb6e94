/** ConfigMaps of the control plane's namespace: how they are written and watched, and the values that they hold. */
import type { KubernetesClient } from '../kubernetes/client.ts';
import { ResourceWatch, type ResourceWatchOptions } from '../kubernetes/watch.ts';
import { deleteObject } from './leases.ts';
import { managedLabels, type ObjectRole, serverSideApply } from './replica-name.ts';

export interface ConfigMapApiOptions {
  client: KubernetesClient;
  namespace: string;
  /** Of one request. */
  timeoutMs: number;
}

/** The object whose deletion deletes the ConfigMap. */
export interface Owner {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
}

/** ConfigMaps of one namespace, each of which one process writes at a time, by server-side apply. */
export class ConfigMapApi {
  readonly #options: ConfigMapApiOptions;

  constructor(options: ConfigMapApiOptions) {
    this.#options = options;
  }

  /** Makes the ConfigMap hold this and nothing else. */
  async apply(map: ConfigMap, options: { role: ObjectRole; owner?: Owner }): Promise<void> {
    const { client, namespace, timeoutMs } = this.#options;
    const { role, owner } = options;
    await client.request({
      ...serverSideApply,
      path: this.#path(map.name),
      timeoutMs,
      body: {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: {
          name: map.name,
          namespace,
          labels: managedLabels(role),
          ...(owner === undefined ? {} : { ownerReferences: [owner] }),
        },
        data: map.data,
        binaryData: map.binaryData,
      },
    });
  }

  /** See `deleteObject`. */
  delete(name: string, resourceVersion?: string): Promise<void> {
    const { client, timeoutMs } = this.#options;
    return deleteObject(client, { path: this.#path(name), timeoutMs, resourceVersion });
  }

  #path(name: string): string {
    return `/api/v1/namespaces/${this.#options.namespace}/configmaps/${name}`;
  }
}

/** A ConfigMap, as far as reports and kept specs need it. */
export interface ConfigMap {
  name: string;
  data: Readonly<Record<string, string>>;
  /** In base64. */
  binaryData: Readonly<Record<string, string>>;
}

/** As a watch brings it. */
export interface StoredConfigMap extends ConfigMap {
  resourceVersion: string;
}

/** The most bytes of one ConfigMap's values, before base64: the API server refuses more than 1 MiB, keys included. */
export const maxConfigMapBytes = 1_000_000;

/** What one ConfigMap holds, or several together. */
export interface FoundValue<Value> {
  key: string;
  /** Another one for every value that is ever stored under the key; undefined while some part of it is missing. */
  version: string | undefined;
  /** Never rejects. Undefined: there is no readable value; what it gives in place of one may be the one before. */
  decode(before: Value | undefined): Promise<Value | undefined>;
}

/** The values that ConfigMaps hold; each is decoded once for every version of it. */
export class StoredValues<Stored extends ConfigMap, Value> {
  readonly #find: (maps: readonly Stored[]) => Iterable<FoundValue<Value>>;
  readonly #read: (hasChanged: boolean) => void;
  readonly #values = new Map<string, Value | undefined>();
  /** What was decoded last, or could not be. */
  readonly #versions = new Map<string, string>();
  #newest: readonly Stored[] | undefined;
  #running: Promise<void> | undefined;
  #isRead = false;

  /** `read` is called when all ConfigMaps were looked at, whether some value `hasChanged` or not. */
  constructor(
    find: (maps: readonly Stored[]) => Iterable<FoundValue<Value>>,
    read: (hasChanged: boolean) => void,
  ) {
    this.#find = find;
    this.#read = read;
  }

  get values(): Value[] {
    return [...this.#values.values()].filter((value) => value !== undefined);
  }

  /** Whether the values are those of ConfigMaps that were there, all of them, a moment ago. */
  get isRead(): boolean {
    return this.#isRead;
  }

  /** Settles when these, or newer ones, are decoded. */
  update(maps: readonly Stored[]): Promise<void> {
    this.#newest = maps;
    this.#running ??= this.#decode().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #decode(): Promise<void> {
    while (this.#newest !== undefined) {
      const found = [...this.#find(this.#newest)];
      this.#newest = undefined;
      let hasChanged = this.#removeAllBut(new Set(found.map(({ key }) => key)));
      for (const value of found) if (await this.#decodeOne(value)) hasChanged = true;
      this.#isRead = true;
      this.#read(hasChanged);
    }
  }

  #removeAllBut(present: ReadonlySet<string>): boolean {
    const gone = [...this.#versions.keys()].filter((key) => !present.has(key));
    for (const key of gone) {
      this.#versions.delete(key);
      this.#values.delete(key);
    }
    return gone.length > 0;
  }

  async #decodeOne({ key, version, decode }: FoundValue<Value>): Promise<boolean> {
    if (version === undefined || version === this.#versions.get(key)) return false;
    this.#versions.set(key, version);
    const before = this.#values.get(key);
    const value = await decode(before);
    this.#values.set(key, value);
    return value !== before;
  }
}

export interface WatchedValuesOptions<Value>
  extends Pick<ResourceWatchOptions<StoredConfigMap>, 'client' | 'clock' | 'timers' | 'random'> {
  namespace: string;
  /** Of the ConfigMaps. */
  labels: Readonly<Record<string, string>>;
  find(maps: readonly StoredConfigMap[]): Iterable<FoundValue<Value>>;
  read(hasChanged: boolean): void;
  unreachable(reason: string): void;
  reachable(): void;
  skipped(key: string, reason: string): void;
}

/** The values of all ConfigMaps with certain labels, kept up to date from `start` to `close`. */
export class WatchedValues<Value> extends StoredValues<StoredConfigMap, Value> {
  readonly #watch: ResourceWatch<StoredConfigMap>;

  constructor(options: WatchedValuesOptions<Value>) {
    super(options.find, options.read);
    const changed = (): void => void this.update(this.maps);
    this.#watch = new ResourceWatch<StoredConfigMap>({
      client: options.client,
      clock: options.clock,
      timers: options.timers,
      random: options.random,
      resource: { group: '', version: 'v1', plural: 'configmaps', namespace: options.namespace },
      labelSelector: selectorOf(options.labels),
      read: ({ metadata: { name, resourceVersion = '' }, data, binaryData }) => ({
        item: {
          name,
          resourceVersion,
          data: (data ?? {}) as ConfigMap['data'],
          binaryData: (binaryData ?? {}) as ConfigMap['binaryData'],
        },
      }),
      listener: {
        listed: changed,
        changed,
        unreachable: options.unreachable,
        reachable: options.reachable,
        skipped: options.skipped,
      },
    });
  }

  get maps(): StoredConfigMap[] {
    return [...this.#watch.items.values()];
  }

  start(): void {
    this.#watch.start();
  }

  close(): Promise<void> {
    return this.#watch.close();
  }
}

export function selectorOf(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
}
