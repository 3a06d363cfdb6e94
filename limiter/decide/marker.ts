/**
 * The entries by which a request of Envoy says that a descriptor is reserved, or settles what was: `reservation_id`, and
 * `settle` on the call after. Rules with `reserve` are matched without them.
 */
import { hash } from 'node:crypto';
import type { Entry } from '../../rules/model.ts';
import type { Descriptor } from './messages.ts';

export const idKey = 'reservation_id';
const settleKey = 'settle';
/** Of an id in a store. */
const longestId = 255;

export interface Marker {
  /** At most 255 bytes. */
  readonly id: string;
  readonly settles: boolean;
}

/** Undefined: no such entry is there. An empty id stands for none: the marker is undefined, and the hits count. */
export function readMarker(
  descriptor: Descriptor,
): { readonly marker: Marker | undefined; readonly descriptor: Descriptor } | undefined {
  const { entries } = descriptor;
  const id = entryValue(entries, idKey);
  if (id === undefined) return undefined;
  const left = entries.filter(({ key }) => key !== idKey && key !== settleKey);
  const settles = entryValue(entries, settleKey) !== undefined;
  const storedId = Buffer.byteLength(id) <= longestId ? id : hash('sha256', id);
  return {
    marker: id === '' ? undefined : { id: storedId, settles },
    descriptor: { ...descriptor, entries: left, known: undefined },
  };
}

function entryValue(entries: readonly Entry[], wanted: string): string | undefined {
  for (const { key, value } of entries) if (key === wanted) return value;
  return undefined;
}
