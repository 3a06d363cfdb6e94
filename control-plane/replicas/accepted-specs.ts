/**
 * Specs that are served in place of a newer generation, stored in one ConfigMap for each object. Every replica reads them, and the leader
 * writes them. So a restart removes no limits if the last change of an object was bad, or if some limiters do not support it. A replica
 * that accepted a newer generation than the stored one, which the leader missed, stores its own. All replicas then serve the newest
 * generation that any of them accepted.
 */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { KubernetesApi } from '../kubernetes/api.ts';
import type { LastAcceptedSpec, SpecGeneration, StoredSpec } from '../model/decision.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import { type Codec, type ConfigMap, maxConfigMapBytes } from './config-maps.ts';
import { type SharedFormat, SharedValues } from './shared-values.ts';

/** A list of `{ generation, spec }`, newest first: see `LastAcceptedSpec`. */
const specsKey = 'specs.json.gz';
/** Chosen: far above the size of an object that the API server accepts. */
const longestJson = 64 * 1024 * 1024;

function storedSpecName(uid: string): string {
  return `weir-kept-${uid}`;
}

async function encodeStoredSpec(uid: string, stored: StoredSpec, codec: Codec): Promise<ConfigMap> {
  const { namespace, name, fallback } = stored;
  const specs = [stored, ...(fallback ? [fallback] : [])].map(({ generation, spec }) => ({
    generation,
    spec,
  }));
  const compressed = await codec.compress(JSON.stringify(specs));
  return {
    name: storedSpecName(uid),
    data: { uid, namespace, name },
    binaryData: { [specsKey]: compressed.toString('base64') },
  };
}

const storedSpecsSchema = z.array(z.object({ generation: z.int().positive(), spec: z.unknown() }));

/** Rejects if the ConfigMap does not contain a stored spec. */
async function decodeStoredSpec(map: ConfigMap, codec: Codec): Promise<StoredSpec> {
  const { uid, namespace, name } = map.data;
  const compressed = map.binaryData[specsKey];
  if (uid === undefined || namespace === undefined || name === undefined || compressed === undefined) {
    throw new Error(`uid, namespace, name or ${specsKey} is missing`);
  }
  if (storedSpecName(uid) !== map.name) throw new Error(`its uid ${uid} does not fit its name`);
  const json = await codec.decompress(Buffer.from(compressed, 'base64'), longestJson);
  const [newest, fallback] = storedSpecsSchema.parse(JSON.parse(json));
  if (newest === undefined) throw new Error(`${specsKey} has no specs`);
  return { namespace, name, ...newest, ...(fallback && { fallback }) };
}

/**
 * Returns whether both are equal. A generation may have been accepted with more than one spec, because a CRD of another version adds or
 * drops fields.
 */
function isSameStoredSpec(a: LastAcceptedSpec, b: LastAcceptedSpec): boolean {
  return isSameSpec(a, b) && isSameSpec(a.fallback, b.fallback);
}

function isSameSpec(a: SpecGeneration | undefined, b: SpecGeneration | undefined): boolean {
  return a?.generation === b?.generation && isDeepStrictEqual(a?.spec, b?.spec);
}

function storedSpecFormat({
  codec,
  log,
}: Pick<AcceptedSpecStoreOptions, 'codec' | 'log'>): SharedFormat<StoredSpec> {
  return {
    keyOf: ({ name, data: { uid = '' } }) => (storedSpecName(uid) === name ? uid : name),
    decode: ([map]) => decodeStoredSpec(map!, codec),
    encode: async (uid, spec) => {
      const map = await encodeStoredSpec(uid, spec, codec);
      const bytes = Buffer.byteLength(map.binaryData[specsKey]!, 'base64');
      if (bytes <= maxConfigMapBytes) return { maps: [map], isWhole: true };
      const object = `${spec.namespace}/${spec.name}`;
      lines.acceptedSpecTooLarge(log, { object, bytes, maxBytes: maxConfigMapBytes });
      return { maps: [], isWhole: false };
    },
    isSame: isSameStoredSpec,
  };
}

export interface AcceptedSpecStoreOptions extends Pick<Telemetry, 'log'> {
  client: KubernetesApi;
  namespace: string;
  leads(): boolean;
  clock: Clock;
  timers: Timers;
  random(): number;
  codec: Codec;
  /** Called, with the uids, when stored specs have changed or were read for the first time. */
  changed(stored: ReadonlyMap<string, StoredSpec>): void;
}

