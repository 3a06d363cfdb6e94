/** What replicas decide, in texts that can be compared: with what each process remembers, and with an empty cache. */
import { deciderOf } from '../../control-plane/control-loop.ts';
import type { ClusterDecision } from '../../control-plane/model/decision.ts';
import { snapshotFor } from '../../control-plane/model/supported-rules.ts';
import { noCapabilities } from '../../rules/language/capabilities.ts';
import { type SimulatedReplica, settings } from './simulated-replica.ts';

/** The versions that a replica serves, also to limiters that support no capability. */
export function versionsIn({ fleets }: Pick<ClusterDecision, 'fleets'>): string {
  const versions = [...fleets.values()].map((snapshot) => {
    const fallback = snapshotFor(snapshot, noCapabilities);
    return `${snapshot.fleet} ${snapshot.version}/${fallback.version}`;
  });
  return versions.sort().join(', ');
}

/** How the decision of a replica differs from one that follows from the same facts with an empty cache. Undefined: not at all. */
export function differenceOfFresh({ loop, process, podName }: SimulatedReplica): string | undefined {
  const { decision, round, world, backing } = loop!;
  if (decision === undefined || world.objects === undefined || world.policy === undefined) return undefined;
  const fresh = deciderOf(settings, backing.controllerName).decide({
    objects: world.objects,
    acceptedSpecs: round.specs.known,
    policy: world.policy,
    nowMs: process.clock.nowMs(),
    leads: backing.replicas.leads,
  });
  const [is, must] = [textOf(decision), textOf(fresh)];
  return is === must ? undefined : `${podName} decides ${is}, and with an empty cache ${must}`;
}

function textOf(decision: ClusterDecision): string {
  const outcomes = [...decision.outcomes].map(([uid, { accepted, served }]) => {
    const reason = accepted.status ? 'Valid' : accepted.message;
    return `${uid} ${reason} ${served?.generation} ${served?.hash} ${served?.fallback?.generation}`;
  });
  return `${versionsIn(decision)}; ${outcomes.sort().join(', ')}`;
}
