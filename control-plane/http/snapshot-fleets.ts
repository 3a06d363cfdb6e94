/** The content of `/snapshot`, ordered by fleet: what is served, to whom, and what follows for each object. */
import { objectKey } from '../model/config-object.ts';
import type { Decision, ObjectOutcome } from '../model/decision.ts';
import { type FleetSnapshot, fleetSnapshot, type LimiterReport } from '../model/fleet-snapshot.ts';
import type { ControlPlaneView } from './listener.ts';
import { type LimiterRow, limiterRow, type ObjectRow, objectRow, type ResourceRow } from './snapshot-rows.ts';

/** One fleet. Its rows are made while they are read, so that a page is written bit by bit. */
export interface FleetPage {
  /** The numbers of what follows in the rows; `version` is null before the first complete list. */
  head: { fleet: string; version: string | null; rules: number; bytes: number };
  resources: Iterable<ResourceRow>;
  limiters: Iterable<LimiterRow>;
  objects: Iterable<ObjectRow>;
}

/** The snapshot that limiters of a fleet without objects get. */
const nothing = fleetSnapshot('', []);

interface Fleet {
  name: string;
  outcomes: ObjectOutcome[];
  limiters: { replica: string; limiter: LimiterReport }[];
}

/** The default fleet of manifests. */
const defaultFleet = 'default';

/**
 * By name; `wanted` leaves the others out. An object that nothing is served for is listed with the fleet that it asks
 * for.
 */
export function fleetPages(view: ControlPlaneView, wanted?: string): readonly FleetPage[] {
  const decision = view.decision();
  return gatherFleets(decision, view)
    .filter(({ name }) => wanted === undefined || name === wanted)
    .sort((a, b) => compare(a.name, b.name))
    .map((fleet) => fleetPage(fleet, decision, view));
}

function gatherFleets(decision: Decision | undefined, view: ControlPlaneView): Fleet[] {
  const fleets = new Map<string, Fleet>();
  const fleetOf = (name: string): Fleet => {
    const fleet = fleets.get(name) ?? { name, outcomes: [], limiters: [] };
    fleets.set(name, fleet);
    return fleet;
  };
  for (const name of decision?.fleets.keys() ?? []) fleetOf(name);
  for (const outcome of decision?.outcomes.values() ?? []) {
    fleetOf(outcome.served?.fleet ?? askedFleet(outcome.object.spec)).outcomes.push(outcome);
  }
  for (const { replica, limiters } of view.reports()) {
    for (const limiter of limiters) fleetOf(limiter.fleet).limiters.push({ replica, limiter });
  }
  return [...fleets.values()];
}

/** `spec` is unchecked here: what cannot be read counts as not said. */
function askedFleet(spec: unknown): string {
  const asked = (spec as { fleet?: unknown } | null | undefined)?.fleet;
  return typeof asked === 'string' && asked !== '' ? asked : defaultFleet;
}

function fleetPage(fleet: Fleet, decision: Decision | undefined, view: ControlPlaneView): FleetPage {
  const snapshot = decision && (decision.fleets.get(fleet.name) ?? nothing);
  const rules = rulesByResource(fleet.outcomes);
  return {
    head: {
      fleet: fleet.name,
      version: snapshot?.version ?? null,
      rules: sum(rules.values()),
      bytes: sum(snapshot?.resources.map(({ bytes }) => bytes.length) ?? []),
    },
    resources: resourceRows(snapshot, rules),
    limiters: limiterRows(fleet, snapshot),
    objects: objectRows(fleet, view),
  };
}

function rulesByResource(outcomes: readonly ObjectOutcome[]): Map<string, number> {
  const rules = new Map<string, number>();
  for (const { served } of outcomes) {
    if (served !== undefined) rules.set(served.resource, (rules.get(served.resource) ?? 0) + served.rules);
  }
  return rules;
}

function* resourceRows(
  snapshot: FleetSnapshot | undefined,
  rules: ReadonlyMap<string, number>,
): Generator<ResourceRow> {
  for (const { name, domain, hash, bytes } of snapshot?.resources ?? []) {
    yield { name, domain, rules: rules.get(name) ?? 0, hash, bytes: bytes.length };
  }
}

function* limiterRows({ limiters }: Fleet, snapshot: FleetSnapshot | undefined): Generator<LimiterRow> {
  limiters.sort((a, b) => compare(a.limiter.name, b.limiter.name) || compare(a.replica, b.replica));
  for (const { replica, limiter } of limiters) yield limiterRow(replica, limiter, snapshot);
}

function* objectRows({ outcomes }: Fleet, view: ControlPlaneView): Generator<ObjectRow> {
  const keyed = outcomes.map((outcome) => ({ key: objectKey(outcome.object), outcome }));
  keyed.sort((a, b) => compare(a.key, b.key));
  for (const { key, outcome } of keyed) yield objectRow(key, outcome, view.statusOf(outcome.object));
}

function sum(numbers: Iterable<number>): number {
  let total = 0;
  for (const number of numbers) total += number;
  return total;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
