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
import { changedKeys, VersionedMap } from '../model/versioned-map.ts';
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

/**
 * How the stored specs of an object differ from those of this replica, until a decision of the leader explains it. Times are on the
 * monotonic clock.
 */
interface StoreDifference {
  /** Its spec in `known` was stored and no longer is. */
  readonly isWithdrawn?: boolean;
  /** The fallback was stored, as such or as the spec in force, and no longer is. It may be dropped at this time. */
  readonly dropFallbackMs?: number | undefined;
  /** This replica dropped the spec while it was stored. It may return at this time. */
  readonly returnMs?: number | undefined;
}

interface Parts {
  /** The specs by uid. */
  readonly known: VersionedMap<LastAcceptedSpec>;
  /** `known` as of the last decision. */
  readonly decided: VersionedMap<LastAcceptedSpec>;
  /** The specs by uid that must outlive the process: see `persistedSpec`. */
  readonly persisted: VersionedMap<StoredSpec>;
  /** Differences by uid. */
  readonly differences: ReadonlyMap<string, StoreDifference>;
}

/** Immutable. */
export class AcceptedSpecs {
  readonly #parts: Parts;

  private constructor(parts: Parts) {
    this.#parts = parts;
  }

  static readonly none = new AcceptedSpecs({
    known: VersionedMap.of(),
    decided: VersionedMap.of(),
    persisted: VersionedMap.of(),
    differences: new Map(),
  });

  /** See `acceptedSpecChanges`. */
  get known(): VersionedMap<LastAcceptedSpec> {
    return this.#parts.known;
  }

  get persisted(): VersionedMap<StoredSpec> {
    return this.#parts.persisted;
  }

  get differences(): ReadonlyMap<string, StoreDifference> {
    return this.#parts.differences;
  }

  /** The time on the monotonic clock at which to call `followingLeader`. Infinity if there is no need. */
  get dueMs(): number {
    const never = Number.POSITIVE_INFINITY;
    const times = [...this.#parts.differences.values()].flatMap(
      ({ dropFallbackMs = never, returnMs = never }) => [dropFallbackMs, returnMs],
    );
    return Math.min(...times);
  }

  /** Joins the specs that other processes stored. `outcomes` are those of the last decision. */
  joinedWith(
    stored: Iterable<readonly [uid: string, spec: LastAcceptedSpec]>,
    outcomes?: Outcomes,
  ): AcceptedSpecs {
    const { known } = this.#parts;
    const specs = new Map([...stored].map(([uid, spec]) => [uid, newerAcceptedSpec(known.get(uid), spec)]));
    return this.#with({ known: known.with(specs) }).#persist(specs.keys(), outcomes);
  }

