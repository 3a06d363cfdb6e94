/** A kept spec in a ConfigMap: where it belongs in plain text, the spec compressed. */
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type { ConfigObject } from '../model/config-object.ts';
import type { KeptSpec } from '../model/decision.ts';
import type { ConfigMap } from './config-map.ts';

/** With the name of the object that it belongs to. */
export type StoredSpec = KeptSpec & Pick<ConfigObject, 'namespace' | 'name'>;

const specKey = 'spec.json.gz';
/** Ours: far above what the API server takes as an object. */
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
export async function decodeKeptSpec({
  data,
  binaryData,
}: ConfigMap): Promise<{ uid: string; kept: StoredSpec }> {
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
