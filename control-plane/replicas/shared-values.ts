/**
 * Values that replicas share in ConfigMaps of the control plane's own namespace. Every replica reads all values of a role. The
 * replica that may write makes the stored values equal to the wanted ones, and retries after failures. Shutdown deletes only what
 * `remove` names, because the next process needs the other stored values.
 */
import { errorText } from '../../process/log/error-text.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { KubernetesApi } from '../kubernetes/api.ts';
import { ApiError } from '../kubernetes/api-error.ts';
import type { ApiObject, Reading } from '../kubernetes/reflector.ts';
import { ResourceWatch } from '../kubernetes/watch.ts';
import { isNewerVersion } from '../model/write-ledger.ts';
import {
  type ConfigMap,
  ConfigMapApi,
  type FoundValue,
  type StoredConfigMap,
  StoredValues,
  selectorOf,
} from './config-maps.ts';
import { PacedQueue, Pump } from './pump.ts';
import { type ObjectRole, roleLabel } from './replica-name.ts';

/** The storage format of the values of a role. Each value is in one or several ConfigMaps. */
export interface SharedFormat<Value> {
  /** Returns the key to which a ConfigMap belongs. Undefined: it is not ours. */
  keyOf(map: ConfigMap): string | undefined;
  /** Returns the ConfigMaps that make up a key's value. Undefined while some of them are missing. */
  whole?(maps: readonly StoredConfigMap[]): readonly StoredConfigMap[] | undefined;
  /** Rejects if the value cannot be read. */
  decode(maps: readonly StoredConfigMap[]): Promise<Value>;
  /** Whether the previous value stays if a value cannot be read. By default, such a value counts as not stored. */
  keepsLast?: boolean;
  /** `isWhole` is false for a value that is too large. The part that fits is stored, and the value is not tried again. */
  encode(key: string, value: Value): Promise<{ maps: readonly ConfigMap[]; isWhole: boolean }>;
  isSame(a: Value, b: Value): boolean;
}

/** The values of a role in its ConfigMaps. */
export function findValues<Value>(
  format: Pick<SharedFormat<Value>, 'keyOf' | 'whole' | 'decode' | 'keepsLast'>,
  skipped: (name: string, reason: string) => void,
): (maps: readonly StoredConfigMap[]) => FoundValue<Value>[] {
  return (maps) =>
    [...Map.groupBy(maps, (map) => format.keyOf(map))].flatMap(([key, found]) => {
      if (key === undefined) return [];
      const whole = format.whole === undefined ? found : format.whole(found);
      const decode = (before: Value | undefined): Promise<Value | undefined> =>
        format.decode(whole!).catch((error: unknown) => {
          skipped(found[0]!.name, errorText(error));
          return format.keepsLast ? before : undefined;
        });
      return [{ key, version: whole?.map(({ resourceVersion }) => resourceVersion).join(), decode }];
    });
}

export interface SharedValuesOptions<Value> {
  client: KubernetesApi;
  namespace: string;
  role: ObjectRole;
  format: SharedFormat<Value>;
  /** The minimum time between the starts of two writes. Defaults to 0. */
  intervalMs?: number;
  /** Waits after failures that nothing ends early. By default they are longer, and new values end them. */
  retry?: { firstMs: number; maxMs: number };
  /** Returns whether this process writes and deletes values with this key. By default it does for all keys. */
  owns?(key: string): boolean;
  /** Called before each request. */
  mayWrite(): boolean;
  clock: Clock;
  timers: Timers;
  random(): number;
  /** Called when all ConfigMaps were checked. `hasChanged`: whether `stored` has other values. */
  read(hasChanged: boolean): void;
  lines: {
    unreachable(reason: string): void;
    reachable(): void;
    skipped(name: string, reason: string): void;
    notStored(key: string, error: ApiError): void;
  };
}

