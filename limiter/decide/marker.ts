/**
 * The entries with which an Envoy request reserves for a descriptor, or commits a reservation: `reservation_id`, and also `settle` on the
 * second call. Rules with `reserve` are matched without these entries.
 */
import { hash } from 'node:crypto';
import type { Entry } from '../../rules/model.ts';

const idKey = 'reservation_id';
const settleKey = 'settle';
export const markerKeys: readonly string[] = [idKey, settleKey];
/** The lengths of the keys. Most entries have keys of another length, so they are not markers. */
export const [idKeyLength, settleKeyLength] = [idKey.length, settleKey.length];
/** The longest id in a store, in bytes. */
const longestId = 255;

export interface Marker {
  /** The id: at most 255 bytes. */
  readonly id: string;
  readonly commits: boolean;
}

const idEntry = startOf(idKey);
const settleEntry = startOf(settleKey);

/** Returns the bytes with which an entry of this key begins. */
function startOf(key: string): Uint8Array {
  return Buffer.from([0x0a, key.length, ...Buffer.from(key)]);
}

/**
 * Returns the part of a marker that the entry at this position is, in the encoding of common clients. Returns undefined if the entry
 * belongs to no marker.
 */
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

/** Returns the entries that match a rule with `reserve`. Returns undefined if there is no id, so that all entries match. */
export function unmarkedOf(entries: readonly Entry[]): readonly Entry[] | undefined {
  if (entryValue(entries, idKey) === undefined) return undefined;
  return entries.filter(({ key }) => !isMarkerKey(key));
}

/** Returns the marker. Returns undefined if the id is missing or empty, so that the hits count. */
export function markerOf(entries: readonly Entry[]): Marker | undefined {
  const id = entryValue(entries, idKey);
  if (id === undefined || id === '') return undefined;
  // No character takes more than three bytes of UTF-8.
  const isShort = 3 * id.length <= longestId || Buffer.byteLength(id) <= longestId;
  return {
    id: isShort ? id : hash('sha256', id),
    commits: entryValue(entries, settleKey) !== undefined,
  };
}

function entryValue(entries: readonly Entry[], wanted: string): string | undefined {
  for (const { key, value } of entries) if (key === wanted) return value;
  return undefined;
}
