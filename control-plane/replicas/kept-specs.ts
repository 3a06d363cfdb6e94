/**
 * Kept specs that are served in place of a newer generation, in ConfigMaps of the control plane's own namespace: read
 * by every replica, written by the leader, so that no restart drops the limits of a team whose last change was bad, or
 * more than its old limiters obey. Of two that are kept for one object the older one is where a control plane of the
 * version before looks, which obeys that one too.
 */
import { isDeepStrictEqual } from 'node:util';
import { errorText } from '../../process/log/error-text.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { KubernetesApi } from '../kubernetes/api.ts';
import { ApiError } from '../kubernetes/api-error.ts';
import type { ConfigObject } from '../model/config-object.ts';
import type { KeptSpec, SpecGeneration } from '../model/decision.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';
import type { Codec } from './codec.ts';
import { type ConfigMap, ConfigMapApi, maxConfigMapBytes, WatchedValues } from './config-maps.ts';
import { type Failure, Pump } from './pump.ts';
import { type ObjectRole, roleLabel } from './replica-name.ts';

/** With the name of the object that it belongs to. */
export type StoredSpec = KeptSpec & Pick<ConfigObject, 'namespace' | 'name'>;

const specKey = 'spec.json.gz';
/** Of the later one of two. */
const laterKeys = { generation: 'laterGeneration', spec: 'later-spec.json.gz' } as const;
/** Chosen: far above what the API server takes as an object. */
const longestJson = 64 * 1024 * 1024;

function keptSpecName(uid: string): string {
  return `weir-kept-${uid}`;
}

async function encodeKeptSpec(uid: string, stored: StoredSpec, codec: Codec): Promise<ConfigMap> {
  const { namespace, name, forOld } = stored;
  const map = {
    name: keptSpecName(uid),
    data: { uid, namespace, name, generation: String((forOld ?? stored).generation) },
    binaryData: { [specKey]: await encodeSpec(forOld ?? stored, codec) },
  };
  if (forOld === undefined) return map;
  return {
    ...map,
    data: { ...map.data, [laterKeys.generation]: String(stored.generation) },
    binaryData: { ...map.binaryData, [laterKeys.spec]: await encodeSpec(stored, codec) },
  };
}

async function encodeSpec({ spec }: SpecGeneration, codec: Codec): Promise<string> {
  return (await codec.compress(JSON.stringify(spec))).toString('base64');
}

/** How many bytes of a ConfigMap it takes. */
function keptSpecBytes({ binaryData }: ConfigMap): number {
  return Object.values(binaryData).reduce((sum, text) => sum + Buffer.byteLength(text, 'base64'), 0);
}

/** Rejects when the ConfigMap does not hold a kept spec. */
async function decodeKeptSpec(map: ConfigMap, codec: Codec): Promise<{ uid: string; kept: StoredSpec }> {
  const { uid, namespace, name, generation } = map.data;
  const compressed = map.binaryData[specKey];
  if (uid === undefined || namespace === undefined || name === undefined || compressed === undefined) {
    throw new Error(`uid, namespace, name or ${specKey} is missing`);
  }
  if (keptSpecName(uid) !== map.name) throw new Error(`its uid ${uid} does not fit its name`);
  const first = await decodeSpec(generation, compressed, codec);
  const later = map.binaryData[laterKeys.spec];
  if (later === undefined) return { uid, kept: { namespace, name, ...first } };
  const second = await decodeSpec(map.data[laterKeys.generation], later, codec);
  return { uid, kept: { namespace, name, ...second, forOld: first } };
}

async function decodeSpec(
  generation: string | undefined,
  compressed: string,
  codec: Codec,
): Promise<SpecGeneration> {
  if (!/^[1-9]\d{0,15}$/.test(generation ?? '')) throw new Error(`generation ${generation} is not a number`);
  const json = await codec.decompress(Buffer.from(compressed, 'base64'), longestJson);
  return { generation: Number(generation), spec: JSON.parse(json) as unknown };
}

/** One generation may have been accepted with more than one spec: a CRD of another version adds or drops fields. */
function isSameKept(a: KeptSpec | undefined, b: KeptSpec): boolean {
  return (
    a?.forOld?.generation === b.forOld?.generation && isSameSpec(a, b) && isSameSpec(a?.forOld, b.forOld)
  );
}

function isSameSpec(a: SpecGeneration | undefined, b: SpecGeneration | undefined): boolean {
  return a?.generation === b?.generation && isDeepStrictEqual(a?.spec, b?.spec);
}

export interface KeptSpecStoreOptions extends Pick<Telemetry, 'log'> {
  client: KubernetesApi;
  namespace: string;
  /** Asked before each write. */
  mayWrite(): boolean;
  clock: Clock;
  timers: Timers;
  random(): number;
  codec: Codec;
  /** What is stored, by uid, has changed, or was read for the first time. */
  changed(stored: ReadonlyMap<string, StoredSpec>): void;
}

