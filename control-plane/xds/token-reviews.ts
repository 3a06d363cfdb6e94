/**
 * Tokens of service accounts, which the API server verifies. Its answers are cached by the token's SHA-256. The answer for a
 * valid token is cached for a while, and until the token expires if the API server does not answer. The answer for an invalid
 * token is cached for moments.
 *
 * A client that sends made-up tokens must neither flood the API server nor delay others, even those behind its own address. So
 * reviews are bounded, both in parallel and per second. Each address has a small budget for unknown tokens. Only bad ones use it
 * up, and it always refills: a valid token is never locked out. Addresses take turns. For an address without budget, a token that
 * was asked to retry, as limiters do, goes before new ones.
 *
 * A token that was valid before is reviewed first and costs no budget. The number of such tokens is bounded by the cache, and a
 * client cannot keep a revoked token valid.
 */
import { errorText } from '../../process/log/error-text.ts';
import { addressGroup } from '../../process/net/peer.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { PacingTokenBucket } from '../../process/time/pacing.ts';

/** Asks the API server for the user of a token, or for the reason why it has none. Rejects if the server cannot be asked. */
export type ReviewToken = (token: string) => Promise<{ user: string; podUid?: string } | { problem: string }>;

export type TokenOutcome =
  /** `expiresMs`: the time in milliseconds since 1970. */
  | { is: 'known'; user: string; podUid?: string | undefined; expiresMs: number }
  | { is: 'unknown'; reason: string }
  /** The result is unknown now. The client may retry. */
  | { is: 'open'; reason: string };

export type ReviewOutcome = 'known' | 'unknown' | 'failed' | 'not asked';

export interface TokenReviewsOptions {
  audience: string;
  review: ReviewToken;
  perSecond: number;
  /** The maximum number of cached valid tokens. */
  maxKnown: number;
  clock: Clock;
  timers: Timers;
  reviewed(outcome: ReviewOutcome): void;
  failed(reason: string): void;
}

/** Chosen: how long a limiter whose account was deleted may still open a stream with its token. */
const freshMs = 60_000;
/** Chosen: a token may be used before the API server knows its account. */
const badMs = 10_000;
const maxBad = 1_000;
const maxAtOnce = 8;
/** Chosen: the rate of bad tokens from one address. */
const badOfOne = { burst: 30, perSecond: 1 };
/** Chosen: the queue in seconds of reviews. Clients that would wait longer are asked to retry. */
const longestWaitSeconds = 5;
const maxWaiting = 256;
/** Chosen: the number of remembered tokens that were asked to retry, at about 100 bytes each. */
const maxTurnedAway = 20_000;
/** Chosen: from this number on, addresses without recent bad tokens are dropped. */
const maxIdleLanes = 256;

interface QueuedReview {
  token: string;
  hash: string;
  /** Undefined if the token was valid before. */
  lane: Lane | undefined;
  /** Whether the token was asked to retry. */
  comesAgain: boolean;
  settle(outcome: TokenOutcome): void;
}

/** Unknown tokens of one address. */
interface Lane {
  budget: PacingTokenBucket;
  /** The token that arrived first is in front. */
  waiting: QueuedReview[];
}

interface Good {
  user: string;
  podUid: string | undefined;
  expiresMs: number;
  /** The time, on the monotonic clock. */
  freshUntilMs: number;
}

export class TokenReviews {
  readonly #options: TokenReviewsOptions;
  readonly #bucket: PacingTokenBucket;
  readonly #maxWaiting: number;
  /** The token that was confirmed longest ago is first. */
  readonly #good = new Map<string, Good>();
  /** The time until which a bad token is not reviewed again. */
  readonly #bad = new Map<string, number>();
  readonly #underWay = new Map<string, Promise<TokenOutcome>>();
  /** The tokens that were valid before. */
  readonly #again: QueuedReview[] = [];
  /** Lanes by network. The lane whose last turn was longest ago is first. */
  readonly #lanes = new Map<string, Lane>();
  /** The number of waiting tokens in all lanes. */
  #waiting = 0;
  /** Tokens by hash that were asked to retry, the oldest first. */
  readonly #turnedAway = new Map<string, true>();
  #running = 0;
  #callOff: (() => void) | undefined;
  #isClosed = false;

  constructor(options: TokenReviewsOptions) {
    const { perSecond } = options;
    this.#options = options;
    this.#bucket = new PacingTokenBucket({ burst: perSecond, perSecond });
    this.#maxWaiting = Math.min(maxWaiting, longestWaitSeconds * perSecond);
  }

