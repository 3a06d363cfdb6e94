/**
 * The objects in the control plane's own namespace: their names and labels, how they are written and deleted, and JSON texts in
 * ConfigMaps. A long text is compressed, and is in several ConfigMaps if necessary.
 */
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type { Clock } from '../../process/time/clock.ts';
import { fieldManager, hasStatus, type KubernetesApi, serverSideApply } from '../kubernetes/api.ts';

export interface ReplicaNameOptions {
  /** POD_NAME. If it is unset or empty, the host's name and a random text form the name. */
  podName: string | undefined;
  hostName: string;
  /** A number from 0 to below 1. */
  random(): number;
}

/** Chosen: leaves room for the text before and after it in a name of at most 253 characters. */
const longestName = 200;

/** Returns a DNS label that differs for every replica that runs at the same time. It is part of the names of the replica's objects. */
export function replicaName({ podName, hostName, random }: ReplicaNameOptions): string {
  if (podName !== undefined && podName !== '') return asLabel(podName);
  const suffix = Math.floor(random() * 36 ** 5)
    .toString(36)
    .padStart(5, '0');
  return asLabel(`${hostName}-${suffix}`);
}

/** Removes dots, because they separate a name from the number of a part. */
function asLabel(text: string): string {
  const label = text
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, '-')
    .replace(/^-+|-+$/g, '');
  if (label !== '' && label.length <= longestName) return label;
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 10);
  return label === '' ? hash : `${label.slice(0, longestName - 11).replace(/-+$/, '')}-${hash}`;
}

/** The label for the purpose of an object. The watches select by it. */
export const roleLabel = 'ratelimit.weir.dev/role';

export type ObjectRole = 'replica' | 'limiters' | 'kept-spec' | 'removed' | 'domains';

export function managedLabels(role?: ObjectRole): Record<string, string> {
  const labels = { 'app.kubernetes.io/name': 'weir', 'app.kubernetes.io/managed-by': fieldManager };
  return role === undefined ? labels : { ...labels, [roleLabel]: role };
}

/** Returns the name of the Lease object that shows that a replica is alive. */
export function replicaLeaseName(replica: string): string {
  return `weir-replica-${replica}`;
}

/** The object whose deletion deletes another one. */
export interface Owner {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
}

/** Succeeds if the object does not exist. With `resourceVersion`, it leaves an object that was written since. */
export async function deleteObject(
  client: KubernetesApi,
  {
    path,
    timeoutMs,
    resourceVersion,
  }: { path: string; timeoutMs: number; resourceVersion?: string | undefined },
): Promise<void> {
  const body = resourceVersion === undefined ? {} : { preconditions: { resourceVersion } };
  try {
    await client.request({ method: 'DELETE', path, timeoutMs, body });
  } catch (error) {
    if (!hasStatus(error, 404) && !hasStatus(error, 409)) throw error;
  }
}

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
