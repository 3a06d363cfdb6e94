/** ConfigMaps in the control plane's namespace: writes and watches them, and reads their values. */

import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type { Clock } from '../../process/time/clock.ts';
import type { KubernetesApi } from '../kubernetes/api.ts';
import { deleteObject } from './leases.ts';
import { managedLabels, type ObjectRole, serverSideApply } from './replica-name.ts';

export interface ConfigMapApiOptions {
  client: KubernetesApi;
  namespace: string;
  /** The timeout of one request. */
  timeoutMs: number;
}

/** The object whose deletion deletes the ConfigMap. */
export interface Owner {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
}

/** ConfigMaps of one namespace. One process at a time writes each of them, by server-side apply. */
export class ConfigMapApi {
  readonly #options: ConfigMapApiOptions;

  constructor(options: ConfigMapApiOptions) {
    this.#options = options;
  }

  /** Makes this the only content of the ConfigMap. Returns the version that the ConfigMap then has. */
  async apply(map: ConfigMap, role: ObjectRole): Promise<string> {
    const { client, namespace, timeoutMs } = this.#options;
    const { owner } = map;
    const { metadata } = await client.request<{ metadata: { resourceVersion: string } }>({
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
    return metadata.resourceVersion;
  }

  /** Deletes a ConfigMap: see `deleteObject`. */
  delete(name: string, resourceVersion?: string): Promise<void> {
    const { client, timeoutMs } = this.#options;
    return deleteObject(client, { path: this.#path(name), timeoutMs, resourceVersion });
  }

  #path(name: string): string {
    return `/api/v1/namespaces/${this.#options.namespace}/configmaps/${name}`;
  }
}

/** A ConfigMap, reduced to the fields that reports and stored specs need. */
export interface ConfigMap {
  name: string;
  data: Readonly<Record<string, string>>;
  /** The data in base64. */
  binaryData: Readonly<Record<string, string>>;
  owner?: Owner | undefined;
}

/** A ConfigMap from a watch. */
export interface StoredConfigMap extends ConfigMap {
  resourceVersion: string;
}

/** The maximum size of one ConfigMap's values, before base64. The API server rejects more than 1 MiB, including keys. */
export const maxConfigMapBytes = 1_000_000;

/** The value of a ConfigMap, or of several together. */
export interface FoundValue<Value> {
  key: string;
  /** A different text for every value that is ever stored under the key. Undefined while a part of the value is missing. */
  version: string | undefined;
  /** Decodes the value. Never rejects. Returns undefined if there is no readable value; it may return `before` instead. */
  decode(before: Value | undefined): Promise<Value | undefined>;
}

/** The values in ConfigMaps. Each is decoded once for every version of its ConfigMaps. */
export class StoredValues<Value> {
  readonly #find: (maps: readonly StoredConfigMap[]) => Iterable<FoundValue<Value>>;
  readonly #read: (hasChanged: boolean) => void;
  readonly #values = new Map<string, Value | undefined>();
  /** The value that was decoded last, or the reason why it could not be decoded. */
  readonly #versions = new Map<string, string>();
  #newest: readonly StoredConfigMap[] | undefined;
  #running: Promise<void> | undefined;
  #isRead = false;

  /** `read` is called when all ConfigMaps were checked, whether or not a value changed (`hasChanged`). */
  constructor(
    find: (maps: readonly StoredConfigMap[]) => Iterable<FoundValue<Value>>,
    read: (hasChanged: boolean) => void,
  ) {
    this.#find = find;
    this.#read = read;
  }

  /** The values by key. */
  get values(): Map<string, Value> {
    return new Map([...this.#values].filter((entry): entry is [string, Value] => entry[1] !== undefined));
  }

  /** Returns whether the values are those of the complete ConfigMaps of a moment ago. */
  get isRead(): boolean {
    return this.#isRead;
  }

  /** Settles when these ConfigMaps, or newer ones, are decoded. */
  update(maps: readonly StoredConfigMap[]): Promise<void> {
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

export function selectorOf(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
}

/** Chosen: longer JSON texts are compressed. */
const longestPlainJson = 8 * 1024;
/** Chosen: the largest decompressed text. Reports of 10,000 limiters are about 5 MB. */
const longestJson = 256 * 1024 * 1024;

export interface SplitJson {
  /** The name of the first ConfigMap. */
  name: string;
  /** The key of the text in a ConfigMap. A compressed text has the suffix `.gz`. */
  key: string;
  json: string;
  /** A different text for every value that is ever stored under the name. */
  revision: string;
  /** Further data of each part. */
  head?: Readonly<Record<string, string>>;
  /** The maximum size of a part, before base64. */
  maxPartBytes?: number | undefined;
  codec: Codec;
}

export interface ConfigMapPart<Map extends ConfigMap = ConfigMap> {
  revision: string;
  /** The number of the part, from 1. */
  part: number;
  parts: number;
  map: Map;
}

/** A `revision` that is unique across processes and times. */
export function newRevision(clock: Clock, random: () => number): string {
  return `${clock.nowMs().toString(36)}-${Math.floor(random() * 36 ** 6).toString(36)}`;
}

export function partName(name: string, part: number): string {
  return `${name}${part === 1 ? '' : `.${part}`}`;
}

/**
 * Writes a JSON text to ConfigMaps. A short text is readable for people. A longer text is compressed, and split into several ConfigMaps
 * if one cannot hold it. All parts of one text have the same revision, and a reader waits for all of them.
 */
export async function splitJson(parted: SplitJson): Promise<ConfigMap[]> {
  const { name, key, json, revision, head = {}, maxPartBytes = maxConfigMapBytes, codec } = parted;
  const data = (part: number, parts: number) => ({ ...head, revision, part: `${part}/${parts}` });
  if (json.length <= longestPlainJson)
    return [{ name, data: { ...data(1, 1), [key]: json }, binaryData: {} }];
  const bytes = await codec.compress(json);
  const parts = Math.ceil(bytes.length / maxPartBytes);
  return Array.from({ length: parts }, (_, index) => {
    const chunk = bytes.subarray(index * maxPartBytes, (index + 1) * maxPartBytes);
    return {
      name: partName(name, index + 1),
      data: data(index + 1, parts),
      binaryData: { [`${key}.gz`]: chunk.toString('base64') },
    };
  });
}

/** Returns undefined for a ConfigMap that is not a part. */
export function readPart<Map extends ConfigMap>(map: Map): ConfigMapPart<Map> | undefined {
  const { revision, part: position } = map.data;
  const match = /^([1-9]\d{0,4})\/([1-9]\d{0,4})$/.exec(position ?? '');
  if (revision === undefined || match === null) return undefined;
  return { revision, part: Number(match[1]), parts: Number(match[2]), map };
}

/** Returns the parts of the newest revision, in their order. Undefined while a part of it is missing. */
export function completeParts<P extends ConfigMapPart>(found: readonly P[]): P[] | undefined {
  const first = found.find(({ part }) => part === 1);
  if (first === undefined) return undefined;
  const same = found.filter(({ revision }) => revision === first.revision).sort((a, b) => a.part - b.part);
  return same.length === first.parts ? same : undefined;
}

/** Reads all parts, in their order. Rejects if they are damaged. */
export async function jsonOfParts(
  parts: readonly ConfigMapPart[],
  key: string,
  codec: Codec,
): Promise<unknown> {
  const plain = parts[0]?.map.data[key];
  if (plain !== undefined) return JSON.parse(plain);
  const chunks = parts.map(({ map }) => Buffer.from(map.binaryData[`${key}.gz`] ?? '', 'base64'));
  return JSON.parse(await codec.decompress(Buffer.concat(chunks), longestJson));
}

/** Compresses values that are too long for plain text. */
export interface Codec {
  compress(text: string): Promise<Buffer>;
  /** Rejects bytes that are not from `compress`, and texts of more than `maxBytes`. */
  decompress(bytes: Buffer, maxBytes: number): Promise<string>;
}

/** A codec that works in threads of Node's pool. */
export const gzipCodec: Codec = {
  compress: (text) => promisify(gzip)(text),
  decompress: async (bytes, maxBytes) =>
    (await promisify(gunzip)(bytes, { maxOutputLength: maxBytes })).toString('utf8'),
};
