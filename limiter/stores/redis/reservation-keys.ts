/** Names of reservations in Redis. */
/** Chosen: about 8 MB when full of common entries, 40 MB with the longest ones. */
const maxPlaces = 20_000;
/** The longest stored key of a counter, in characters. It contains values of requests, which may have any length. */
const longestWhole = 256;

/** The names of a counter's reservations. */
export interface ReservationPlace {
  readonly hash: string;
  readonly set: string;
  /** The digits of the window, from `windowOf`. */
  readonly window: string;
}

/** Names the reservations of one server or cluster. */
export class ReservationNames {
  /** The prefix of ids of notes: CACHE_KEY_PREFIX. */
  readonly prefix: string;
  readonly isCluster: boolean;
  /** The places by the counter's key. When all are dropped, the places in use soon return. */
  readonly #places = new Map<string, ReservationPlace>();

  constructor(prefix: string, isCluster: boolean) {
    this.prefix = prefix;
    this.isCluster = isCluster;
  }

  placeOf(key: string): ReservationPlace {
    const known = this.#places.get(key);
    if (known !== undefined) return known;
    const [hash, set] = reservationKeysOf(key);
    const place = { hash, set, window: windowOf(key) };
    if (key.length > longestWhole) return place;
    if (this.#places.size >= maxPlaces) this.#places.clear();
    this.#places.set(key, place);
    return place;
  }
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
