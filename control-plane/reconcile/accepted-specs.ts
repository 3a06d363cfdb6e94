/**
 * The specs that were accepted last, which stay in force while a newer one is not accepted, and their fallbacks for limiters that do not
 * support them. Each replica joins its own with those that others stored, so that all replicas serve the same.
 */
import { isOfOther, objectKey } from '../model/config-object.ts';
import type {
  ClusterDecision,
  LastAcceptedSpec,
  ObjectOutcome,
  SpecGeneration,
  StoredSpec,
} from '../model/decision.ts';
import { VersionedMap } from '../model/versioned-map.ts';
import { servedGeneration } from './claims.ts';

type Outcomes = ClusterDecision['outcomes'];
type SpecsByUid = ReadonlyMap<string, LastAcceptedSpec>;

/** Chosen: a leader has stored a fallback that it still serves again by then, even after three failures. */
export const fallbackPatienceMs = 5_000;
/** Chosen: a leader that dropped the same spec has deleted the stored one by then. */
export const returnPatienceMs = 2_000;

/** The `controllerName` in statuses of this control plane. */
interface Named {
  controllerName: string | undefined;
}

interface Parts {
  /** The specs by uid. */
  readonly known: VersionedMap<LastAcceptedSpec>;
  /** The specs by uid that must outlive the process: see `persistedSpec`. */
  readonly persisted: VersionedMap<StoredSpec>;
  /** Uids of objects whose spec in `known` was stored and no longer is. */
  readonly withdrawn: ReadonlySet<string>;
  /** The same for fallbacks, each with the time on the monotonic clock at which it may be dropped. */
  readonly withdrawnFallbacks: ReadonlyMap<string, number>;
  /** Uids of specs that this replica dropped while they were stored, each with the time on the monotonic clock at which it may return. */
  readonly dropped: ReadonlyMap<string, number>;
  /** Uids of stored specs that came from other processes since the last decision. */
  readonly joined: ReadonlySet<string>;
}

/** Immutable. */
export class AcceptedSpecs {
  readonly #parts: Parts;

  private constructor(parts: Parts) {
    this.#parts = parts;
  }

  static readonly none = new AcceptedSpecs({
    known: VersionedMap.of(),
    persisted: VersionedMap.of(),
    withdrawn: new Set(),
    withdrawnFallbacks: new Map(),
    dropped: new Map(),
    joined: new Set(),
  });

  /** See `acceptedSpecChanges`. */
  get known(): VersionedMap<LastAcceptedSpec> {
    return this.#parts.known;
  }

  get persisted(): VersionedMap<StoredSpec> {
    return this.#parts.persisted;
  }

  get withdrawn(): ReadonlySet<string> {
    return this.#parts.withdrawn;
  }

  get joined(): ReadonlySet<string> {
    return this.#parts.joined;
  }

  /** The time on the monotonic clock at which to call `followingLeader`. Infinity if there is no need. */
  get dueMs(): number {
    const { withdrawnFallbacks, dropped } = this.#parts;
    return Math.min(...withdrawnFallbacks.values(), ...dropped.values());
  }