/** Chosen: a leader with the same information has stored the spec long before. */
const raiseAfterMs = 1_000;
/** Chosen: a leader may replace a newer spec by an older one before it has read the newer one, or repeatedly if it cannot read it. */
const mostReturns = 3;

export class AcceptedSpecStore {
  readonly #options: AcceptedSpecStoreOptions;
  readonly #values: SharedValues<StoredSpec>;
  #wanted: ReadonlyMap<string, StoredSpec> = new Map();
  /** Whether this process led when it determined what to store. If that changes, nothing of it is written. */
  #isOfLeader = false;
  /**
   * The newest generation that was ever stored, by uid, and how often an older one replaced it. The leader that removed it may not be
   * able to read it.
   */
  readonly #newest = new Map<string, { generation: number; returns: number }>();
  #callOffRaise: (() => void) | undefined;

  constructor(options: AcceptedSpecStoreOptions) {
    const { log, leads, changed } = options;
    this.#options = options;
    this.#values = new SharedValues({
      ...options,
      role: 'kept-spec',
      format: storedSpecFormat(options),
      mayWrite: () => leads() === this.#isOfLeader,
      read: () => {
        for (const [uid, { generation }] of this.stored) this.#see(uid, generation);
        changed(this.stored);
        if (!leads()) this.#awaitLeader();
      },
      lines: {
        unreachable: (reason) => lines.acceptedSpecsUnreachable(log, { reason }),
        reachable: () => lines.acceptedSpecsReachable(log),
        skipped: (name, reason) => lines.acceptedSpecSkipped(log, { name, reason }),
        notStored: (uid, error) => lines.acceptedSpecNotStored(log, { object: this.#objectText(uid), error }),
      },
    });
  }

  /** Returns stored specs by uid: see `SharedValues.load`. */
  load(): Promise<ReadonlyMap<string, StoredSpec>> {
    return this.#values.load();
  }

  /** Stored specs by uid. */
  get stored(): ReadonlyMap<string, StoredSpec> {
    return this.#values.stored;
  }

  /**
   * Sets the specs that must outlive this replica, by uid. A leader stores them unchanged; other replicas store them only if they are
   * newer.
   */
  sync(wanted: ReadonlyMap<string, StoredSpec>): void {
    this.#wanted = wanted;
    for (const uid of this.#newest.keys())
      if (!wanted.has(uid) && !this.stored.has(uid)) this.#newest.delete(uid);
    if (!this.#options.leads()) {
      this.#awaitLeader();
      return;
    }
    this.#callOff();
    this.#isOfLeader = true;
    this.#values.sync(wanted);
  }

  async close(): Promise<void> {
    this.#callOff();
    await this.#values.close();
  }

  #see(uid: string, generation: number): void {
    const { generation: newest = 0, returns = 0 } = this.#newest.get(uid) ?? {};
    if (generation > newest) this.#newest.set(uid, { generation, returns });
    else if (generation < newest && returns < mostReturns)
      this.#newest.set(uid, { generation, returns: returns + 1 });
  }

  #awaitLeader(): void {
    if (this.#ahead().length === 0) {
      this.#callOff();
      this.#values.sync(undefined);
    } else this.#callOffRaise ??= this.#options.timers.after(raiseAfterMs, () => this.#raise());
  }

  #raise(): void {
    this.#callOffRaise = undefined;
    if (this.#options.leads()) return;
    this.#isOfLeader = false;
    this.#values.sync(new Map([...this.stored, ...this.#ahead()]));
  }

  /** Returns the specs that are newer here than in the store. */
  #ahead(): [uid: string, spec: StoredSpec][] {
    return [...this.#wanted].filter(
      ([uid, { generation }]) => generation > (this.#newest.get(uid)?.generation ?? 0),
    );
  }

  #callOff(): void {
    this.#callOffRaise?.();
    this.#callOffRaise = undefined;
  }

  #objectText(uid: string): string {
    const spec = this.#wanted.get(uid) ?? this.stored.get(uid);
    return spec === undefined ? uid : `${spec.namespace}/${spec.name}`;
  }
}
