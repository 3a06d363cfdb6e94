/**
 * Max-min fairness: who needs less than an equal share gets what it needs, and the rest is divided among those who need more, in
 * proportion to their weights. All of that follows from one number, the level: each gets the lesser of its need and level x weight.
 *
 * Limiters find the same level without a list of all clients. Each one says what its hungry clients (those above the level)
 * weigh, and what is charged for them and beyond the needs of others; sums of these are enough, and settle in a few messages.
 */
export interface Claim {
  readonly weight: number;
  /** What it is charged with, and what it would be charged with if it got what it needs. */
  readonly charged: number;
  readonly need: number;
}

/** What limiters share with each other: sums over their clients. */
export interface ClaimSums {
  readonly charged: number;
  readonly hungry: number;
}

/**
 * The level at which these claims, the first so many of the list, and the hungry clients of others use up `amount`, and the sums of these
 * claims. Infinite where all can have what they need.
 */
export function fairLevel(
  claims: readonly Claim[],
  amount: number,
  othersHungry: number,
  count = claims.length,
): ClaimSums & { level: number } {
  let level = -1;
  let satisfied = 0;
  let hungry = othersHungry;
  for (let i = 0; i < count; i++) hungry += claims[i]!.weight;
  // Each round finds more claims below the level, which raises it, or is the last one.
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
  for (let i = 0; i < count; i++) {
    const claim = claims[i]!;
    charged += claim.charged - (claim.need > level * claim.weight ? 0 : claim.need);
  }
  return { level, charged, hungry: hungry - othersHungry };
}
