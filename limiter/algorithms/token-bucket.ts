import type { LimitNumbers } from '../../rules/algorithms/algorithm.ts';
import type { CountingAlgorithm } from './algorithm.ts';
import type { AlgorithmBound, Charge, CounterState, ReturnRequest, ReturnResult } from './algorithm-bound.ts';

/**
 * A bucket of `burst` tokens that fills at `requests` per window, as the generic cell rate algorithm. The only state is the time at
 * which the bucket is full again. Each hit moves this time on by window / requests. Hits pass if it is then no further away than the
 * time that fills a whole bucket. So never more than burst + rate x t passes in any time t.
 * The state is whole microseconds, the rest, and the parts that the rest counts: `requests` of the limit that wrote it.
 */
export class TokenBucket implements AlgorithmBound {
  readonly holdsTotal = false;
  readonly capacity: number;
  readonly scriptText: string;
  readonly #requests: number;
  readonly #windowMicros: number;
  /** The time in which one token refills. */
  readonly #whole: number;
  readonly #rest: number;
  /** The time in which the whole bucket refills. */
  readonly #fullWhole: number;
  readonly #fullRest: number;

  constructor({ requests, burst, windowMicros }: LimitNumbers) {
    this.capacity = requests === 0 ? 0 : burst;
    this.#requests = Math.max(1, requests);
    this.#windowMicros = windowMicros;
    this.#whole = Math.floor(windowMicros / this.#requests);
    this.#rest = windowMicros % this.#requests;
    const restOfAll = this.capacity * this.#rest;
    this.#fullWhole = this.capacity * this.#whole + Math.floor(restOfAll / this.#requests);
    this.#fullRest = restOfAll % this.#requests;
    const numbers = [this.capacity, this.#requests, this.#whole, this.#rest, this.#fullWhole, this.#fullRest];
    this.scriptText = `bucket ${numbers.join(' ')}`;
  }

  /**
   * Replaces a time in the past by the current time, and limits a time in the future to that of an empty bucket: a clock was set back, or
   * the burst is smaller.
   */
  stateAt(held: CounterState | undefined, nowMicros: number): CounterState {
    const parts = this.#requests;
    if (held === undefined || held[0] < nowMicros) return [nowMicros, 0, parts];
    // The rest of another rate is rounded up.
    const [whole, rest] = held[2] === parts || held[1] === 0 ? held : ([held[0] + 1, 0] as const);
    const ahead = whole - nowMicros;
    if (ahead > this.#fullWhole || (ahead === this.#fullWhole && rest > this.#fullRest)) {
      return [nowMicros + this.#fullWhole, this.#fullRest, parts];
    }
    return [whole, rest, parts];
  }

  room([whole, rest]: CounterState, nowMicros: number): number {
    const parts = this.#requests;
    let freeWhole = this.#fullWhole - (whole - nowMicros);
    let freeRest = this.#fullRest - rest;
    if (freeRest < 0) {
      freeRest += parts;
      freeWhole -= 1;
    }
    // The quotient of integers is exact.
    if (this.#rest === 0) return Math.min(this.capacity, Math.max(0, Math.floor(freeWhole / this.#whole)));
    // The quotient of two rounded numbers is corrected exactly below.
    const quotient = Math.floor((freeWhole + freeRest / parts) / (this.#whole + this.#rest / parts));
    let tokens = Math.min(this.capacity, Math.max(0, quotient));
    while (tokens > 0 && !this.#fits(tokens, freeWhole, freeRest)) tokens -= 1;
    while (tokens < this.capacity && this.#fits(tokens + 1, freeWhole, freeRest)) tokens += 1;
    return tokens;
  }

  take([whole, rest]: CounterState, hits: number): CounterState {
    if (this.#rest === 0) return [whole + hits * this.#whole, rest, this.#requests];
    const restOfAll = rest + ((hits * this.#rest) % this.#requests);
    const carried = Math.floor((hits * this.#rest) / this.#requests) + Math.floor(restOfAll / this.#requests);
    return [whole + hits * this.#whole + carried, restOfAll % this.#requests, this.#requests];
  }

  used(_: CounterState, room: number): number {
    return this.capacity - room;
  }

  /** Returns the room, because a bucket never goes below empty. */
  maxTaken(held: CounterState, nowMicros: number): number {
    return this.room(held, nowMicros);
  }

  giveBack([whole, rest]: CounterState, hits: number, nowMicros: number): CounterState {
    const unused: CounterState = [nowMicros, 0, this.#requests];
    // Hits of at least the bucket's size fill the bucket, and the sum would not be exact.
    if (hits >= this.capacity) return unused;
    const [givenWhole, givenRest] = this.take(unused, hits);
    const restLeft = rest - givenRest;
    const wholeLeft = whole - (givenWhole - nowMicros) - (restLeft < 0 ? 1 : 0);
    if (wholeLeft < nowMicros) return unused;
    return [wholeLeft, restLeft < 0 ? restLeft + this.#requests : restLeft, this.#requests];
  }

  /**
   * Gives back hits of a charge. Tokens return in the order in which they were taken. Hits that were given back since then may belong to
   * tokens that were taken before, up to the hits of others. In that case, the tokens of this charge have returned earlier by that time.
   * So no more is returned than is still missing.
   */
  giveBackOf(charge: Charge, { held, hits, returned, nowMicros }: ReturnRequest): ReturnResult {
    const parts = held[2];
    const none: CounterState = [0, 0, parts];
    const since = minus(inParts(returned, parts), inParts(charge.returned, parts));
    const max = this.take(none, Math.min(this.capacity, charge.others));
    const isBack = minus(this.stateAt(charge.held, nowMicros), isLater(since, max) ? max : since);
    const own = this.stateAt(isBack, nowMicros);
    const left = this.capacity - this.room(own, nowMicros);
    const given = Math.min(hits, left);
    if (given === 0) return { held, given, returned };
    // To the microsecond: the rest of a token is given back even if a part of it has returned.
    const less = given < left ? this.take(none, given) : minus(own, [nowMicros, 0, parts]);
    const after = this.stateAt(minus(held, less), nowMicros);
    return { held: after, given, returned: plus(inParts(returned, parts), minus(held, after)) };
  }

  untilRoomMicros(held: CounterState, nowMicros: number, hits = 1): number {
    if (hits > this.capacity) return this.#windowMicros;
    // Returns the furthest time at which this many hits still fit. A sum of times might not be exact.
    const [taken, takenRest] = this.take([0, 0, this.#requests], hits);
    const isBorrowed = takenRest > this.#fullRest;
    const max = this.#fullWhole - taken - (isBorrowed ? 1 : 0);
    const maxRest = this.#fullRest - takenRest + (isBorrowed ? this.#requests : 0);
    return Math.max(0, held[0] - nowMicros - max + (held[1] > maxRest ? 1 : 0));
  }

  untilUnusedMicros([whole, rest]: CounterState, nowMicros: number): number {
    return whole - nowMicros + (rest > 0 ? 1 : 0);
  }

  #fits(tokens: number, freeWhole: number, freeRest: number): boolean {
    const restOfAll = tokens * this.#rest;
    const whole = tokens * this.#whole + Math.floor(restOfAll / this.#requests);
    return whole < freeWhole || (whole === freeWhole && restOfAll % this.#requests <= freeRest);
  }
}

/** Converts a time to other parts. The result is the same, or slightly more if the time belongs to another rate. */
function inParts(time: CounterState, parts: number): CounterState {
  return time[2] === parts || time[1] === 0 ? [time[0], time[1], parts] : [time[0] + 1, 0, parts];
}

function isLater(one: CounterState, other: CounterState): boolean {
  return one[0] > other[0] || (one[0] === other[0] && one[1] > other[1]);
}

/** Adds times in the same parts. */
function plus([whole, rest, parts]: CounterState, [more, moreRest]: CounterState): CounterState {
  const both = rest + moreRest;
  return both < parts ? [whole + more, both, parts] : [whole + more + 1, both - parts, parts];
}

function minus([whole, rest, parts]: CounterState, [less, lessRest]: CounterState): CounterState {
  const left = rest - lessRest;
  return left < 0 ? [whole - less - 1, left + parts, parts] : [whole - less, left, parts];
}

export const tokenBucket: CountingAlgorithm = {
  newBound: (numbers) => new TokenBucket(numbers),
  /** Returns the time until the bucket is full. */
  lifeSeconds: ({ requests, burst, windowMicros }) =>
    Math.ceil((burst * (windowMicros / 1_000_000)) / Math.max(1, requests)) + 1,
  /** Returns the time in which one token refills. */
  secondsUncounted: ({ requests, windowMicros }) =>
    Math.ceil(windowMicros / 1_000_000 / Math.max(1, requests)),
  lua: {
    kind: 'bucket',
    helpers: `
local function takeOfBucket(bound, a, b, hits)
  local parts, restOfAll = bound[3], hits * bound[5]
  local rest = b + restOfAll % parts
  return a + hits * bound[4] + floor(restOfAll / parts) + floor(rest / parts), rest % parts, parts
end

local function roomOfBucket(bound, a, b)
  local capacity, parts, whole, rest = bound[2], bound[3], bound[4], bound[5]
  local freeWhole, freeRest = bound[6] - (a - now), bound[7] - b
  if freeRest < 0 then freeWhole, freeRest = freeWhole - 1, freeRest + parts end
  local function fits(tokens)
    local restOfAll = tokens * rest
    local wholes = tokens * whole + floor(restOfAll / parts)
    return wholes < freeWhole or (wholes == freeWhole and restOfAll % parts <= freeRest)
  end
  local quotient = floor((freeWhole + freeRest / parts) / (whole + rest / parts))
  local tokens = math.min(capacity, math.max(0, quotient))
  while tokens > 0 and not fits(tokens) do tokens = tokens - 1 end
  while tokens < capacity and fits(tokens + 1) do tokens = tokens + 1 end
  return tokens
end`,
    stateAt: `
local parts, fullWhole, fullRest = bound[3], bound[6], bound[7]
if not a or a < now then return now, 0, parts end
if c ~= parts and b > 0 then a, b = a + 1, 0 end
local ahead = a - now
if ahead > fullWhole or (ahead == fullWhole and b > fullRest) then return now + fullWhole, fullRest, parts end
return a, b, parts`,
    room: 'return roomOfBucket(bound, a, b)',
    take: 'return takeOfBucket(bound, a, b, hits)',
    giveBack: `
local parts = bound[3]
if hits >= bound[2] then return now, 0, parts end
local whole, rest = takeOfBucket(bound, 0, 0, hits)
whole, rest = a - whole, b - rest
if rest < 0 then whole, rest = whole - 1, rest + parts end
if whole < now then return now, 0, parts end
return whole, rest, parts`,
    maxTaken: 'return roomOfBucket(bound, a, b)',
    giveBackOf: `
local parts = bound[3]
local function inParts(time)
  if time[3] == parts or time[2] == 0 then return time[1], time[2] end
  return time[1] + 1, 0
end
local function minus(whole, rest, less, lessRest)
  if rest < lessRest then return whole - less - 1, rest - lessRest + parts end
  return whole - less, rest - lessRest
end
local whole, rest = inParts(returned)
local since, sinceRest = minus(whole, rest, inParts(charge.returned))
local most, maxRest = takeOfBucket(bound, 0, 0, math.min(bound[2], charge.others))
if most < since or (most == since and maxRest < sinceRest) then since, sinceRest = most, maxRest end
local own, ownRest = stateAt(bound, charge.a, charge.b, charge.c)
own, ownRest = minus(own, ownRest, since, sinceRest)
own, ownRest = stateAt(bound, own, ownRest, parts)
local left = bound[2] - roomOfBucket(bound, own, ownRest)
local given = math.min(hits, left)
if given == 0 then return a, b, c, 0 end
local less, lessRest = own - now, ownRest
if given < left then less, lessRest = takeOfBucket(bound, 0, 0, given) end
local after, afterRest = minus(a, b, less, lessRest)
after, afterRest = stateAt(bound, after, afterRest, parts)
less, lessRest = minus(a, b, after, afterRest)
whole, rest = whole + less, rest + lessRest
if rest >= parts then whole, rest = whole + 1, rest - parts end
returned[1], returned[2], returned[3] = whole, rest, parts
return after, afterRest, c, given`,
  },
};