export class SharedValues<Value> {
  readonly #options: SharedValuesOptions<Value>;
  readonly #api: ConfigMapApi;
  readonly #values: StoredValues<Value>;
  readonly #watch: ResourceWatch<StoredConfigMap>;
  readonly #loaded = Promise.withResolvers<ReadonlyMap<string, Value>>();
  #stored: ReadonlyMap<string, Value> = new Map();
  #wanted: ReadonlyMap<string, Value> | undefined;
  /** The stored values at the time when `wanted` was determined. Values that others have stored since then are not changed for now. */
  #basis: ReadonlyMap<string, Value> = new Map();
  /** Values that this process has stored, by key, and the ConfigMaps that contain them. */
  readonly #own = new Map<string, { value: Value; names: ReadonlySet<string> }>();
  /** Values by key that were written or deleted, and that the watch does not show yet. */
  readonly #written = new Map<string, Value | undefined>();
  /** Values that are too large, by key. */
  readonly #cut = new Map<string, Value>();
  readonly #pump: Pump<ReadonlyMap<string, Value>, ApiError>;
  readonly #queue: PacedQueue<ReadonlyMap<string, Value>>;
  #isLoaded = false;
  #isClosed = false;

  constructor(options: SharedValuesOptions<Value>) {
    const { client, clock, timers, random, namespace, role, format, lines, mayWrite } = options;
    const { firstMs, maxMs } = options.retry ?? { firstMs: 500, maxMs: 30_000 };
    this.#options = options;
    this.#api = new ConfigMapApi({ client, namespace, timeoutMs: 10_000 });
    this.#queue = new PacedQueue(options.clock, () => this.#wanted);
    this.#pump = new Pump({
      ...options,
      queue: this.#queue,
      concurrency: 1,
      mayRun: () => !this.#isClosed && this.#values.isRead && mayWrite(),
      attempt: () => this.#write(),
      firstRetryMs: firstMs,
      maxRetryMs: maxMs,
    });
    this.#values = new StoredValues(findValues(format, lines.skipped), (hasChanged) =>
      this.#read(hasChanged),
    );
    const changed = (): void => void this.#values.update(this.maps);
    this.#watch = new ResourceWatch<StoredConfigMap>({
      client,
      clock,
      timers,
      random,
      resource: { group: '', version: 'v1', plural: 'configmaps', namespace },
      labelSelector: selectorOf({ [roleLabel]: role }),
      read: storedConfigMap,
      listener: { ...lines, listed: changed, changed },
    });
  }

  /** Stored values by key, without values that cannot be read. */
  get stored(): ReadonlyMap<string, Value> {
    return this.#stored;
  }

  /** All ConfigMaps of the role, including unreadable ones. */
  get maps(): StoredConfigMap[] {
    return [...this.#watch.items.values()];
  }

  /** Returns whether the first complete list was read. */
  get isRead(): boolean {
    return this.#values.isRead;
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
    this.#queue.ask();
    if (isNews) this.#endWaits();
    this.#pump.wake();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([this.#watch.close(), this.#pump.close()]);
  }

  /** Deletes the ConfigMaps of a key, after `close`. Rejects if that fails. */
  remove(key: string): Promise<void> {
    return this.#delete(key);
  }

  /** Ends waits after failures, so that new values are tried at once. */
  #endWaits(): void {
    if (this.#options.retry === undefined) this.#pump.endWaits();
  }

  #read(hasChanged: boolean): void {
    if (this.#isClosed) return;
    this.#stored = this.#values.values;
    this.#written.clear();
    // Values that were stored before this process started are not new to it.
    if (!this.#isLoaded) this.#basis = this.#stored;
    this.#isLoaded = true;
    this.#options.read(hasChanged);
    this.#loaded.resolve(this.#stored);
    this.#queue.ask();
    this.#endWaits();
    this.#pump.wake();
  }

  /** Returns the last failure; undefined if everything is stored, or this process may not write any more. */
  async #write(): Promise<ApiError | undefined> {
    const { clock, intervalMs = 0 } = this.#options;
    this.#queue.begin();
    const wanted = this.#wanted;
    // No value was wanted since the last attempt.
    if (wanted === undefined) return undefined;
    const startMs = clock.monotonicMs();
    let failure: ApiError | undefined;
    for (const key of this.#surplus(wanted))
      failure = (await this.#attempt(key, () => this.#delete(key))) ?? failure;
    for (const [key, value] of wanted) {
      if (this.#isStored(key, value)) continue;
      this.#queue.pauseUntil(startMs + intervalMs);
      failure = (await this.#attempt(key, () => this.#store(key, value))) ?? failure;
    }
    for (const key of this.#cut.keys()) if (!wanted.has(key)) this.#cut.delete(key);
    return failure;
  }

  #surplus(wanted: ReadonlyMap<string, Value>): string[] {
    const { owns = () => true } = this.#options;
    const present = new Map<string, Value | undefined>([...this.#stored, ...this.#written]);
    return [...present].flatMap(([key, value]) => {
      const isSurplus = owns(key) && !wanted.has(key) && value !== undefined && !this.#isNews(key, value);
      return isSurplus ? [key] : [];
    });
  }

  #isStored(key: string, value: Value): boolean {
    const isWritten = this.#written.has(key);
    if (!isWritten && this.#isInPieces(key)) return false;
    const present = isWritten ? this.#written.get(key) : this.#stored.get(key);
    if (present !== undefined && (this.#isSame(present, value) || this.#isNews(key, present))) return true;
    return this.#isSame(this.#cut.get(key), value);
  }

  /** Returns whether some of its ConfigMaps are missing, for example because a person deleted one. */
  #isInPieces(key: string): boolean {
    const { whole, keyOf } = this.#options.format;
    return whole !== undefined && whole(this.maps.filter((map) => keyOf(map) === key)) === undefined;
  }

  #isNews(key: string, present: Value): boolean {
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
    const { format, role } = this.#options;
    const { maps, isWhole } = await format.encode(key, value);
    if (!isWhole) this.#cut.set(key, value);
    const versions = new Map<string, string>();
    for (const map of maps) versions.set(map.name, await this.#api.apply(map, role));
    if (maps.length === 0) return;
    const names: ReadonlySet<string> = new Set(versions.keys());
    for (const name of this.#namesOf(key)) if (!names.has(name)) await this.#api.delete(name);
    // The watch will not show such a write again, so the value counts as stored only if the watch says so.
    const isReplaced = [...versions].some(([name, version]) => this.#isReplaced(name, version));
    if (!isReplaced) this.#written.set(key, value);
    this.#own.set(key, { value, names });
  }

  /** Returns whether the watch shows that a ConfigMap was changed or deleted after it had this version. */
  #isReplaced(name: string, version: string): boolean {
    const shown = this.maps.find((map) => map.name === name)?.resourceVersion ?? this.#watch.resourceVersion;
    return shown !== undefined && isNewerVersion(shown, version);
  }

  async #delete(key: string): Promise<void> {
    for (const name of this.#namesOf(key)) await this.#api.delete(name);
    this.#written.set(key, undefined);
    this.#own.delete(key);
  }

  /** Returns the names of the key's ConfigMaps, the last part first. The watch may not show those of this process yet. */
  #namesOf(key: string): string[] {
    const shown = this.maps.filter((map) => this.#options.format.keyOf(map) === key);
    const names = new Set([...shown.map(({ name }) => name), ...(this.#own.get(key)?.names ?? [])]);
    return [...names].sort((a, b) => b.localeCompare(a, 'en', { numeric: true }));
  }

  #isSameMap(a: ReadonlyMap<string, Value> | undefined, b: ReadonlyMap<string, Value>): boolean {
    return a?.size === b.size && [...b].every(([key, value]) => this.#isSame(a.get(key), value));
  }

  #isSame(a: Value | undefined, b: Value): boolean {
    return a !== undefined && this.#options.format.isSame(a, b);
  }
}

function storedConfigMap({ metadata, data, binaryData }: ApiObject): Reading<StoredConfigMap> {
  const { name, resourceVersion = '', ownerReferences = [] } = metadata;
  return {
    item: {
      name,
      resourceVersion,
      owner: ownerReferences[0],
      data: (data ?? {}) as ConfigMap['data'],
      binaryData: (binaryData ?? {}) as ConfigMap['binaryData'],
    },
  };
}
