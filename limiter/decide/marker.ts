/**
 * The entries by which a request of Envoy says that a descriptor is reserved, or settles what was: `reservation_id`, and
 * `settle` on the call after. Rules with `reserve` are matched without them.
 */
import { hash } from 'node:crypto';
import type { Entry } from '../../rules/model.ts';

const idKey = 'reservation_id';
const settleKey = 'settle';
export const markerKeys: readonly string[] = [idKey, settleKey];
/** By these lengths most entries are no markers. */
export const [idKeyLength, settleKeyLength] = [idKey.length, settleKey.length];
/** Of an id in a store. */
const longestId = 255;

export interface Marker {
  /** The id: at most 255 bytes. */
  readonly id: string;
  readonly settles: boolean;
}

const idEntry = startOf(idKey);
const settleEntry = startOf(settleKey);

/** An entry begins with its key. */
function startOf(key: string): Uint8Array {
  return Buffer.from([0x0a, key.length, ...Buffer.from(key)]);
}

/** The part of a marker that the entry at this position is, in the spelling of common clients. Undefined: none. */
export function markerEntry(bytes: Uint8Array, at: number): 'id' | 'settle' | undefined {
  if (beginsWith(bytes, at, idEntry)) return 'id';
  return beginsWith(bytes, at, settleEntry) ? 'settle' : undefined;
}

export function markerKey(kind: 'id' | 'settle'): string {
  return kind === 'id' ? idKey : settleKey;
}

export function isMarkerKey(key: string): boolean {
  return key === idKey || key === settleKey;
}

function beginsWith(bytes: Uint8Array, at: number, start: Uint8Array): boolean {
  for (let index = 0; index < start.length; index++) if (bytes[at + index] !== start[index]) return false;
  return true;
}

/** The entries that a rule with `reserve` is matched by; undefined where no id is there, and all of them are. */
export function unmarkedOf(entries: readonly Entry[]): readonly Entry[] | undefined {
  if (entryValue(entries, idKey) === undefined) return undefined;
  return entries.filter(({ key }) => !isMarkerKey(key));
}

/** Undefined: there is no id, or an empty one, so the hits count. */
export function markerOf(entries: readonly Entry[]): Marker | undefined {
  const id = entryValue(entries, idKey);
  if (id === undefined || id === '') return undefined;
  // No character takes more than three bytes of UTF-8.
  const isShort = 3 * id.length <= longestId || Buffer.byteLength(id) <= longestId;
  return {
    id: isShort ? id : hash('sha256', id),
    settles: entryValue(entries, settleKey) !== undefined,
  };
}

function entryValue(entries: readonly Entry[], wanted: string): string | undefined {
  for (const { key, value } of entries) if (key === wanted) return value;
  return undefined;
}
