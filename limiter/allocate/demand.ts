/** Computes the need of each client of a pool, and from these the fair level of each limit. */
import type { AccountedLimit } from './account.ts';
import { fairLevel, type ShareClaim } from './fair-level.ts';
import type { Grants } from './grants.ts';
import type { PoolClient } from './pool-client.ts';
import type { GrantedBucket } from './terms.ts';

/** Envoy's report interval. The limiter sends what a client needs until its next report, plus some extra for a delay. */
export const reportMs = 5_000;
type Newest = Grants['newest'];
type Proposed = GrantedBucket | undefined;

/** A pool, as demand and forms see it. */
export interface SharedPool {
  readonly members: ReadonlySet<PoolClient>;
  readonly limits: readonly AccountedLimit[];
  readonly rules: FormRules;
  /** The weight of all members. */
  readonly weight: number;
  /** From 0 to below 1. */
  readonly random: () => number;
}

/** How one form sizes buckets. */
export interface FormRules {
  readonly refills: boolean;
  /** Returns how many hits of the current window may be charged by now. */
  released(limit: AccountedLimit, nowMs: number): number;
  /** Returns what a client needs. `most`: an equal share. `leftSeconds`: until the window ends. */
  need(perSecond: number, max: number, leftSeconds: number): number;
  /** Returns the hits of the current window that meet a need. */
  claim(need: number, rate: number, limit: AccountedLimit, released: number, nowMs: number): number;
  /**
   * Returns the bucket to propose; undefined if the member has enough, or if no hits are available. `newest`: its newest one that
   * lasts until another one arrives. `isChanged`: the limits have changed, and the member may have too many hits.
   */
  bucketFor(pool: SharedPool, member: PoolClient, newest: Newest, need: number, isChanged: boolean): Proposed;
  /** Reduces a bucket for a member to the free hits; undefined if its newest one is worth more. */
  within(bucket: GrantedBucket, member: PoolClient, limits: readonly AccountedLimit[]): Proposed;
  /** Returns the time from which clients are denied everything for a moment; infinite if they are not. */
  clearsFromMs(limits: readonly AccountedLimit[]): number;
  /** Whether it is this client's moment. */
  clears(member: PoolClient, limits: readonly AccountedLimit[], nowMs: number): boolean;
}

/** Claims for the level that is being computed. They are reused: with many clients, new ones would be most of the garbage. */
const claims: { -readonly [Name in keyof ShareClaim]: number }[] = [];

/** Finds the level of each limit, and the sums for other limiters. A client that has not reported for `ttlMs` needs nothing more. */
export function findLevels(pool: SharedPool, ttlMs: number, nowMs: number): void {
  const { limits, members, rules } = pool;
  for (const limit of limits) {
    const account = limit.current;
    const released = rules.released(limit, nowMs);
    let count = 0;
    for (const member of members) {
      const claim = claims[count] ?? { weight: 0, used: 0, charged: 0, need: 0 };
      claims[count++] = claim;
      const { keeps, used: usedOfAll } = member.partOf(account);
      // For a refilling bucket, `keeps` includes what was used of it.
      const used = rules.refills ? 0 : usedOfAll;
      claim.weight = member.holder.weight;
      claim.used = used;
      claim.charged = used + keeps;
      claim.need = claim.charged;
      if (nowMs - member.grants.reportedMs >= ttlMs) continue;
      const need = needOf(pool, member, nowMs);
      claim.need = used + Math.max(keeps, rules.claim(need, member.rate ?? 0, limit, released, nowMs));
    }
    const { top, charged, refunded, othersCharged, othersHungry } = account;
    const ofOthers = top - (charged - refunded) - othersCharged;
    const found = fairLevel(claims, released - ofOthers, othersHungry, count);
    limit.level = found.level;
    limit.charged = found.charged;
    limit.ahead = found.ahead;
    limit.hungry = found.hungry;
  }
}

/**
 * Returns the hits needed until the report after the next; in the refilling form, per second. Never more than an equal share beyond
 * what it has.
 */
export function needOf(pool: SharedPool, { rate, holder: { weight } }: PoolClient, nowMs: number): number {
  let max = Number.POSITIVE_INFINITY;
  let fair = Number.POSITIVE_INFINITY;
  let leftSeconds = Number.POSITIVE_INFINITY;
  for (const { terms, current } of pool.limits) {
    const share = (terms.requests * weight) / Math.max(weight, pool.weight + current.othersHungry);
    max = Math.min(max, share);
    fair = Math.min(fair, share / terms.lengthSeconds);
    leftSeconds = Math.min(leftSeconds, (current.endMs - nowMs) / 1000);
  }
  return pool.rules.need(rate ?? fair, max, leftSeconds);
}
