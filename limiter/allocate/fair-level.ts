/**
 * Max-min fairness: a client that needs less than an equal share gets what it needs. The rest is divided among those that need more,
 * in proportion to their weights. All of this follows from one number, the level: each client gets the lesser of its need and level x
 * weight.
 *
 * Limiters find the same level without a list of all clients. Each one reports the weight of its hungry clients (those above the
 * level), and the hits that are charged for them and beyond the needs of others. Sums of these are enough, and converge within a few
 * messages.
 */
export interface ShareClaim {
  readonly weight: number;
  /** Hits charged to the client that it has used: in a later window, it has used none. */
  readonly used: number;
  /** The hits charged to the client, and the hits that would be charged to it if it got what it needs. */
  readonly charged: number;
  readonly need: number;
}

/** The sums that limiters share with each other, over their clients. */
export interface ClaimSums {
  readonly charged: number;
  /** As `charged`, in a later window for which no hits are kept yet. */
  readonly ahead: number;
  readonly hungry: number;
}

/**
 * Returns the level at which the first `count` claims and the hungry clients of other limiters use up `amount`, and the sums of these
 * claims. The level is infinite if all can have what they need.
 */
export function fairLevel(
  claims: readonly ShareClaim[],
  amount: number,
  othersHungry: number,
  count = claims.length,
): ClaimSums & { level: number } {
  let level = -1;
  let satisfied = 0;
  let hungry = othersHungry;
  for (let i = 0; i < count; i++) hungry += claims[i]!.weight;
  // Each round finds more claims below the level, which raises it. A round that finds none is the last one.
  for (;;) {
    const next = hungry > 0 ? Math.max(0, (amount - satisfied) / hungry) : Number.POSITIVE_INFINITY;
    if (next <= level) break;
    level = next;
    hungry = othersHungry;
    satisfied = 0;
    for (let i = 0; i < count; i++) {
      const { weight, need } = claims[i]!;
      if (need > level * weight) hungry += weight;
      else satisfied += need;
    }
  }
  let charged = 0;
  let ahead = 0;
  for (let i = 0; i < count; i++) {
    const claim = claims[i]!;
    charged += claim.charged;
    if (claim.need > level * claim.weight) continue;
    charged -= claim.need;
    ahead -= claim.need - claim.used;
  }
  return { level, charged, ahead, hungry: hungry - othersHungry };
}
