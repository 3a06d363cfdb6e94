/**
 * Tokens of service accounts, which the API server vouches for. What it said is remembered by the token's SHA-256: of a
 * good one for a while, and until the token expires where the API server cannot be asked; of a bad one for moments.
 *
 * Whoever sends made-up tokens must neither flood the API server nor hold up others: few are asked about at a time and
 * in a second, few of one address wait, and an address whose tokens were bad waits longer each time. A token that was good
 * before is asked about first, whatever else came from its address: there are as many as are remembered at most, and
 * nobody keeps a token alive that was withdrawn.
 */
import { errorText } from '../../process/log/error-text.ts';
import { AddressThrottle } from '../../process/net/address-throttle.ts';
import { addressGroup } from '../../process/net/peer.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { TokenBucket } from '../../process/time/token-bucket.ts';

/** What the API server says of a token: whose it is, or why it is nobody's. Rejects when it cannot be asked. */
export type ReviewToken = (token: string) => Promise<{ user: string } | { problem: string }>;

export type TokenVerdict =
  /** `expiresMs`: milliseconds since 1970. */
  | { is: 'known'; user: string; expiresMs: number }
  | { is: 'unknown'; reason: string }
  /** Nobody knows now; it may be tried again. */
  | { is: 'open'; reason: string };

export type ReviewOutcome = 'known' | 'unknown' | 'failed' | 'not asked';

export interface TokenReviewsOptions {
  audience: string;
  review: ReviewToken;
  perSecond: number;
  /** Good tokens that are remembered. */
  mostKnown: number;
  clock: Clock;
  timers: Timers;
  reviewed(outcome: ReviewOutcome): void;
  failed(reason: string): void;
}

/** Ours: how long a limiter whose account was deleted may still open a stream with its token. */
const freshMs = 60_000;
/** Ours: a token may be shown before the API server has learnt of its account. */
const badMs = 10_000;
const mostBad = 1_000;
const mostAtOnce = 8;
/** Ours, in seconds of reviews: who would wait longer is better told to come again. */
const longestWaitSeconds = 5;
const mostWaiting = 256;
const mostWaitingOfOne = 32;

interface Waiting {
  token: string;
  hash: string;
  network: string;
  settle(verdict: TokenVerdict): void;
}

interface Good {
  user: string;
  expiresMs: number;
  /** Monotonic. */
  freshUntilMs: number;
}

export class TokenReviews {
  readonly #options: TokenReviewsOptions;
  readonly #throttle = new AddressThrottle();
  readonly #bucket: TokenBucket;
  readonly #mostWaiting: number;
  /** The one that was confirmed longest ago comes first. */
  readonly #good = new Map<string, Good>();
  /** Until when it is not asked about again. */
  readonly #bad = new Map<string, number>();
  readonly #underWay = new Map<string, Promise<TokenVerdict>>();
  readonly #queue: Waiting[] = [];
  /** Waiting and asked about, by network. */
  readonly #ofNetwork = new Map<string, number>();
  #running = 0;
  #callOff: (() => void) | undefined;
  #isClosed = false;

  constructor(options: TokenReviewsOptions) {
    const { perSecond } = options;
    this.#options = options;
    this.#bucket = new TokenBucket({ burst: perSecond, perSecond });
    this.#mostWaiting = Math.min(mostWaiting, longestWaitSeconds * perSecond);
  }