  /** Joins the specs that other processes stored. `outcomes` are those of the last decision. */
  joinedWith(
    stored: Iterable<readonly [uid: string, spec: LastAcceptedSpec]>,
    outcomes?: Outcomes,
  ): AcceptedSpecs {
    const { known, joined } = this.#parts;
    const specs = new Map([...stored].map(([uid, spec]) => [uid, newerAcceptedSpec(known.get(uid), spec)]));
    return this.#with({ known: known.with(specs), joined: joined.union(specs) }).#persist(
      specs.keys(),
      outcomes,
    );
  }

  /** Joins the stored specs that have replaced `before`, and notes which are no longer stored. */
  following(
    { before, stored }: { before: SpecsByUid; stored: SpecsByUid },
    { monotonicMs, outcomes }: { monotonicMs: number; outcomes?: Outcomes | undefined },
  ): AcceptedSpecs {
    const { known, withdrawn, withdrawnFallbacks } = this.#parts;
    const specs = new Set(withdrawn);
    const fallbacks = new Map(withdrawnFallbacks);
    for (const uid of stored.keys()) {
      specs.delete(uid);
      fallbacks.delete(uid);
    }
    for (const [uid, spec] of before) {
      const own = known.get(uid);
      if (stored.has(uid) || own === undefined) continue;
      if (own.generation === spec.generation) specs.add(uid);
      if (own.fallback?.generation === (spec.fallback ?? spec).generation)
        fallbacks.set(uid, monotonicMs + fallbackPatienceMs);
    }
    return this.#with({ withdrawn: specs, withdrawnFallbacks: fallbacks }).joinedWith(stored, outcomes);
  }

  /**
   * Joins stored specs of objects that were read earlier than these specs. A decision that knew the generation has dropped its spec for
   * good.
   */
  joinedWithNewer(stored: SpecsByUid, outcomes?: Outcomes): AcceptedSpecs {
    const isBehind = ([uid, { generation }]: [string, LastAcceptedSpec]): boolean => {
      const newest = this.known.get(uid)?.generation ?? outcomes?.get(uid)?.object.generation ?? 0;
      return newest < generation;
    };
    return this.joinedWith([...stored].filter(isBehind), outcomes);
  }

  /**
   * Returns the specs after a decision by them. If `isFinal` is false, the decision must be made again by the returned specs. `changed`:
   * the objects whose outcome has changed.
   */
  after(
    decision: ClusterDecision,
    changed: ReadonlySet<string>,
    { stored, monotonicMs, controllerName }: { stored: SpecsByUid; monotonicMs: number } & Named,
  ): { specs: AcceptedSpecs; isFinal: boolean } {
    const { known, joined, withdrawn, withdrawnFallbacks, dropped } = this.#parts;
    const uids = changed.union(joined);
    const accepted = acceptedSpecChanges(decision, known, uids);
    const surpassed = this.#surpassed(decision, accepted, stored);
    if (surpassed.size > 0)
      return {
        specs: this.#with({ known: known.with(surpassed), joined: joined.union(surpassed) }),
        isFinal: false,
      };
    const forgotten = this.#forgotten(decision, controllerName);
    const stillWithdrawn = withdrawn.difference(accepted).difference(forgotten);
    if (forgotten.size > 0)
      return {
        specs: this.#with({ known: known.with(forgotten), withdrawn: stillWithdrawn }),
        isFinal: false,
      };
    const hasSameFallback = ([uid]: [string, unknown]): boolean =>
      !accepted.has(uid) || isSameValue(accepted.get(uid)?.fallback, known.get(uid)?.fallback);
    const specs = this.#with({
      known: known.with(accepted),
      withdrawn: stillWithdrawn,
      withdrawnFallbacks: new Map([...withdrawnFallbacks].filter(hasSameFallback)),
      dropped: new Map([
        ...dropped,
        ...[...accepted].flatMap(([uid, next]): [string, number][] =>
          next === undefined && stored.has(uid) ? [[uid, monotonicMs + returnPatienceMs]] : [],
        ),
      ]),
      joined: new Set(),
    });
    return { specs: specs.#persist(uids, decision.outcomes), isFinal: true };
  }

  /**
   * Returns the specs that the other replicas serve, as far as a stored spec shows it. Until a leader has decided about the current
   * generation of an object, and if this replica leads, or if its objects may be old (`isSure` is false), it waits.
   */
  followingLeader(
    stored: SpecsByUid,
    outcomes: Outcomes,
    at: { monotonicMs: number; isSure: boolean } & Named,
  ): AcceptedSpecs {
    if (at.monotonicMs < this.dueMs) return this;
    return this.#withoutWithdrawn(outcomes, at).#withReturned(stored, outcomes, at);
  }

  /**
   * Joins stored specs that the other replicas have not dropped, because the right to the spec ended only for a moment, and this replica
   * alone saw it. According to its status, the leader still serves the spec, or its fallback.
   */
  #withReturned(
    stored: SpecsByUid,
    outcomes: Outcomes,
    { monotonicMs, isSure, controllerName }: { monotonicMs: number; isSure: boolean } & Named,
  ): AcceptedSpecs {
    const dropped = new Map(this.#parts.dropped);
    const returned = new Map<string, LastAcceptedSpec>();
    for (const [uid, dueMs] of this.#parts.dropped) {
      if (monotonicMs < dueMs) continue;
      const spec = stored.get(uid);
      const outcome = outcomes.get(uid);
      if (spec === undefined || outcome === undefined) dropped.delete(uid);
      else if (!isSure || !isDecided(outcome, controllerName))
        dropped.set(uid, monotonicMs + returnPatienceMs);
      else {
        dropped.delete(uid);
        const isServed = servedGeneration(outcome.object.status) === spec.generation;
        if (outcome.accepted.status || isServed) returned.set(uid, spec);
      }
    }
    return this.#with({ dropped }).joinedWith(returned, outcomes);
  }

  /**
   * Drops fallbacks that the other replicas have dropped, because there was a generation in between that this replica did not see. A leader
   * has then deleted the stored fallback, and has stored no other one for a while.
   */
  #withoutWithdrawn(
    outcomes: Outcomes,
    { monotonicMs, isSure, controllerName }: { monotonicMs: number; isSure: boolean } & Named,
  ): AcceptedSpecs {
    const { known } = this.#parts;
    const waiting = new Map(this.#parts.withdrawnFallbacks);
    const dropped = new Map<string, LastAcceptedSpec>();
    for (const [uid, dueMs] of this.#parts.withdrawnFallbacks) {
      if (monotonicMs < dueMs) continue;
      const spec = known.get(uid);
      const outcome = outcomes.get(uid);
      const isDropped = isSure && outcome?.accepted.status && isDecided(outcome, controllerName);
      if (spec?.fallback === undefined || isDropped) waiting.delete(uid);
      else waiting.set(uid, monotonicMs + fallbackPatienceMs);
      if (spec !== undefined && isDropped) dropped.set(uid, { ...spec, fallback: undefined });
    }
    return this.#with({ known: known.with(dropped), withdrawnFallbacks: waiting });
  }

  #with(parts: Partial<Parts>): AcceptedSpecs {
    return new AcceptedSpecs({ ...this.#parts, ...parts });
  }

  #persist(uids: Iterable<string>, outcomes?: Outcomes): AcceptedSpecs {
    const { known, persisted } = this.#parts;
    const changed = new Map<string, StoredSpec | undefined>();
    for (const uid of uids) changed.set(uid, persistedSpec(outcomes?.get(uid), known.get(uid)));
    return this.#with({ persisted: persisted.with(changed) });
  }

  /**
   * Returns stored specs that replace one of this replica. A replica that sees an object before the specs that others stored for it
   * may accept a generation that others reject. Once that generation is not served, the stored spec is in force. Otherwise, this
   * replica alone would serve nothing.
   */
  #surpassed(
    { outcomes }: ClusterDecision,
    accepted: ReadonlyMap<string, LastAcceptedSpec | undefined>,
    stored: SpecsByUid,
  ): Map<string, LastAcceptedSpec> {
    const surpassed = new Map<string, LastAcceptedSpec>();
    for (const [uid, next] of accepted) {
      const other = stored.get(uid);
      if (next !== undefined || other === undefined || !outcomes.has(uid)) continue;
      if (other.generation < (this.known.get(uid)?.generation ?? 0)) surpassed.set(uid, other);
    }
    return surpassed;
  }

  /**
   * Returns the uids of objects whose spec in force the other replicas have dropped, because the object did not belong to this control plane
   * for a while. A replica that was paused does not notice that. A leader has then deleted the stored spec, and its status of the current
   * generation says that nothing is served. A spec that was never stored remains, because this replica may be the only one that knows it.
   */
  #forgotten({ outcomes }: ClusterDecision, controllerName: string | undefined): Map<string, undefined> {
    const forgotten = [...this.#parts.withdrawn].filter((uid) => {
      const outcome = outcomes.get(uid);
      if (outcome === undefined || outcome.accepted.status) return false;
      return isDecided(outcome, controllerName) && servedGeneration(outcome.object.status) === undefined;
    });
    return new Map(forgotten.map((uid) => [uid, undefined]));
  }
}