  /** Joins the stored specs that have replaced `before`, and notes which are no longer stored. */
  following(
    { before, stored }: { before: SpecsByUid; stored: SpecsByUid },
    { monotonicMs, outcomes }: { monotonicMs: number; outcomes?: Outcomes | undefined },
  ): AcceptedSpecs {
    const { known } = this.#parts;
    const noted = new Map<string, StoreDifference>();
    for (const uid of stored.keys()) noted.set(uid, { isWithdrawn: false, dropFallbackMs: undefined });
    for (const [uid, spec] of before) {
      const own = known.get(uid);
      if (stored.has(uid) || own === undefined) continue;
      const isSameFallback = own.fallback?.generation === (spec.fallback ?? spec).generation;
      noted.set(uid, {
        ...(own.generation === spec.generation && { isWithdrawn: true }),
        ...(isSameFallback && { dropFallbackMs: monotonicMs + fallbackPatienceMs }),
      });
    }
    return this.#noting(noted).joinedWith(stored, outcomes);
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
    const { known, decided, differences } = this.#parts;
    const uids = changed.union(changedKeys(known, decided));
    const accepted = acceptedSpecChanges(decision, known, uids);
    const surpassed = this.#surpassed(decision, accepted, stored);
    if (surpassed.size > 0) return { specs: this.#with({ known: known.with(surpassed) }), isFinal: false };
    const forgotten = this.#forgotten(decision, controllerName);
    if (forgotten.size > 0) {
      const explained = [...accepted.keys(), ...forgotten.keys()].map(
        (uid) => [uid, { isWithdrawn: false }] as const,
      );
      return { specs: this.#with({ known: known.with(forgotten) }).#noting(explained), isFinal: false };
    }
    const noted = new Map<string, StoreDifference>();
    for (const [uid, next] of accepted) {
      const before = known.get(uid);
      // The others may have dropped the spec before they accepted this one, and so have no fallback.
      const isDoubtful =
        differences.get(uid)?.isWithdrawn && next?.fallback?.generation === before?.generation;
      const dropFallbackMs = isDoubtful ? monotonicMs + fallbackPatienceMs : undefined;
      noted.set(uid, {
        isWithdrawn: false,
        ...(!isSameValue(next?.fallback, before?.fallback) && { dropFallbackMs }),
        ...(next === undefined && stored.has(uid) && { returnMs: monotonicMs + returnPatienceMs }),
      });
    }
    const next = known.with(accepted);
    const specs = this.#with({ known: next, decided: next }).#noting(noted);
    return { specs: specs.#persist(uids, decision.outcomes), isFinal: true };
  }

  /**
   * Returns the specs that the other replicas serve, as far as a stored spec shows it. Until a leader has decided about the current
   * generation of an object, and if this replica leads, or if its objects may be old (`isSure` is false), it waits.
   *
   * - Fallbacks that the other replicas have dropped, because there was a generation in between that this replica did not see, are dropped.
   *   A leader has then deleted the stored fallback, and has stored no other one for a while.
   * - Stored specs that the other replicas have not dropped return, because the right to the spec ended only for a moment, and this replica
   *   alone saw it. According to its status, the leader still serves the spec, or its fallback.
   */
  followingLeader(
    stored: SpecsByUid,
    outcomes: Outcomes,
    { monotonicMs, isSure, controllerName }: { monotonicMs: number; isSure: boolean } & Named,
  ): AcceptedSpecs {
    if (monotonicMs < this.dueMs) return this;
    const { known, differences } = this.#parts;
    const noted = new Map<string, StoreDifference>();
    const withoutFallback = new Map<string, LastAcceptedSpec>();
    const returned = new Map<string, LastAcceptedSpec>();
    const isDue = (dueMs: number | undefined): boolean => dueMs !== undefined && monotonicMs >= dueMs;
    for (const [uid, { dropFallbackMs, returnMs }] of differences) {
      const outcome = outcomes.get(uid);
      const isExplained = isSure && outcome !== undefined && isDecided(outcome, controllerName);
      const own = known.get(uid);
      if (isDue(dropFallbackMs)) {
        const isDropped = isExplained && outcome.accepted.status;
        const isDone = own?.fallback === undefined || isDropped;
        noted.set(uid, { dropFallbackMs: isDone ? undefined : monotonicMs + fallbackPatienceMs });
        if (own !== undefined && isDropped) withoutFallback.set(uid, { ...own, fallback: undefined });
      }
      if (isDue(returnMs)) {
        const spec = stored.get(uid);
        const served = servedGeneration(outcome?.object.status);
        const returns = isExplained && (outcome.accepted.status || served === spec?.generation);
        // If the leader serves a generation that this replica rejects, the right to it ended here alone, and may return.
        const isDecisive = isExplained && (returns || served === undefined);
        const isDone = spec === undefined || outcome === undefined || isDecisive;
        noted.set(uid, { ...noted.get(uid), returnMs: isDone ? undefined : monotonicMs + returnPatienceMs });
        if (spec !== undefined && returns) returned.set(uid, spec);
      }
    }
    return this.#with({ known: known.with(withoutFallback) })
      .#noting(noted)
      .joinedWith(returned, outcomes);
  }

  /** Adopts changes of differences. */
  #noting(changes: Iterable<readonly [uid: string, change: StoreDifference]>): AcceptedSpecs {
    const differences = new Map(this.#parts.differences);
    for (const [uid, change] of changes) {
      const next = { ...differences.get(uid), ...change };
      const isOver = !next.isWithdrawn && next.dropFallbackMs === undefined && next.returnMs === undefined;
      if (isOver) differences.delete(uid);
      else differences.set(uid, next);
    }
    return this.#with({ differences });
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
    const forgotten = [...this.#parts.differences].filter(([uid, { isWithdrawn }]) => {
      const outcome = isWithdrawn ? outcomes.get(uid) : undefined;
      if (outcome === undefined || outcome.accepted.status) return false;
      return isDecided(outcome, controllerName) && servedGeneration(outcome.object.status) === undefined;
    });
    return new Map(forgotten.map(([uid]) => [uid, undefined]));
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

/**
 * Returns the keys of objects that are in force according to their statuses, at an older generation whose spec is unknown. An even older
 * one, which was stored for limiters that do not support it, may be known.
 */
export function withUnknownSpec(
  { outcomes }: ClusterDecision,
  kept: ReadonlyMap<string, LastAcceptedSpec>,
  controllerName: string | undefined,
): string[] {
  return [...outcomes.values()].flatMap(({ object, accepted, served }) => {
    const { uid, status, generation } = object;
    const inForce = isOfOther(status, controllerName) ? undefined : servedGeneration(status);
    if (accepted.status || inForce === undefined || inForce >= generation) return [];
    const known = Math.max(kept.get(uid)?.generation ?? 0, served?.generation ?? 0);
    return known >= inForce ? [] : [objectKey(object)];
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
