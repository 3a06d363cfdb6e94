/**
 * Values that replicas share, in ConfigMaps of the control plane's own namespace: every replica reads all values of a role, and
 * who may write makes what is stored the same as what is wanted, soon and again after failures. Nothing is deleted at the end:
 * what is stored is for the next process.
 */
import { errorText } from '../../process/log/error-text.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { KubernetesApi } from '../kubernetes/api.ts';
import { ApiError } from '../kubernetes/api-error.ts';
import { type ConfigMap, ConfigMapApi, type StoredConfigMap, WatchedValues } from './config-maps.ts';
import { Pump } from './pump.ts';
import { type ObjectRole, roleLabel } from './replica-name.ts';

/** How the values of a role stand in ConfigMaps, one or several for each. */
export interface SharedFormat<Value> {
  /** Whose part a ConfigMap is; undefined: it is none of ours. */
  keyOf(map: ConfigMap): string | undefined;
  /** Which of a key's ConfigMaps make up its value; undefined while some of them are missing. */
  whole?(maps: readonly StoredConfigMap[]): readonly StoredConfigMap[] | undefined;
  /** Rejects what cannot be read: it counts as not stored. */
  decode(maps: readonly StoredConfigMap[]): Promise<Value>;
  /** `isWhole` is false for a value that has no room: what of it has room is stored, and it is not tried again. */
  encode(key: string, value: Value): Promise<{ maps: readonly ConfigMap[]; isWhole: boolean }>;
  isSame(a: Value, b: Value): boolean;
}