/** Returns whether a leader has decided about the generation of the object, according to the object's status. */
function isDecided(
  { object: { status, generation } }: ObjectOutcome,
  controllerName: string | undefined,
): boolean {
  return status?.controllerName === controllerName && status?.observedGeneration === generation;
}

export function isSameValue(a: SpecGeneration | undefined, b: SpecGeneration | undefined): boolean {
  return a?.generation === b?.generation && a?.spec === b?.spec;
}

/**
 * Returns, by uid, the specs that stay in force if an object's next spec is rejected, if they differ from `kept`. A spec that is neither
 * accepted nor served is removed.
 */
export function acceptedSpecChanges(
  { outcomes }: ClusterDecision,
  kept: ReadonlyMap<string, LastAcceptedSpec>,
  /** The objects whose outcome or stored spec has changed since the last call. */
  uids: Iterable<string>,
): Map<string, LastAcceptedSpec | undefined> {
  const changed = new Map<string, LastAcceptedSpec | undefined>();
  for (const uid of uids) {
    const before = kept.get(uid);
    const outcome = outcomes.get(uid);
    const next = outcome && acceptedAfter(outcome, before);
    if (next !== before) changed.set(uid, next);
  }
  return changed;
}

function acceptedAfter(
  { object, accepted, served }: ObjectOutcome,
  before: LastAcceptedSpec | undefined,
): LastAcceptedSpec | undefined {
  if (!accepted.status) return served === undefined || served.without !== undefined ? undefined : before;
  const { generation } = object;
  const { fallback, spec } = served!;
  const next = { generation, spec, fallback };
  return before && isSameValue(before, next) && isSameValue(before.fallback, fallback) ? before : next;
}

