/** The status of a RateLimitFleet: counts, including those that no object contains, and the limiters that reject rules. */
import { noCapabilities } from '../../rules/language/capabilities.ts';
import type { FleetObject, FleetProblem, FleetStatus, FollowedFleet } from '../model/config-object.ts';
import { newCondition } from '../model/reasons.ts';
import type { StatusWrite } from '../model/write-ledger.ts';
import { progress, sameStatus, shortened, stalled, timeText } from '../reconcile/conditions.ts';
import type { FirstSnapshot, FleetRollout } from '../reconcile/fleet-rollout.ts';
import type { Evaluation } from '../reconcile/status-board.ts';

export interface FleetFacts {
  fleet: FleetObject;
  limiters: FleetRollout;
  /** The newest snapshot. Undefined: nothing is served to the fleet. */
  newest: (FirstSnapshot & { version: string }) | undefined;
  /** The problem with the fleet's access rules. */
  problem?: FleetProblem | undefined;
  /** The status before, from which times are copied. */
  previous: FleetStatus | undefined;
  nowMs: number;
}

type FleetCondition = FleetStatus['conditions'][number];
type Finding = ReturnType<typeof newCondition<FleetCondition['type']>>;

/** Chosen: a length for people. `/snapshot` has the whole text. */
const longestWords = 1_000;
const longestProblem = 8_000;
const namesShown = 5;

/** Returns the status, which depends only on the arguments: the same facts a second later give the same status. */
export function fleetStatus(facts: FleetFacts): FleetStatus {
  const { fleet, limiters, newest, problem, previous, nowMs } = facts;
  // Without a snapshot, every limiter is up to date.
  const standing = limiters.of(newest ?? { number: 0, ms: 0, needs: noCapabilities });
  const { joining } = limiters;
  const expected = Math.max(standing.total, fleet.spec.count ?? 0);
  const ready = problem === undefined ? readiness(fleet.name, standing, newest) : unready(problem);
  const findings = [ready, progressing(standing, joining, newest), ...stalled(ready)];
  return {
    observedGeneration: fleet.generation,
    limiters: `${standing.connected}/${expected}`,
    expected,
    connected: standing.connected,
    current: newest === undefined ? 0 : standing.inForce - awayButCurrent(standing),
    joining: joining.length,
    refusing: standing.rejected.items.map(({ name, message }) => ({
      name,
      message: shortened(message, longestWords),
    })),
    ...(newest === undefined ? {} : { version: newest.version }),
    conditions: findings.map((found) => conditionOf(found, { fleet, previous, nowMs })),
  };
}

export interface FleetEvaluation
  extends Pick<Evaluation, 'limiters' | 'ledger' | 'writes' | 'inFlight' | 'nowMs'> {
  fleets: readonly FollowedFleet[];
  /** The statuses of the last evaluation. */
  last: FleetStatuses;
}

/** The status of each fleet by uid, and the object that it is based on. */
export type FleetStatuses = ReadonlyMap<string, StatusWrite<FleetObject>>;

/**
 * Returns the statuses of all fleets. `entries`: those to write, by uid. Undefined if there is nothing left to write. While another status
 * of a fleet is being written, none is offered: the next one follows from the result.
 */
export function fleetStatuses({ fleets, limiters, ledger, inFlight, nowMs, last, ...at }: FleetEvaluation): {
  statuses: FleetStatuses;
  entries: ReadonlyMap<string, StatusWrite<FleetObject> | undefined>;
  writes: Evaluation['writes'];
} {
  let { writes } = at;
  const statuses = new Map<string, StatusWrite<FleetObject>>();
  const entries = new Map<string, StatusWrite<FleetObject> | undefined>();
  for (const { object, problem } of fleets) {
    const { uid, name } = object;
    const { known: fleet, ...found } = writes.look(object, nowMs);
    writes = found.writes;
    const before = last.get(uid);
    const isOfSame = before?.object.resourceVersion === fleet.resourceVersion;
    const status = fleetStatus({
      ...{ fleet, limiters: limiters.fleet(name), newest: ledger.newest(name), problem, nowMs },
      previous: isOfSame ? before?.status : fleet.status,
    });
    const isDue = !inFlight.has(uid) && writes.mayWrite(fleet, nowMs) && !sameStatus(status, fleet.status);
    statuses.set(uid, { object: fleet, status });
    entries.set(uid, isDue ? { object: fleet, status } : undefined);
  }
  const gone = [...last.keys()].filter((uid) => !statuses.has(uid));
  for (const uid of gone) entries.set(uid, undefined);
  return { statuses, entries, writes: writes.without(gone) };
}

type RolloutProgress = ReturnType<FleetRollout['of']>;

/** A disconnected limiter that had the newest rules is expected, and its current rules are unknown. */
function awayButCurrent({ total, connected, away }: RolloutProgress): number {
  return total - connected - away.count;
}

function unready({ reason, message, meanwhile }: FleetProblem): Finding {
  return newCondition('Ready', reason, `${shortened(message, longestProblem)}; ${meanwhile}`);
}

function readiness(name: string, standing: RolloutProgress, newest: FleetFacts['newest']): Finding {
  if (newest === undefined && standing.connected > 0)
    return newCondition('Ready', 'NoRules', `no accepted object names fleet '${name}'`);
  const { reason, message } = progress(name, standing);
  return newCondition('Ready', reason, message);
}

function progressing(
  { pending }: RolloutProgress,
  joining: readonly string[],
  newest: FleetFacts['newest'],
): Finding {
  if (joining.length > 0) {
    const shown = joining.slice(0, namesShown).join(', ');
    const message = joining.length > namesShown ? `${shown} and others are joining` : `joining: ${shown}`;
    return newCondition('Progressing', 'Joining', message);
  }
  if (newest !== undefined && pending.count > 0)
    return newCondition('Progressing', 'Changing', `version ${newest.version} is loading`);
  return newCondition('Progressing', 'Settled', 'no limiter is joining or loading');
}

function conditionOf(
  found: Finding,
  { fleet, previous, nowMs }: Pick<FleetFacts, 'fleet' | 'previous' | 'nowMs'>,
): FleetCondition {
  const before = previous?.conditions.find(({ type }) => type === found.type);
  return {
    ...found,
    lastTransitionTime: before?.status === found.status ? before.lastTransitionTime : timeText(nowMs),
    observedGeneration: fleet.generation,
  };
}
