/**
 * Values that replicas share in ConfigMaps of the control plane's own namespace. Every replica reads all values of a role. The
 * replica that may write makes the stored values equal to the wanted ones, and retries after failures. Shutdown deletes only what
 * `remove` names, because the next process needs the other stored values.
 */
import { errorText } from '../../process/log/error-text.ts';
import { Pump } from '../../process/queues/pump.ts';
import type { ProcessTime } from '../../process/time/clock.ts';
import { ApiError, type KubernetesApi } from '../kubernetes/api.ts';
import { ResourceWatch } from '../kubernetes/watch.ts';
import type { ApiObject, Reading } from '../kubernetes/watch-protocol.ts';
import { isNewerVersion } from '../model/write-ledger.ts';
import {
  type Codec,
  type ConfigMap,
  ConfigMapApi,
  completeParts,
  firstName,
  jsonOfParts,
  newRevision,
  type ObjectRole,
  type Owner,
  roleLabel,
  type StoredConfigMap,
  selectorOf,
  splitJson,
} from './own-objects.ts';

/** The storage format of the values of a role: a JSON text for each value. */
export interface SharedFormat<Value> {
  /** The beginning of the names of all ConfigMaps. The key of the value follows, which has no dots. */
  prefix: string;
  /** The name of the text in a ConfigMap. */
  file: string;
  write(value: Value): string;
  /** Throws if the JSON is not a value. */
  read(json: unknown, key: string): Value;
  /** Returns the object with which the value is deleted. */
  ownerOf?(value: Value): Owner | undefined;
  /** Whether the previous value stays if a value cannot be read. By default, such a value counts as not stored. */
  keepsLast?: boolean;
  isSame(a: Value, b: Value): boolean;
}

export interface SharedValuesParts extends ProcessTime {
  client: KubernetesApi;
  /** The namespace of the ConfigMaps. */
  namespace: string;
  codec: Codec;
  random(): number;
}

export interface SharedValuesOptions<Value> extends SharedValuesParts {
  role: ObjectRole;
  format: SharedFormat<Value>;
  /** The maximum size of one ConfigMap. Defaults to the limit of the API server. */
  maxPartBytes?: number | undefined;
  /** The minimum time between the starts of two writes. Defaults to 0. */
  intervalMs?: number;
  /** Waits after failures that nothing ends early. By default they are longer, and new values end them. */
  retry?: { firstMs: number; maxMs: number };
  /** Returns whether this process writes and deletes values with this key. By default it does for all keys. */
  owns?(key: string): boolean;
  /** Called before each request. */
  mayWrite(): boolean;
  /** Called when all ConfigMaps were checked. `hasChanged`: whether `stored` has other values. */
  read(hasChanged: boolean): void;
  lines: {
    unreachable(reason: string): void;
    reachable(): void;
    skipped(name: string, reason: string): void;
    notStored(key: string, error: ApiError): void;
  };
}

/** The last content of a key's ConfigMaps. */
interface ReadValue<Value> {
  /** The versions of the ConfigMaps. Each content is read once. */
  version: string;
  /** Undefined if it cannot be read. */
  value: Value | undefined;
}

/** A value that this process has stored, the ConfigMaps that contain it, and their versions. */
interface OwnValue<Value> {
  value: Value;
  version: string;
  names: ReadonlySet<string>;
}

export class SharedValues<Value> {
  readonly #options: SharedValuesOptions<Value>;
  readonly #api: ConfigMapApi;
  readonly #watch: ResourceWatch<StoredConfigMap>;
  readonly #loaded = Promise.withResolvers<ReadonlyMap<string, Value>>();
  #maps: ReadonlyMap<string, readonly StoredConfigMap[]> = new Map();
  readonly #read = new Map<string, ReadValue<Value>>();
  /** Whether ConfigMaps have changed since they were checked. */
  #isBehind = false;
  #isReading = false;
  #stored: ReadonlyMap<string, Value> = new Map();
  #wanted: ReadonlyMap<string, Value> | undefined;
  /** The stored values at the time when `wanted` was determined. Values that others have stored since then are not changed for now. */
  #basis: ReadonlyMap<string, Value> = new Map();
  readonly #own = new Map<string, OwnValue<Value>>();
  /** Values by key that were written or deleted, and that the watch does not show yet. */
  readonly #written = new Map<string, Value | undefined>();
  readonly #pump: Pump<ReadonlyMap<string, Value>, ApiError>;
  /** Whether the stored values may differ from the wanted ones. */
  #isDue = false;
  #notBeforeMs = Number.NEGATIVE_INFINITY;
  #isLoaded = false;
  #isClosed = false;

