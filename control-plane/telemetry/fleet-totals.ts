/** Numbers by fleet, for labels: bounded, because whoever may create an object can make up fleets. */
import type { Decision } from '../model/decision.ts';
import { fleetSnapshot } from '../model/fleet-snapshot.ts';
import type { LimiterReport } from '../model/limiter-report.ts';

/** No fleet can be called so. */
export const otherFleets = '_other';

/** Ours: what a scrape takes in a few milliseconds. */
export const mostFleets = 500;

export const limiterStates = ['in_force', 'pending', 'refused'] as const;
export type LimiterState = (typeof limiterStates)[number];

/** Of what fleets without objects are served. */
const emptyVersion = fleetSnapshot('', []).version;

export interface FleetTotals {
  rules: number;
  snapshotBytes: number;
  limiters: Record<LimiterState, number>;
}

/** By fleet that some object is served to, the first `most` by name; the rest together as `otherFleets`, if there is any. */
export function fleetTotals(
  decision: Decision | undefined,
  limiters: Iterable<LimiterReport>,
  most = mostFleets,
): Map<string, FleetTotals> {
  const names = [...(decision?.fleets.keys() ?? [])].sort().slice(0, most);
  const totals = new Map(names.map((name) => [name, noTotals()]));
  const totalsOf = (fleet: string): FleetTotals => {
    const name = totals.has(fleet) ? fleet : otherFleets;
    const found = totals.get(name) ?? noTotals();
    totals.set(name, found);
    return found;
  };
  for (const { fleet, resources } of decision?.fleets.values() ?? []) {
    const total = totalsOf(fleet);
    for (const { bytes } of resources) total.snapshotBytes += bytes.length;
  }
  for (const { served } of decision?.verdicts.values() ?? []) {
    if (served !== undefined) totalsOf(served.fleet).rules += served.rules;
  }
  for (const limiter of limiters) {
    const version = decision && (decision.fleets.get(limiter.fleet)?.version ?? emptyVersion);
    totalsOf(limiter.fleet).limiters[stateOf(limiter, version)] += 1;
  }
  return totals;
}

function stateOf({ acceptedVersion, refusal }: LimiterReport, version: string | undefined): LimiterState {
  if (version === undefined) return 'pending';
  if (acceptedVersion === version) return 'in_force';
  return refusal?.version === version ? 'refused' : 'pending';
}

function noTotals(): FleetTotals {
  return { rules: 0, snapshotBytes: 0, limiters: { in_force: 0, pending: 0, refused: 0 } };
}