export interface SharedValuesOptions<Value> {
  client: KubernetesApi;
  namespace: string;
  role: ObjectRole;
  format: SharedFormat<Value>;
  /** Between the starts of two writes. Missing: none is waited for. */
  intervalMs?: number;
  /** Asked before each request. */
  mayWrite(): boolean;
  clock: Clock;
  timers: Timers;
  random(): number;
  /** `stored` is another one, or was read for the first time. */
  read(): void;
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
  readonly #values: WatchedValues<[key: string, value: Value]>;
  readonly #loaded = Promise.withResolvers<ReadonlyMap<string, Value>>();
  #stored: ReadonlyMap<string, Value> = new Map();
  #wanted: ReadonlyMap<string, Value> | undefined;
  /** What was stored when `wanted` was made up: what others stored since may be news to whoever wants, and stays for now. */
  #basis: ReadonlyMap<string, Value> = new Map();
  /** By key: what this process stored, and in which ConfigMaps. */
  readonly #own = new Map<string, { value: Value; names: ReadonlySet<string> }>();
  /** By key: what was written or deleted, while the watch does not show it yet. */
  readonly #written = new Map<string, Value | undefined>();
  /** By key: what has no room. */
  readonly #cut = new Map<string, Value>();
  readonly #pump: Pump<ReadonlyMap<string, Value>, ApiError>;
  /** What is stored may differ from what is wanted. */
  #isDue = false;
  #notBeforeMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor(options: SharedValuesOptions<Value>) {
    const { client, namespace, role, lines, mayWrite } = options;
    this.#options = options;
    this.#api = new ConfigMapApi({ client, namespace, timeoutMs: 10_000 });
    this.#pump = new Pump({
      ...options,
      queue: {
        next: () => (this.#dueMs() === 0 ? this.#wanted : undefined),
        nextDueMs: () => this.#dueMs(),
      },
      concurrency: 1,
      mayRun: () => !this.#isClosed && this.#values.isRead && mayWrite(),
      attempt: () => this.#write(),
      firstRetryMs: 500,
      mostRetryMs: 30_000,
    });
    this.#values = new WatchedValues({
      ...options,
      ...lines,
      labels: { [roleLabel]: role },
      find: (maps) => this.#find(maps),
      read: () => this.#read(),
    });
  }

  /** By key. What cannot be read is not among them. */
  get stored(): ReadonlyMap<string, Value> {
    return this.#stored;
  }

  /** How many ConfigMaps of the role there are, whatever they hold. */
  get mapCount(): number {
    return this.#values.maps.length;
  }

  /** Begins to watch; settles with the complete list, however long the API server is away. */
  load(): Promise<ReadonlyMap<string, Value>> {
    this.#values.start();
    return this.#loaded.promise;
  }

  /** What should be stored, by key, and nothing else; undefined: whatever there is. */
  sync(wanted: ReadonlyMap<string, Value> | undefined): void {
    const isNews = wanted !== undefined && !this.#isSameMap(this.#wanted, wanted);
    this.#wanted = wanted;
    this.#basis = this.#stored;
    this.#isDue = wanted !== undefined;
    // Something else is tried at once, whatever wait a failure has brought.
    if (isNews) this.#pump.endWaits();
    this.#pump.wake();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([this.#values.close(), this.#pump.close()]);
  }

  #find(maps: readonly StoredConfigMap[]) {
    const { format, lines } = this.#options;
    const byKey = Map.groupBy(maps, (map) => format.keyOf(map));
    return [...byKey].flatMap(([key, found]) => {
      if (key === undefined) return [];
      const whole = format.whole === undefined ? found : format.whole(found);
      const decode = async (): Promise<[string, Value] | undefined> => {
        try {
          return [key, await format.decode(whole!)];
        } catch (error) {
          lines.skipped(found[0]!.name, errorText(error));
          return undefined;
        }
      };
      return [{ key, version: whole?.map(({ resourceVersion }) => resourceVersion).join(), decode }];
    });
  }

  #read(): void {
    if (this.#isClosed) return;
    this.#stored = new Map(this.#values.values);
    this.#written.clear();
    this.#options.read();
    this.#loaded.resolve(this.#stored);
    this.#isDue = this.#wanted !== undefined;
    this.#pump.endWaits();
    this.#pump.wake();
  }

  /** Milliseconds until something may be written; undefined: nothing is. */
  #dueMs(): number | undefined {
    if (!this.#isDue) return undefined;
    return Math.max(0, Math.ceil(this.#notBeforeMs - this.#options.clock.monotonicMs()));
  }

  /** Undefined: all is as it is wanted, or the rest is for whoever may write then. */
  async #write(): Promise<ApiError | undefined> {
    const { clock, intervalMs = 0 } = this.#options;
    this.#isDue = false;
    const wanted = this.#wanted;
    // What was wanted at the last attempt is not any more.
    if (wanted === undefined) return undefined;
    const startMs = clock.monotonicMs();
    let failure: ApiError | undefined;
    for (const key of this.#surplus(wanted))
      failure = (await this.#attempt(key, () => this.#delete(key))) ?? failure;
    for (const [key, value] of wanted) {
      if (this.#isStored(key, value)) continue;
      this.#notBeforeMs = startMs + intervalMs;
      failure = (await this.#attempt(key, () => this.#store(key, value))) ?? failure;
    }
    for (const key of this.#cut.keys()) if (!wanted.has(key)) this.#cut.delete(key);
    return failure;
  }

  #surplus(wanted: ReadonlyMap<string, Value>): string[] {
    const present = new Map<string, Value | undefined>([...this.#stored, ...this.#written]);
    return [...present].flatMap(([key, value]) => {
      return wanted.has(key) || value === undefined || this.#isNews(key, value) ? [] : [key];
    });
  }

  #isStored(key: string, value: Value): boolean {
    const present = this.#written.has(key) ? this.#written.get(key) : this.#stored.get(key);
    if (present !== undefined && (this.#isSame(present, value) || this.#isNews(key, present))) return true;
    return this.#isSame(this.#cut.get(key), value);
  }

  #isNews(key: string, present: Value): boolean {
    return !this.#isSame(this.#basis.get(key), present) && !this.#isSame(this.#own.get(key)?.value, present);
  }

  /** Who may not write any more leaves the rest to others. */
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
    for (const map of maps) await this.#api.apply(map, { role });
    if (maps.length === 0) return;
    const names = new Set(maps.map(({ name }) => name));
    for (const name of this.#namesOf(key)) if (!names.has(name)) await this.#api.delete(name);
    this.#written.set(key, value);
    this.#own.set(key, { value, names });
  }

  async #delete(key: string): Promise<void> {
    for (const name of this.#namesOf(key)) await this.#api.delete(name);
    this.#written.set(key, undefined);
    this.#own.delete(key);
  }

  /** Of the key's ConfigMaps; the watch may not show our own yet. */
  #namesOf(key: string): Set<string> {
    const shown = this.#values.maps.filter((map) => this.#options.format.keyOf(map) === key);
    return new Set([...shown.map(({ name }) => name), ...(this.#own.get(key)?.names ?? [])]);
  }

  #isSameMap(a: ReadonlyMap<string, Value> | undefined, b: ReadonlyMap<string, Value>): boolean {
    return a?.size === b.size && [...b].every(([key, value]) => this.#isSame(a.get(key), value));
  }

  #isSame(a: Value | undefined, b: Value): boolean {
    return a !== undefined && this.#options.format.isSame(a, b);
  }
}