  constructor(options: SharedValuesOptions<Value>) {
    const { client, clock, timers, random, namespace, role, lines, mayWrite } = options;
    const { firstMs, maxMs } = options.retry ?? { firstMs: 500, maxMs: 30_000 };
    this.#options = options;
    this.#api = new ConfigMapApi({ client, namespace, timeoutMs: 10_000 });
    this.#pump = new Pump({
      ...options,
      queue: {
        next: () => (this.#nextDueMs() === 0 ? this.#wanted : undefined),
        nextDueMs: () => this.#nextDueMs(),
      },
      concurrency: 1,
      mayRun: () => !this.#isClosed && this.#isLoaded && mayWrite(),
      attempt: () => this.#write(),
      firstRetryMs: firstMs,
      maxRetryMs: maxMs,
    });
    this.#watch = new ResourceWatch<StoredConfigMap>({
      client,
      clock,
      timers,
      random,
      resource: { group: '', version: 'v1', plural: 'configmaps', namespace },
      labelSelector: selectorOf({ [roleLabel]: role }),
      read: storedConfigMap,
      listener: { ...lines, changed: () => void this.#changed() },
    });
  }

  /** Stored values by key, without values that cannot be read. */
  get stored(): ReadonlyMap<string, Value> {
    return this.#stored;
  }

  /** The ConfigMaps by key, including unreadable ones. */
  get maps(): ReadonlyMap<string, readonly StoredConfigMap[]> {
    return this.#maps;
  }

  /** Returns whether the first complete list was read. */
  get isRead(): boolean {
    return this.#isLoaded;
  }

  /** Starts to watch. Settles with the complete list, even if the API server is unreachable for long. */
  load(): Promise<ReadonlyMap<string, Value>> {
    this.#watch.start();
    return this.#loaded.promise;
  }

  /** Sets the values to store, by key. All others are deleted. Undefined: nothing is changed. */
  sync(wanted: ReadonlyMap<string, Value> | undefined): void {
    const isNews = wanted !== undefined && !this.#isSameMap(this.#wanted, wanted);
    this.#wanted = wanted;
    this.#basis = this.#stored;
    this.#ask(isNews);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([this.#watch.close(), this.#pump.close()]);
  }

  /** Deletes the ConfigMaps of a key, after `close`. Rejects if that fails. */
  async remove(key: string): Promise<void> {
    for (const name of this.#namesOf(key)) await this.#api.delete(name);
    this.#written.set(key, undefined);
    this.#own.delete(key);
  }

  /** `isNews` ends waits after failures, so that new values are tried at once. */
  #ask(isNews: boolean): void {
    this.#isDue = true;
    if (isNews && this.#options.retry === undefined) this.#pump.endWaits();
    this.#pump.wake();
  }

  #nextDueMs(): number | undefined {
    if (!this.#isDue || this.#wanted === undefined) return undefined;
    return Math.max(0, Math.ceil(this.#notBeforeMs - this.#options.clock.monotonicMs()));
  }

  /** Reads the ConfigMaps that have changed. It reads changes that arrive meanwhile afterward. Never rejects. */
  async #changed(): Promise<void> {
    const { prefix } = this.#options.format;
    const ours = [...this.#watch.items.values()].filter(({ name }) => name.startsWith(prefix));
    this.#maps = Map.groupBy(ours, ({ name }) => firstName(name.slice(prefix.length)));
    this.#isBehind = true;
    if (this.#isReading) return;
    this.#isReading = true;
    while (this.#isBehind) {
      this.#isBehind = false;
      const { maps } = this;
      let hasChanged = false;
      for (const key of this.#read.keys()) if (!maps.has(key)) hasChanged = this.#read.delete(key);
      for (const [key, found] of maps) if (await this.#readValue(key, found)) hasChanged = true;
      this.#show(hasChanged);
    }
    this.#isReading = false;
  }

  /** Returns whether the value has changed. An incomplete value changes nothing. */
  async #readValue(key: string, maps: readonly StoredConfigMap[]): Promise<boolean> {
    const { format, codec, lines } = this.#options;
    const parts = completeParts(maps);
    const version = parts?.map(({ resourceVersion }) => resourceVersion).join();
    const before = this.#read.get(key);
    if (parts === undefined || version === undefined || version === before?.version) return false;
    const read = { version, value: before?.value };
    this.#read.set(key, read);
    const own = this.#own.get(key);
    try {
      read.value =
        own?.version === version ? own.value : format.read(await jsonOfParts(parts, format.file, codec), key);
    } catch (error) {
      lines.skipped(maps[0]!.name, errorText(error));
      if (!format.keepsLast) read.value = undefined;
    }
    return read.value !== before?.value;
  }

  #show(hasChanged: boolean): void {
    if (this.#isClosed) return;
    this.#stored = new Map(
      [...this.#read].flatMap(([key, { value }]) => (value === undefined ? [] : [[key, value] as const])),
    );
    this.#written.clear();
    // Values that were stored before this process started are not new to it.
    if (!this.#isLoaded) this.#basis = this.#stored;
    this.#isLoaded = true;
    this.#options.read(hasChanged);
    this.#loaded.resolve(this.#stored);
    this.#ask(true);
  }

  /** Returns the last failure; undefined if everything is stored, or this process may not write any more. */
  async #write(): Promise<ApiError | undefined> {
    const { clock, intervalMs = 0 } = this.#options;
    this.#isDue = false;
    const wanted = this.#wanted;
    // No value was wanted since the last attempt.
    if (wanted === undefined) return undefined;
    const startMs = clock.monotonicMs();
    let failure: ApiError | undefined;
    for (const key of this.#surplus(wanted))
      failure = (await this.#attempt(key, () => this.remove(key))) ?? failure;
    for (const [key, value] of wanted) {
      if (this.#isStored(key, value)) continue;
      this.#notBeforeMs = startMs + intervalMs;
      failure = (await this.#attempt(key, () => this.#store(key, value))) ?? failure;
    }
    return failure;
  }

  #surplus(wanted: ReadonlyMap<string, Value>): string[] {
    const { owns = () => true } = this.#options;
    return [...new Set([...this.#stored.keys(), ...this.#written.keys()])].filter((key) => {
      const present = this.#present(key);
      return owns(key) && !wanted.has(key) && present !== undefined && !this.#isNews(key, present);
    });
  }

  #isStored(key: string, value: Value): boolean {
    if (!this.#written.has(key) && completeParts(this.maps.get(key) ?? []) === undefined) return false;
    const present = this.#present(key);
    return present !== undefined && (this.#isSame(present, value) || this.#isNews(key, present));
  }

  /** Returns the value that is stored, as far as this process knows. */
  #present(key: string): Value | undefined {
    if (this.#written.has(key)) return this.#written.get(key);
    const own = this.#own.get(key);
    return own !== undefined && own.version === this.#read.get(key)?.version
      ? own.value
      : this.#stored.get(key);
  }

  /** Returns whether another process stored the value since the last `sync`. Only this process writes the keys that it owns. */
  #isNews(key: string, present: Value): boolean {
    if (this.#options.owns?.(key) === true) return false;
    return !this.#isSame(this.#basis.get(key), present) && !this.#isSame(this.#own.get(key)?.value, present);
  }

  /** Does nothing if this process may no longer write. */
  async #attempt(key: string, write: () => Promise<void>): Promise<ApiError | undefined> {
    if (!this.#options.mayWrite()) return undefined;
    try {
      await write();
      return undefined;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.#options.lines.notStored(key, error);
      return error;
    }
  }

  async #store(key: string, value: Value): Promise<void> {
    const { format, role, clock, random } = this.#options;
    const maps = await splitJson({
      ...this.#options,
      name: `${format.prefix}${key}`,
      file: format.file,
      json: format.write(value),
      revision: newRevision(clock, random),
      owner: format.ownerOf?.(value),
    });
    const versions = new Map<string, string>();
    for (const map of maps) versions.set(map.name, await this.#api.apply(map, role));
    for (const name of this.#namesOf(key)) if (!versions.has(name)) await this.#api.delete(name);
    // The watch will not show such a write again, so the value counts as stored only if the watch says so.
    const isReplaced = [...versions].some(([name, version]) => this.#isReplaced(name, version));
    if (!isReplaced) this.#written.set(key, value);
    const version = [...versions.values()].join();
    this.#own.set(key, { value, version, names: new Set(versions.keys()) });
  }

  /** Returns whether the watch shows that a ConfigMap was changed or deleted after it had this version. */
  #isReplaced(name: string, version: string): boolean {
    const { items, resourceVersion } = this.#watch;
    const shown = items.get(`${this.#options.namespace}/${name}`)?.resourceVersion ?? resourceVersion;
    return shown !== undefined && isNewerVersion(shown, version);
  }

  /** Returns the names of the key's ConfigMaps, the last part first. The watch may not show those of this process yet. */
  #namesOf(key: string): string[] {
    const shown = (this.maps.get(key) ?? []).map(({ name }) => name);
    const names = new Set([...shown, ...(this.#own.get(key)?.names ?? [])]);
    return [...names].sort((a, b) => b.localeCompare(a, 'en', { numeric: true }));
  }

  #isSameMap(a: ReadonlyMap<string, Value> | undefined, b: ReadonlyMap<string, Value>): boolean {
    return a?.size === b.size && [...b].every(([key, value]) => this.#isSame(a.get(key), value));
  }

  #isSame(a: Value | undefined, b: Value): boolean {
    return a === b || (a !== undefined && this.#options.format.isSame(a, b));
  }
}

function storedConfigMap({ metadata, data, binaryData }: ApiObject): Reading<StoredConfigMap> {
  const { name, resourceVersion = '' } = metadata;
  return {
    item: {
      name,
      resourceVersion,
      data: (data ?? {}) as ConfigMap['data'],
      binaryData: (binaryData ?? {}) as ConfigMap['binaryData'],
    },
  };
}
