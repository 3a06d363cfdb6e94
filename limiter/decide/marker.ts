/**
 * The entries by which a request of Envoy reserves for a descriptor, or settles a reservation: `reservation_id`, and also `settle` on
 * the call after. Rules with `reserve` are matched without them.
 */
import { hash } from 'node:crypto';
import type { Entry } from '../../rules/model.ts';

const idKey = 'reservation_id';
const settleKey = 'settle';
export const markerKeys: readonly string[] = [idKey, settleKey];
/** The lengths of the keys. Most entries have another length, so they are not markers. */
export const [idKeyLength, settleKeyLength] = [idKey.length, settleKey.length];
/** The longest id in a store, in bytes. */
const longestId = 255;

export interface Marker {
  /** The id: at most 255 bytes. */
  readonly id: string;
  readonly settles: boolean;
}

const idEntry = startOf(idKey);
const settleEntry = startOf(settleKey);

/** Returns the bytes with which an entry of this key begins. */
function startOf(key: string): Uint8Array {
  return Buffer.from([0x0a, key.length, ...Buffer.from(key)]);
}

/** Returns which part of a marker the entry at this position is, in the encoding of common clients. Undefined: it is none. */
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

/** Returns the entries that match a rule with `reserve`; undefined if there is no id, so that all entries do. */
export function unmarkedOf(entries: readonly Entry[]): readonly Entry[] | undefined {
  if (entryValue(entries, idKey) === undefined) return undefined;
  return entries.filter(({ key }) => !isMarkerKey(key));
}

/** Returns the marker. Undefined if there is no id, or an empty one: the hits then count. */
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