export class KeptSpecStore {
  readonly #options: KeptSpecStoreOptions;
  readonly #api: ConfigMapApi;
  readonly #values: WatchedValues<{ uid: string; kept: StoredSpec }>;
  #stored: ReadonlyMap<string, StoredSpec> = new Map();
  readonly #loaded = Promise.withResolvers<ReadonlyMap<string, StoredSpec>>();
  #wanted: ReadonlyMap<string, StoredSpec> | undefined;
  /** By uid: what was written or deleted, while the watch does not show it yet. */
  readonly #written = new Map<string, StoredSpec | undefined>();
  readonly #toldTooLarge = new Map<string, StoredSpec>();
  readonly #pump: Pump<ReadonlyMap<string, StoredSpec>, Failure>;
  /** What is stored may differ from what is wanted. */
  #isDue = false;
  #isClosed = false;

  constructor(options: KeptSpecStoreOptions) {
    this.#options = options;
    const { client, namespace, log } = options;
    this.#api = new ConfigMapApi({ client, namespace, timeoutMs: 10_000 });
    this.#pump = new Pump({
      ...options,
      queue: {
        next: () => (this.#isDue ? this.#wanted : undefined),
        nextDueMs: () => undefined,
      },
      concurrency: 1,
      mayRun: () => !this.#isClosed && this.#values.isRead && options.mayWrite(),
      attempt: () => this.#write(),
      firstRetryMs: 500,
      mostRetryMs: 30_000,
    });
    this.#values = new WatchedValues({
      ...options,
      labels: { [roleLabel]: 'kept-spec' satisfies ObjectRole },
      find: (maps) =>
        maps.map((map) => ({
          key: map.name,
          version: map.resourceVersion,
          decode: () =>
            decodeKeptSpec(map, options.codec).catch((error: unknown) => {
              lines.keptSpecSkipped(log, map.name, errorText(error));
              return undefined;
            }),
        })),
      read: () => this.#read(),
      unreachable: (reason) => lines.keptSpecsUnreachable(log, reason),
      reachable: () => lines.keptSpecsReachable(log),
      skipped: (key, reason) => lines.keptSpecSkipped(log, key, reason),
    });
  }

  /** Begins to watch; settles with the complete list, however long the API server is away. By uid. */
  load(): Promise<ReadonlyMap<string, StoredSpec>> {
    this.#values.start();
    return this.#loaded.promise;
  }

  /** By uid. */
  get stored(): ReadonlyMap<string, StoredSpec> {
    return this.#stored;
  }

  /** Makes what is stored the same as `wanted`, by uid: soon, and again after failures, while this process may write. */
  sync(wanted: ReadonlyMap<string, StoredSpec>): void {
    this.#wanted = wanted;
    this.#ask();
  }

  /** Nothing is deleted: what is stored is for the next process. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([this.#values.close(), this.#pump.close()]);
  }

  #read(): void {
    if (this.#isClosed) return;
    this.#stored = new Map(this.#values.values.map(({ uid, kept }) => [uid, kept]));
    this.#written.clear();
    this.#options.changed(this.#stored);
    this.#loaded.resolve(this.#stored);
    this.#ask();
  }

  /** At once, whatever wait a failure has brought. */
  #ask(): void {
    this.#isDue = this.#wanted !== undefined;
    this.#pump.endWaits();
    this.#pump.wake();
  }

  /** Undefined: all is as it is wanted, or the rest is the next leader's. */
  async #write(): Promise<Failure | undefined> {
    const wanted = this.#wanted ?? new Map<string, StoredSpec>();
    this.#isDue = false;
    let isDone = true;
    const surplus = [...this.stored.keys()].filter((uid) => !wanted.has(uid));
    for (const uid of surplus) if (!(await this.#delete(uid))) isDone = false;
    for (const [uid, spec] of wanted) if (!(await this.#store(uid, spec))) isDone = false;
    for (const uid of this.#toldTooLarge.keys()) if (!wanted.has(uid)) this.#toldTooLarge.delete(uid);
    return isDone ? undefined : {};
  }

  async #delete(uid: string): Promise<boolean> {
    if (this.#written.has(uid) && this.#written.get(uid) === undefined) return true;
    const object = objectText(uid, this.stored.get(uid));
    return this.#attempt(object, async () => {
      await this.#api.delete(keptSpecName(uid));
      this.#written.set(uid, undefined);
    });
  }

  async #store(uid: string, spec: StoredSpec): Promise<boolean> {
    const present = this.#written.has(uid) ? this.#written.get(uid) : this.stored.get(uid);
    if (isSameKept(present, spec) || isSameKept(this.#toldTooLarge.get(uid), spec)) return true;
    const map = await encodeKeptSpec(uid, spec, this.#options.codec);
    const bytes = keptSpecBytes(map);
    if (bytes > maxConfigMapBytes) {
      this.#toldTooLarge.set(uid, spec);
      const fields = { object: objectText(uid, spec), bytes, mostBytes: maxConfigMapBytes };
      lines.keptSpecTooLarge(this.#options.log, fields);
      return true;
    }
    return this.#attempt(objectText(uid, spec), async () => {
      await this.#api.apply(map, { role: 'kept-spec' });
      this.#written.set(uid, spec);
    });
  }

  /** A process that no longer leads leaves the rest to the next leader. */
  async #attempt(object: string, write: () => Promise<void>): Promise<boolean> {
    if (!this.#options.mayWrite()) return true;
    try {
      await write();
      return true;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      lines.keptSpecNotStored(this.#options.log, object, error);
      return false;
    }
  }
}

function objectText(uid: string, spec: StoredSpec | undefined): string {
  return spec === undefined ? uid : `${spec.namespace}/${spec.name}`;
}
