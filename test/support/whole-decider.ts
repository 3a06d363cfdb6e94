import type { ConfigObject } from '../../control-plane/model/config-object.ts';
import type { ClusterDecision, LastAcceptedSpec, StoredSpec } from '../../control-plane/model/decision.ts';
import { VersionedMap } from '../../control-plane/model/versioned-map.ts';
import { acceptedSpecChanges, persistedSpec } from '../../control-plane/reconcile/accepted-specs.ts';
import { Decider, noPolicy, type Policy } from '../../control-plane/reconcile/decide.ts';

type LastAcceptedSpecs = ReadonlyMap<string, LastAcceptedSpec>;

/** Decides on lists of objects. */
export class WholeDecider extends Decider {
  decideAll(
    objects: readonly ConfigObject[],
    kept: LastAcceptedSpecs,
    policy: Policy = noPolicy,
    nowMs = 0,
  ): ClusterDecision {
    return this.decide({
      objects: new Map(objects.map((object) => [object.uid, object])),
      acceptedSpecs: kept,
      policy,
      nowMs,
    });
  }
}

export function changesBetween<T>(
  before: ReadonlyMap<string, T>,
  now: ReadonlyMap<string, T>,
): Map<string, T | undefined> {
  const keys = new Set([...before.keys(), ...now.keys()]);
  return new Map(
    [...keys].filter((key) => before.get(key) !== now.get(key)).map((key) => [key, now.get(key)]),
  );
}

export function nextLastAccepted(decision: ClusterDecision, kept: LastAcceptedSpecs): LastAcceptedSpecs {
  const uids = new Set([...decision.outcomes.keys(), ...kept.keys()]);
  return new Map(VersionedMap.of(kept).with(acceptedSpecChanges(decision, kept, uids)));
}

export function persistedSpecs(
  { outcomes }: ClusterDecision,
  kept: LastAcceptedSpecs,
): Map<string, StoredSpec> {
  const persisted = new Map<string, StoredSpec>();
  for (const [uid, outcome] of outcomes) {
    const spec = persistedSpec(outcome, kept.get(uid));
    if (spec !== undefined) persisted.set(uid, spec);
  }
  return persisted;
}
