/** What reservations take from counters and give back to them. Pure; the scripts of Redis do the same. */
import { used } from '../admission.ts';
import { type Bound, exactMost, type Held } from '../bound.ts';

/** What a reservation took from one counter, as it is remembered until it is settled. */
export interface Charge {
  /** Less than its amount only where a bucket in shadow mode had less. */
  readonly taken: number;
  /** What the counter held right after: of a bucket when all that was taken so far will have come back, else the window. */
  readonly held: Held;
  /** Hits that others had taken by then and may still give back. */
  readonly others: number;
  /** What reservations had given back by then. */
  readonly returned: Returned;
}

/** What all reservations gave back to a bucket so far, as a time in its numbers: microseconds, the rest, the parts. Of others nothing. */
export type Returned = Held;

export const nothingReturned: Returned = [0, 0, 1];

/**
 * Charges hits whatever is left, as far as the counter has room for numbers: a bucket never goes below empty. `held` is of
 * this moment. Gives what it then holds, and how many hits that took.
 */
export function chargeAnyway(
  bound: Bound,
  held: Held,
  hits: number,
  nowMicros: number,
): { held: Held; taken: number } {
  const taken = Math.min(hits, mostTaken(bound, held, nowMicros));
  return { held: taken > 0 ? bound.take(held, taken) : held, taken };
}

function mostTaken(bound: Bound, held: Held, nowMicros: number): number {
  if (bound.kind === 'bucket') return bound.room(held, nowMicros);
  return bound.kind === 'fixed' ? exactMost - held[0] : Math.max(0, exactMost - held[1] - held[2]);
}

export interface GivenBack {
  readonly held: Held;
  /** Of a bucket rounded up. */
  readonly given: number;
  readonly returned: Returned;
}

/**
 * Gives back hits of a charge. What the counter no longer counts is not given back: of a sliding window what is further back
 * than the window before, of a bucket what has come back by itself. `held` is of this moment, `returned` what all
 * reservations together have given back to the counter so far.
 */
export function giveBackOf(charge: Charge, now: GivingBack): GivenBack {
  const { bound, held, returned } = now;
  const wanted = Math.min(now.hits, charge.taken);
  if (bound.kind === 'bucket') return giveBackToBucket(charge, { ...now, hits: wanted });
  if (bound.kind === 'fixed') {
    const given = Math.min(wanted, held[0]);
    return { held: [held[0] - given, 0, 0], given, returned };
  }
  const [window, former, current] = held;
  // A clock that was set back took both windows for the present one.
  if (charge.held[0] >= window) {
    const given = Math.min(wanted, current);
    return { held: [window, former, current - given], given, returned };
  }
  const given = charge.held[0] === window - 1 ? Math.min(wanted, former) : 0;
  return { held: [window, former - given, current], given, returned };
}

export interface GivingBack {
  readonly bound: Bound;
  readonly held: Held;
  readonly hits: number;
  readonly returned: Returned;
  readonly nowMicros: number;
}

/**
 * Tokens come back in the order in which they were taken. What was given back since may be of those that were taken before,
 * as far as others could: then these here came back as much earlier. So never more returns than has not come back.
 */
function giveBackToBucket(charge: Charge, { bound, held, hits, returned, nowMicros }: GivingBack): GivenBack {
  const parts = held[2];
  const none: Held = [0, 0, parts];
  const since = minus(inParts(returned, parts), inParts(charge.returned, parts));
  const most = bound.take(none, Math.min(bound.capacity, charge.others));
  const isBack = minus(bound.heldAt(charge.held, nowMicros), isLater(since, most) ? most : since);
  const own = bound.heldAt(isBack, nowMicros);
  const left = used(bound, own, nowMicros);
  const given = Math.min(hits, left);
  if (given === 0) return { held, given, returned };
  // To the microsecond: that a part of a token came back is no reason to keep the rest of it.
  const less = given < left ? bound.take(none, given) : minus(own, [nowMicros, 0, parts]);
  const after = bound.heldAt(minus(held, less), nowMicros);
  return { held: after, given, returned: plus(inParts(returned, parts), minus(held, after)) };
}

/** The same time or a bit more, where it is of another rate. */
function inParts(time: Held, parts: number): Held {
  return time[2] === parts || time[1] === 0 ? [time[0], time[1], parts] : [time[0] + 1, 0, parts];
}

function isLater(one: Held, other: Held): boolean {
  return one[0] > other[0] || (one[0] === other[0] && one[1] > other[1]);
}

/** Of times in the same parts. */
function plus([whole, rest, parts]: Held, [more, moreRest]: Held): Held {
  const both = rest + moreRest;
  return both < parts ? [whole + more, both, parts] : [whole + more + 1, both - parts, parts];
}

function minus([whole, rest, parts]: Held, [less, lessRest]: Held): Held {
  const left = rest - lessRest;
  return left < 0 ? [whole - less - 1, left + parts, parts] : [whole - less, left, parts];
}
