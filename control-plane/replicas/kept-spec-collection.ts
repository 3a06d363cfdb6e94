/** The kept specs that ConfigMaps hold; each is decoded once for every version of its ConfigMap. */
import { errorText } from '../../process/log/process-error-text.ts';
import type { ConfigMap } from './config-map.ts';
import { decodeKeptSpec, keptSpecName, type StoredSpec } from './kept-spec-encoding.ts';

export interface VersionedConfigMap {
  resourceVersion: string;
  map: ConfigMap;
}

export interface KeptSpecCollectionListener {
  /** By uid. */
  changed(stored: ReadonlyMap<string, StoredSpec>): void;
  /** Holds no readable spec; told once for every version of it. */
  damaged(name: string, reason: string): void;
}

interface Decoded {
  resourceVersion: string;
  /** Undefined for a damaged one. */
  spec: { uid: string; kept: StoredSpec } | undefined;
}

export class KeptSpecCollection {
  readonly #listener: KeptSpecCollectionListener;
  /** By name of the ConfigMap. */
  #decoded: ReadonlyMap<string, Decoded> = new Map();
  #stored: ReadonlyMap<string, StoredSpec> = new Map();
  #newest: readonly VersionedConfigMap[] | undefined;
  #running: Promise<void> | undefined;

  constructor(listener: KeptSpecCollectionListener) {
    this.#listener = listener;
  }

  /** By uid. */
  get stored(): ReadonlyMap<string, StoredSpec> {
    return this.#stored;
  }

  /** Settles when these, or newer ones, are decoded. */
  update(maps: readonly VersionedConfigMap[]): Promise<void> {
    this.#newest = maps;
    this.#running ??= this.#decode().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #decode(): Promise<void> {
    while (this.#newest !== undefined) {
      const maps = this.#newest;
      this.#newest = undefined;
      const decoded = new Map<string, Decoded>();
      for (const map of maps) decoded.set(map.map.name, await this.#decodeOne(map));
      this.#decoded = decoded;
      const specs = [...decoded.values()].flatMap(({ spec }) => spec ?? []);
      this.#stored = new Map(specs.map(({ uid, kept }) => [uid, kept]));
      this.#listener.changed(this.#stored);
    }
  }

  async #decodeOne({ map, resourceVersion }: VersionedConfigMap): Promise<Decoded> {
    const before = this.#decoded.get(map.name);
    if (before?.resourceVersion === resourceVersion) return before;
    try {
      const spec = await decodeKeptSpec(map);
      if (keptSpecName(spec.uid) !== map.name) throw new Error(`its uid ${spec.uid} does not fit its name`);
      return { resourceVersion, spec };
    } catch (error) {
      this.#listener.damaged(map.name, errorText(error));
      return { resourceVersion, spec: undefined };
    }
  }
}
