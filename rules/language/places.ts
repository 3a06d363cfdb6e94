/** The kinds of map that have fields, and how messages call them. */

/** Kinds of map, as bits, so that a field can belong to several. */
export const Place = {
  FILE: 1,
  DESCRIPTOR: 2,
  RATE_LIMIT: 4,
  REPLACES: 8,
  RATE_LIMITS: 16,
  CALENDAR: 32,
  RESERVE: 64,
} as const;
export type Place = (typeof Place)[keyof typeof Place];

const { FILE, DESCRIPTOR, REPLACES, CALENDAR, RESERVE } = Place;
/** Alone, or an element of a list. */
const LIMIT = Place.RATE_LIMIT | Place.RATE_LIMITS;
/** Maps that envoyproxy/ratelimit does not know. */
export const ownPlaces: number = Place.RATE_LIMITS | CALENDAR | RESERVE;

/** Where a field belongs, in words. */
export function placesInWords(places: number): string {
  const words: string[] = [];
  if (places & FILE) words.push('the top level');
  if (places & DESCRIPTOR) words.push('a descriptor');
  if (places & LIMIT) words.push('rate_limit');
  // A unit is hardly meant for a calendar.
  if (places === CALENDAR) words.push('calendar');
  if (places & RESERVE) words.push('reserve');
  if (places & REPLACES) words.push('an element of replaces');
  return words.join(' or ');
}
