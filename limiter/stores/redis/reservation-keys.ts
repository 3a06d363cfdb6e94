/** How what is reserved is named in Redis. */
import { hashTagOf } from '../counter-store.ts';
import { tagOfSlotOf } from './cluster-topology.ts';

/** What keys of one server or cluster are named by. */
export interface ReservationNames {
  /** Before ids of notes: CACHE_KEY_PREFIX. */
  readonly prefix: string;
  /** Keys without a hash tag have a slot of their own each, also those of one counter's windows. */
  readonly isCluster: boolean;
}

/** The hash and the set beside a counter: of all of its windows where these are in one place. */
export function reservationKeysOf(key: string, isCluster: boolean): [hash: string, set: string] {
  const isPlain = hashTagOf(key) === key;
  const line = isPlain && isCluster ? key : key.slice(0, key.length - windowOf(key).length);
  const name = isPlain && isCluster ? `{${tagOfSlotOf(key)}}${line}` : line;
  return [`weir:reserve:${name}`, `weir:reserve-due:${name}`];
}

export function noteKeyOf(id: string, { prefix }: ReservationNames): string {
  return `weir:reserve-note:${prefix}${id}`;
}

/** What tells a counter's window from its others: the digits that its key ends in. */
export function windowOf(key: string): string {
  let at = key.length;
  while (at > 0 && isDigit(key.charCodeAt(at - 1))) at -= 1;
  return key.slice(at);
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}