/** Joins the known specs of an object with those that another process stored. The newer fallback is in force. */
export function newerAcceptedSpec(
  known: LastAcceptedSpec | undefined,
  stored: LastAcceptedSpec,
): LastAcceptedSpec {
  if (known === undefined || known.generation < stored.generation) return stored;
  const isSame = known.generation === stored.generation;
  const { generation, spec } = stored.fallback ?? stored;
  const fallback = isSame ? stored.fallback : { generation, spec };
  const before = known.fallback?.generation ?? 0;
  const isNews = isSame ? before !== (fallback?.generation ?? 0) : before < generation;
  return isNews ? { ...known, fallback } : known;
}

/** Returns the keys of objects that are in force according to their statuses, at an older generation whose spec is unknown. */
export function withUnknownSpec(
  { outcomes }: ClusterDecision,
  kept: ReadonlyMap<string, LastAcceptedSpec>,
  controllerName: string | undefined,
): string[] {
  return [...outcomes.values()].flatMap(({ object, accepted, served }) => {
    if (accepted.status || served !== undefined || kept.has(object.uid)) return [];
    const { status, generation } = object;
    const inForce = isOfOther(status, controllerName) ? undefined : servedGeneration(status);
    return inForce === undefined || inForce >= generation ? [] : [objectKey(object)];
  });
}

/** Returns the spec that some or all limiters get in place of a newer one. Only such specs must outlive the process. */
export function persistedSpec(
  outcome: ObjectOutcome | undefined,
  kept: LastAcceptedSpec | undefined,
): StoredSpec | undefined {
  if (outcome?.served === undefined) return undefined;
  const { accepted, served, object } = outcome;
  const { namespace, name } = object;
  if (!accepted.status) return kept && { ...kept, namespace, name };
  const { fallback } = served;
  return fallback && { generation: fallback.generation, spec: fallback.spec, namespace, name };
}