  /** Returns the outcome at once if it is cached. `address`: the address of the client. */
  outcome(token: string, hash: string, address: string): TokenOutcome | Promise<TokenOutcome> {
    const { clock, audience } = this.#options;
    const nowMs = clock.monotonicMs();
    const good = this.#goodOf(hash);
    if (good !== undefined && nowMs < good.freshUntilMs) return known(good);
    if (nowMs < (this.#bad.get(hash) ?? Number.NEGATIVE_INFINITY)) return unknownToken;
    const problem = claimsProblem(token, audience, clock.nowMs());
    if (problem !== undefined) return { is: 'unknown', reason: problem };
    const underWay = this.#underWay.get(hash);
    if (underWay !== undefined) return underWay;
    if (this.#isClosed) return this.#notAsked(shuttingDown);
    if (good !== undefined) return this.#ask(token, hash);
    const comesAgain = this.#turnedAway.delete(hash);
    const network = addressGroup(address);
    const lane = this.#lanes.get(network) ?? { budget: new PacingTokenBucket(badOfOne), waiting: [] };
    const fullReason = this.#fullReason(lane, comesAgain, nowMs);
    if (fullReason !== undefined) {
      this.#turnAway(hash);
      return this.#notAsked(fullReason);
    }
    this.#forgetIdleLanes(nowMs);
    this.#lanes.set(network, lane);
    return this.#ask(token, hash, lane, comesAgain);
  }

  close(): void {
    this.#isClosed = true;
    this.#callOff?.();
    const lanes = [...this.#lanes.values()];
    const waiting = [this.#again, ...lanes.map((lane) => lane.waiting)].flatMap((some) => some.splice(0));
    this.#waiting = 0;
    for (const { settle } of waiting) settle(notNow(shuttingDown));
  }

  #goodOf(hash: string): Good | undefined {
    const good = this.#good.get(hash);
    if (good === undefined || good.expiresMs > this.#options.clock.nowMs()) return good;
    this.#good.delete(hash);
    return undefined;
  }

  /**
   * Drops idle lanes. The remaining lanes were used within the time in which a budget refills, or have waiting tokens. So their
   * number is bounded.
   */
  #forgetIdleLanes(nowMs: number): void {
    for (const [network, { budget, waiting }] of this.#lanes) {
      const isIdle = waiting.length === 0 && budget.waitMs(nowMs, badOfOne.burst) === 0;
      if (this.#lanes.size < maxIdleLanes || !isIdle) return;
      this.#lanes.delete(network);
    }
  }

  /** Returns the reason why there is no room. Undefined if there is room. A token that retries displaces a token that does not. */
  #fullReason(lane: Lane, comesAgain: boolean, nowMs: number): string | undefined {
    if (this.#waiting >= this.#maxWaiting) return 'too many tokens wait for a review by the API server';
    const waitMs = lane.budget.waitMs(nowMs, lane.waiting.length + 1);
    if (waitMs <= longestWaitSeconds * 1000) return undefined;
    const last = comesAgain ? lane.waiting.findLastIndex((other) => !other.comesAgain) : -1;
    if (last < 0) return laneIsFull;
    const [other] = lane.waiting.splice(last, 1) as [QueuedReview];
    this.#waiting--;
    this.#turnAway(other.hash);
    other.settle(this.#notAsked(laneIsFull));
    return undefined;
  }

  #turnAway(hash: string): void {
    this.#turnedAway.set(hash, true);
    forgetOldest(this.#turnedAway, maxTurnedAway);
  }

  #notAsked(reason: string): TokenOutcome {
    this.#options.reviewed('not asked');
    return notNow(reason);
  }

  #ask(token: string, hash: string, lane?: Lane, comesAgain = false): Promise<TokenOutcome> {
    const { promise, resolve: settle } = Promise.withResolvers<TokenOutcome>();
    const outcome = promise.finally(() => this.#underWay.delete(hash));
    this.#underWay.set(hash, outcome);
    (lane?.waiting ?? this.#again).push({ token, hash, lane, comesAgain, settle });
    if (lane !== undefined) this.#waiting++;
    this.#pump();
    return outcome;
  }

  #pump(): void {
    const { clock, timers } = this.#options;
    this.#callOff?.();
    this.#callOff = undefined;
    while (this.#running < maxAtOnce) {
      const nowMs = clock.monotonicMs();
      const waitMs = this.#nextWaitMs(nowMs);
      if (waitMs === undefined) return;
      if (waitMs > 0) {
        this.#callOff = timers.after(waitMs, () => this.#pump());
        return;
      }
      this.#bucket.take(nowMs);
      void this.#run(this.#again.shift() ?? this.#nextOfLanes(nowMs));
    }
  }

  /** Returns the wait until a token can be reviewed. Undefined if none waits. */
  #nextWaitMs(nowMs: number): number | undefined {
    let waitMs = this.#again.length > 0 ? 0 : Number.POSITIVE_INFINITY;
    for (const { budget, waiting } of this.#lanes.values()) {
      if (waitMs === 0) break;
      if (waiting.length > 0) waitMs = Math.min(waitMs, budget.waitMs(nowMs));
    }
    return waitMs === Number.POSITIVE_INFINITY ? undefined : Math.max(waitMs, this.#bucket.waitMs(nowMs));
  }

  /** Returns the next token. `#nextWaitMs` ensures that there is one. */
  #nextOfLanes(nowMs: number): QueuedReview {
    for (const [network, lane] of this.#lanes) {
      if (lane.waiting.length === 0 || !lane.budget.take(nowMs)) continue;
      this.#lanes.delete(network);
      this.#lanes.set(network, lane);
      this.#waiting--;
      const next = lane.waiting.findIndex(({ comesAgain }) => comesAgain);
      return lane.waiting.splice(Math.max(0, next), 1)[0] as QueuedReview;
    }
    throw new Error('no token waits');
  }

  async #run(waiting: QueuedReview): Promise<void> {
    this.#running++;
    try {
      const outcome = await this.#review(waiting);
      if (outcome.is !== 'unknown') waiting.lane?.budget.putBack();
      waiting.settle(outcome);
    } finally {
      this.#running--;
      this.#pump();
    }
  }

  async #review({ token, hash }: QueuedReview): Promise<TokenOutcome> {
    const { review, reviewed, failed, clock } = this.#options;
    try {
      const answer = await review(token);
      reviewed('user' in answer ? 'known' : 'unknown');
      if ('user' in answer) return this.#remember(hash, answer, expiryOf(token));
    } catch (error) {
      reviewed('failed');
      failed(errorText(error));
      const good = this.#goodOf(hash);
      return good === undefined ? notNow('the API server cannot be asked about the token') : known(good);
    }
    this.#good.delete(hash);
    this.#bad.delete(hash);
    this.#bad.set(hash, clock.monotonicMs() + badMs);
    forgetOldest(this.#bad, maxBad);
    return unknownToken;
  }

  #remember(
    hash: string,
    { user, podUid }: { user: string; podUid?: string },
    expiresMs: number,
  ): TokenOutcome {
    const good = { user, podUid, expiresMs, freshUntilMs: this.#options.clock.monotonicMs() + freshMs };
    this.#good.delete(hash);
    this.#good.set(hash, good);
    forgetOldest(this.#good, this.#options.maxKnown);
    return known(good);
  }
}

const unknownToken: TokenOutcome = { is: 'unknown', reason: 'the API server does not know the token' };

const shuttingDown = 'this replica is shutting down';
const laneIsFull =
  'too many tokens that the API server does not know came from this address: try again in some seconds';

function known({ user, podUid, expiresMs }: Good): TokenOutcome {
  return { is: 'known', user, expiresMs, ...(podUid === undefined ? {} : { podUid }) };
}

function notNow(reason: string): TokenOutcome {
  return { is: 'open', reason };
}

function forgetOldest(map: Map<string, unknown>, max: number): void {
  for (const key of map.keys()) {
    if (map.size <= max) return;
    map.delete(key);
  }
}

/** Returns the reason why the API server need not review the token. No other claims of the token are trusted. */
function claimsProblem(token: string, audience: string, nowMs: number): string | undefined {
  const claims = claimsOf(token);
  if (claims === undefined) return 'the token is not a service account token (a JWT)';
  if (![claims['aud']].flat().includes(audience)) return `the token is not for the audience "${audience}"`;
  if (expiryOf(token) <= nowMs) return 'the token has expired';
  return undefined;
}

/** Returns the time in milliseconds since 1970. 0 if the token does not have one. */
function expiryOf(token: string): number {
  const expiry = claimsOf(token)?.['exp'];
  return typeof expiry === 'number' && Number.isFinite(expiry) ? expiry * 1000 : 0;
}

/** Returns the payload of a JWT, unchecked: RFC 7519, section 3. */
function claimsOf(token: string): Record<string, unknown> | undefined {
  const [, payload, signature, ...rest] = token.split('.');
  if (payload === undefined || signature === undefined || rest.length > 0) return undefined;
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString());
    return typeof claims === 'object' && claims !== null ? (claims as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
