/** A kept spec in a ConfigMap: where it belongs in plain text, the spec compressed. */
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import { errorText } from '../../process/log/error-text.ts';
import type { ConfigObject } from '../model/config-object.ts';
import type { KeptSpec } from '../model/decision.ts';
import type { ConfigMap } from './config-map-api.ts';

/** With the name of the object that it belongs to. */
export type StoredSpec = KeptSpec & Pick<ConfigObject, 'namespace' | 'name'>;

const specKey = 'spec.json.gz';
/** Chosen: far above what the API server takes as an object. */
const longestJson = 64 * 1024 * 1024;

export function keptSpecName(uid: string): string {
  return `weir-kept-${uid}`;
}

export async function encodeKeptSpec(uid: string, stored: StoredSpec): Promise<ConfigMap> {
  const { namespace, name, generation, spec } = stored;
  const bytes = await promisify(gzip)(JSON.stringify(spec));
  return {
    name: keptSpecName(uid),
    data: { uid, namespace, name, generation: String(generation) },
    binaryData: { [specKey]: bytes.toString('base64') },
  };
}

/** How many bytes of a ConfigMap it takes. */
export function keptSpecBytes({ binaryData }: ConfigMap): number {
  return Buffer.byteLength(binaryData[specKey] ?? '', 'base64');
}

/** Rejects when the ConfigMap does not hold a kept spec. */
async function decodeKeptSpec({ data, binaryData }: ConfigMap): Promise<{ uid: string; kept: StoredSpec }> {
  const { uid, namespace, name, generation } = data;
  const compressed = binaryData[specKey];
  if (uid === undefined || namespace === undefined || name === undefined || compressed === undefined) {
    throw new Error(`uid, namespace, name or ${specKey} is missing`);
  }
  if (!/^[1-9]\d{0,15}$/.test(generation ?? '')) throw new Error(`generation ${generation} is not a number`);
  const bytes = await promisify(gunzip)(Buffer.from(compressed, 'base64'), { maxOutputLength: longestJson });
  const spec: unknown = JSON.parse(bytes.toString('utf8'));
  return { uid, kept: { namespace, name, generation: Number(generation), spec } };
}

/** The kept specs that ConfigMaps hold; each is decoded once for every version of its ConfigMap. */

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
