/**
 * One JSON text in ConfigMaps: as people can read it while it is small; then compressed, and cut into several ConfigMaps
 * when one cannot hold it. All parts of one text carry the same revision, and a reader waits for all of them.
 */
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import { type ConfigMap, maxConfigMapBytes } from './config-maps.ts';

/** Chosen: larger JSON is compressed. */
const longestPlainJson = 8 * 1024;
/** Chosen: what a decompressed text may come to; reports of 10,000 limiters are about 5 MB. */
const longestJson = 256 * 1024 * 1024;

export interface PartedJson {
  /** Of the first ConfigMap. */
  name: string;
  /** Under which the text stands in it; of compressed text with `.gz`. */
  key: string;
  json: string;
  /** Another one for every text that is ever stored under the name. */
  revision: string;
  /** What else each part says. */
  head?: Readonly<Record<string, string>>;
  /** Of a part, before base64. */
  maxPartBytes?: number | undefined;
}

export interface Part {
  revision: string;
  /** From 1. */
  part: number;
  parts: number;
  map: ConfigMap;
}

export function partName(name: string, part: number): string {
  return `${name}${part === 1 ? '' : `.${part}`}`;
}

export async function partedJson(parted: PartedJson): Promise<ConfigMap[]> {
  const { name, key, json, revision, head = {}, maxPartBytes = maxConfigMapBytes } = parted;
  const data = (part: number, parts: number) => ({ ...head, revision, part: `${part}/${parts}` });
  if (json.length <= longestPlainJson)
    return [{ name, data: { ...data(1, 1), [key]: json }, binaryData: {} }];
  const bytes = await promisify(gzip)(json);
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

/** Undefined for a ConfigMap that is no part. */
export function readPart(map: ConfigMap): Part | undefined {
  const { revision, part: position } = map.data;
  const match = /^([1-9]\d{0,4})\/([1-9]\d{0,4})$/.exec(position ?? '');
  if (revision === undefined || match === null) return undefined;
  return { revision, part: Number(match[1]), parts: Number(match[2]), map };
}

/** The parts of the newest revision, in their order; undefined while some part of it is missing. */
export function wholeOf<P extends Part>(found: readonly P[]): P[] | undefined {
  const first = found.find(({ part }) => part === 1);
  if (first === undefined) return undefined;
  const same = found.filter(({ revision }) => revision === first.revision).sort((a, b) => a.part - b.part);
  return same.length === first.parts ? same : undefined;
}

/** Of all parts, in their order; rejects when they are damaged. */
export async function jsonOfParts(parts: readonly Part[], key: string): Promise<unknown> {
  const plain = parts[0]?.map.data[key];
  if (plain !== undefined) return JSON.parse(plain);
  const chunks = parts.map(({ map }) => Buffer.from(map.binaryData[`${key}.gz`] ?? '', 'base64'));
  const bytes = await promisify(gunzip)(Buffer.concat(chunks), { maxOutputLength: longestJson });
  return JSON.parse(bytes.toString('utf8'));
}
