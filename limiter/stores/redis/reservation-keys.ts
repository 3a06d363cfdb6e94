/** Names of reservations in Redis. */
import type { Operation } from '../operation.ts';

/** The names of the reservations on a counter. */
export class ReservationPlace {
  readonly key: string;
  readonly hash: string;
  readonly set: string;
  /** The digits of the window, from `windowOf`. */
  readonly window: string;

  constructor(key: string) {
    const [hash, set] = reservationKeysOf(key);
    this.key = key;
    this.hash = hash;
    this.set = set;
    this.window = windowOf(key);
  }
}

/** Returns the names for an operation. Its counter remembers them, so that they are not made for each call. */
export function reservationPlaceOf({ key, counter }: Pick<Operation, 'key' | 'counter'>): ReservationPlace {
  const known = counter.place;
  if (known instanceof ReservationPlace && known.key === key) return known;
  const place = new ReservationPlace(key);
  counter.place = place;
  return place;
}

/** What the names of notes and tallies depend on. */
export interface ReservationNames {
  /** The prefix of ids of notes: CACHE_KEY_PREFIX. */
  readonly prefix: string;
  readonly isCluster: boolean;
}

/** Returns the hash and the set beside a counter, for all of its windows. */
export function reservationKeysOf(key: string): [hash: string, set: string] {
  const name = key.slice(0, key.length - windowOf(key).length);
  return [`weir:reserve:${name}`, `weir:reserve-due:${name}`];
}

export function noteKeyOf(id: string, { prefix }: Pick<ReservationNames, 'prefix'>): string {
  return `weir:reserve-note:${prefix}${id}`;
}

export function tallyKeyOf(name: string, { prefix }: Pick<ReservationNames, 'prefix'>): string {
  return `weir:reserve-tally:${prefix}${name}`;
}

/** Returns the text that distinguishes a counter's window from its other windows: the digits at the end of its key. */
function windowOf(key: string): string {
  let at = key.length;
  // There is no digit before the first character.
  while (isDigit(key.charCodeAt(at - 1))) at -= 1;
  return key.slice(at);
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}