  /** At once where it is remembered. `address` is who shows the token. */
  verdict(token: string, hash: string, address: string): TokenVerdict | Promise<TokenVerdict> {
    const { clock, audience } = this.#options;
    const nowMs = clock.monotonicMs();
    const good = this.#goodOf(hash);
    if (good !== undefined && nowMs < good.freshUntilMs) return known(good);
    if (nowMs < (this.#bad.get(hash) ?? Number.NEGATIVE_INFINITY)) return nobodys;
    const problem = claimsProblem(token, audience, clock.nowMs());
    if (problem !== undefined) return { is: 'unknown', reason: problem };
    return this.#underWay.get(hash) ?? this.#ask(token, hash, addressGroup(address), good);
  }

  close(): void {
    this.#isClosed = true;
    this.#callOff?.();
    for (const { settle } of this.#queue.splice(0)) settle(notNow('this replica is shutting down'));
  }

  #goodOf(hash: string): Good | undefined {
    const good = this.#good.get(hash);
    if (good === undefined || good.expiresMs > this.#options.clock.nowMs()) return good;
    this.#good.delete(hash);
    return undefined;
  }

  #ask(
    token: string,
    hash: string,
    network: string,
    good: Good | undefined,
  ): TokenVerdict | Promise<TokenVerdict> {
    const refusal = this.#isClosed
      ? 'this replica is shutting down'
      : good === undefined
        ? this.#fullReason(network)
        : undefined;
    if (refusal !== undefined) {
      this.#options.reviewed('not asked');
      return notNow(refusal);
    }
    this.#count(network, 1);
    const { promise, resolve: settle } = Promise.withResolvers<TokenVerdict>();
    const verdict = promise.finally(() => {
      this.#count(network, -1);
      this.#underWay.delete(hash);
    });
    this.#underWay.set(hash, verdict);
    const waiting = { token, hash, network, settle };
    if (good === undefined) this.#queue.push(waiting);
    else this.#queue.unshift(waiting);
    this.#pump();
    return verdict;
  }

  #fullReason(network: string): string | undefined {
    const waitMs = this.#throttle.waitMs(network, this.#options.clock.monotonicMs());
    if (waitMs > 0) return `too many bad tokens came from this address: wait ${Math.ceil(waitMs / 1000)} s`;
    const isFull =
      this.#queue.length >= this.#mostWaiting || (this.#ofNetwork.get(network) ?? 0) >= mostWaitingOfOne;
    return isFull ? 'too many tokens wait for the API server' : undefined;
  }

  #count(network: string, change: number): void {
    const count = (this.#ofNetwork.get(network) ?? 0) + change;
    if (count === 0) this.#ofNetwork.delete(network);
    else this.#ofNetwork.set(network, count);
  }

  #pump(): void {
    const { clock, timers } = this.#options;
    while (this.#queue.length > 0 && this.#running < mostAtOnce && this.#callOff === undefined) {
      const nowMs = clock.monotonicMs();
      if (this.#bucket.take(nowMs)) {
        void this.#run(this.#queue.shift() as Waiting);
        continue;
      }
      this.#callOff = timers.after(this.#bucket.waitMs(nowMs), () => {
        this.#callOff = undefined;
        this.#pump();
      });
    }
  }

  async #run(waiting: Waiting): Promise<void> {
    this.#running++;
    try {
      waiting.settle(await this.#review(waiting));
    } finally {
      this.#running--;
      this.#pump();
    }
  }

  async #review({ token, hash, network }: Waiting): Promise<TokenVerdict> {
    const { review, reviewed, failed, clock } = this.#options;
    try {
      const answer = await review(token);
      reviewed('user' in answer ? 'known' : 'unknown');
      if ('user' in answer) return this.#remember(hash, answer.user, expiryOf(token));
    } catch (error) {
      reviewed('failed');
      failed(errorText(error));
      const good = this.#goodOf(hash);
      return good === undefined ? notNow('the API server cannot be asked about the token') : known(good);
    }
    const nowMs = clock.monotonicMs();
    this.#good.delete(hash);
    this.#throttle.wrong(network, nowMs);
    this.#bad.delete(hash);
    this.#bad.set(hash, nowMs + badMs);
    forgetOldest(this.#bad, mostBad);
    return nobodys;
  }

  #remember(hash: string, user: string, expiresMs: number): TokenVerdict {
    const good = { user, expiresMs, freshUntilMs: this.#options.clock.monotonicMs() + freshMs };
    this.#good.delete(hash);
    this.#good.set(hash, good);
    forgetOldest(this.#good, this.#options.mostKnown);
    return known(good);
  }
}

const nobodys: TokenVerdict = { is: 'unknown', reason: 'the API server does not know the token' };

function known({ user, expiresMs }: Good): TokenVerdict {
  return { is: 'known', user, expiresMs };
}

function notNow(reason: string): TokenVerdict {
  return { is: 'open', reason };
}

function forgetOldest(map: Map<string, unknown>, most: number): void {
  for (const key of map.keys()) {
    if (map.size <= most) return;
    map.delete(key);
  }
}

/** Why the API server need not be asked about it. Nothing else that the token says of itself is believed. */
function claimsProblem(token: string, audience: string, nowMs: number): string | undefined {
  const claims = claimsOf(token);
  if (claims === undefined) return 'the token is not one of a service account (a JWT)';
  if (![claims['aud']].flat().includes(audience))
    return `the token is not made for the audience "${audience}"`;
  if (expiryOf(token) <= nowMs) return 'the token has expired';
  return undefined;
}

/** In milliseconds since 1970; 0 where it does not say. */
function expiryOf(token: string): number {
  const expiry = claimsOf(token)?.['exp'];
  return typeof expiry === 'number' && Number.isFinite(expiry) ? expiry * 1000 : 0;
}

/** The payload of a JWT, unchecked: RFC 7519, section 3. */
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
