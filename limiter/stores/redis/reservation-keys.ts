/** How what is reserved is named in Redis. */
/** Chosen: some 8 MB when full of usual ones, 40 MB of the longest. */
const mostPlaces = 20_000;
/** Of a counter's key, in characters. Values of requests are in it, and may be of any length. */
const longestKept = 256;

/** What stands beside a counter. */
export interface ReservationPlace {
  readonly hash: string;
  readonly set: string;
  /** As `windowOf`. */
  readonly window: string;
}

/** How what is reserved on one server or cluster is named. */
export class ReservationNames {
  /** Before ids of notes: CACHE_KEY_PREFIX. */
  readonly prefix: string;
  readonly isCluster: boolean;
  /** By the counter's key. Those in use are soon there again when all are dropped. */
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
    if (key.length > longestKept) return place;
    if (this.#places.size >= mostPlaces) this.#places.clear();
    this.#places.set(key, place);
    return place;
  }
}

/** The hash and the set beside a counter, of all of its windows. */
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

/** What distinguishes a counter's window from its others: the digits that its key ends in. */
function windowOf(key: string): string {
  let at = key.length;
  while (at > 0 && isDigit(key.charCodeAt(at - 1))) at -= 1;
  return key.slice(at);
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}
