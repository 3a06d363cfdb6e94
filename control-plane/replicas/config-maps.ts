/** JSON texts in ConfigMaps of the control plane's namespace. A long text is compressed, and is in several ConfigMaps if necessary. */

import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type { Clock } from '../../process/time/clock.ts';
import type { KubernetesApi } from '../kubernetes/api.ts';
import { deleteObject, managedLabels, type ObjectRole, type Owner, serverSideApply } from './own-objects.ts';

export interface ConfigMapApiOptions {
  client: KubernetesApi;
  namespace: string;
  /** The timeout of one request. */
  timeoutMs: number;
}

/** ConfigMaps of one namespace. One process at a time writes each of them, by server-side apply. */
export class ConfigMapApi {
  readonly #options: ConfigMapApiOptions;

  constructor(options: ConfigMapApiOptions) {
    this.#options = options;
  }

  /** Makes this the only content of the ConfigMap. Resolves to its version. */
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

/** A ConfigMap, reduced to the fields that stored values need. */
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
const maxConfigMapBytes = 1_000_000;

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
  file: string;
  json: string;
  /** A different text for every value that is ever stored under the name. */
  revision: string;
  owner?: Owner | undefined;
  /** The maximum size of a part, before base64. */
  maxPartBytes?: number | undefined;
  codec: Codec;
}

/** Returns a `revision` that is unique across processes and times. */
export function newRevision(clock: Clock, random: () => number): string {
  return `${clock.nowMs().toString(36)}-${Math.floor(random() * 36 ** 6).toString(36)}`;
}

/** Returns the name of the first of several ConfigMaps, whose numbers follow a dot. */
export function firstName(name: string): string {
  return name.replace(/\.\d+$/, '');
}

/**
 * Writes a JSON text to ConfigMaps. A short text is readable for people. A longer text is compressed, and split into several ConfigMaps
 * if one cannot hold it. All parts of one text have the same revision, and a reader waits for all of them.
 */
export async function splitJson(parted: SplitJson): Promise<ConfigMap[]> {
  const { name, file, json, revision, owner, maxPartBytes = maxConfigMapBytes, codec } = parted;
  const data = (part: number, parts: number) => ({ revision, part: `${part}/${parts}` });
  if (json.length <= longestPlainJson)
    return [{ name, owner, data: { ...data(1, 1), [file]: json }, binaryData: {} }];
  const bytes = await codec.compress(json);
  const parts = Math.ceil(bytes.length / maxPartBytes);
  return Array.from({ length: parts }, (_, index) => {
    const chunk = bytes.subarray(index * maxPartBytes, (index + 1) * maxPartBytes);
    return {
      name: index === 0 ? name : `${name}.${index + 1}`,
      owner,
      data: data(index + 1, parts),
      binaryData: { [`${file}.gz`]: chunk.toString('base64') },
    };
  });
}

/** Returns the number of a part, from 1, and of all parts. Undefined for a ConfigMap that is not a part. */
export function positionOf({
  data: { revision, part = '' },
}: ConfigMap): [part: number, parts: number] | undefined {
  const match = /^([1-9]\d{0,4})\/([1-9]\d{0,4})$/.exec(part);
  return revision === undefined || match === null ? undefined : [Number(match[1]), Number(match[2])];
}

/**
 * Returns the parts of the newest revision, in their order. Undefined while one of them is missing. If no ConfigMap is a part, returns
 * all, which cannot be read.
 */
export function completeParts<Map extends ConfigMap>(maps: readonly Map[]): readonly Map[] | undefined {
  const found = maps.flatMap((map) => {
    const position = positionOf(map);
    return position === undefined ? [] : { map, part: position[0], parts: position[1] };
  });
  if (found.length === 0) return maps;
  const first = found.find(({ part }) => part === 1);
  const same = found.filter(({ map }) => map.data['revision'] === first?.map.data['revision']);
  if (first === undefined || same.length !== first.parts) return undefined;
  return same.sort((a, b) => a.part - b.part).map(({ map }) => map);
}

/** Reads all parts, in their order. Rejects if they are damaged. */
export async function jsonOfParts(parts: readonly ConfigMap[], file: string, codec: Codec): Promise<unknown> {
  const plain = parts[0]?.data[file];
  if (plain !== undefined) return JSON.parse(plain);
  const chunks = parts.map(({ binaryData }) => Buffer.from(binaryData[`${file}.gz`] ?? '', 'base64'));
  const bytes = Buffer.concat(chunks);
  if (bytes.length === 0) throw new Error(`${file} is missing`);
  return JSON.parse(await codec.decompress(bytes, longestJson));
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
