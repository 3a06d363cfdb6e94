/**
 * The decisions of a replica, as a function of its information and the previous round. It calls no other part: the control loop carries
 * out the outcome, and the next world contains the results.
 *
 *     objects, stored specs, policy --> snapshots --+--> statuses, news of deleted objects --> statuses of fleets
 *                        reports of limiters -------+
 *
 * Each stage has its own rhythm. An acknowledgement never waits for snapshots, and a status waits a moment for acknowledgements.
 */

import { Rhythm } from '../process/time/pacing.ts';
import { fleetStatuses } from './fleets/fleet-status.ts';
import type { ConfigObject } from './model/config-object.ts';
import type { ClusterDecision, LastAcceptedSpec, StoredSpec } from './model/decision.ts';
import type { PublishedSchemas } from './model/newer-fields.ts';
import { noNewerFields } from './model/newer-fields.ts';
import { changedKeys, VersionedMap } from './model/versioned-map.ts';
import { servedGeneration } from './reconcile/claims.ts';
import {
  acceptedSpecChanges,
  type Decider,
  newerAcceptedSpec,
  noPolicy,
  type ObjectPreview,
  persistedSpec,
  withUnknownSpec,
} from './reconcile/decide.ts';
import { VersionLedger } from './reconcile/fleet-rollout.ts';
import { LimiterView, reconnectGraceMs } from './reconcile/limiter-view.ts';
import type { OverridePreview } from './reconcile/overrides.ts';
import { unreadSpecs } from './reconcile/rejections.ts';
import type { Removals, RemovedObject } from './reconcile/removals.ts';
import {
  type BoardChanges,
  type LimiterCounts,
  limiterCounts,
  StatusBoard,
  type StatusBoardOptions,
} from './reconcile/status-board.ts';
import { type StoredState, unknownWorld, type World } from './world.ts';

/** Many changes lead to ten decisions a second. Each of two changes in a row leads to a decision at once. */
const snapshotRhythm = { gatherMs: 5, intervalMs: 100, burst: 3 };
/** Limiters answer in bursts. */
const statusRhythm = { gatherMs: 20, intervalMs: 100 };
const fleetRhythm = { gatherMs: 100, intervalMs: 1_000 };
/** The longest wait of timers, which support at most 24 days. */
const longestWaitMs = 86_400_000;
/** The time is far longer than a reopened watch needs to deliver missed events. */
const catchUpMs = 1_000;
/** After this wait, a replica that was paused or disconnected, and that alone has a spec, has stored it. */
export const unknownSpecPatienceMs = 30_000;

/** The state that is valid only at the moment of a round. */
export interface RoundState {
  wallMs: number;
  monotonicMs: number;
  /** Whether this process leads, by the clock: see `Backing.leads`. */
  leads: boolean;
}

export interface RoundOptions extends Pick<StatusBoardOptions, 'writes' | 'inFlight' | 'controllerName'> {
  decider: Decider;
  /** See `Backing.placeOf`. */
  placeOf?: ((object: ConfigObject) => string | undefined) | undefined;
  /** See `ObjectSource.isGone`. */
  isGone(object: ConfigObject): boolean;
  /** Undefined without webhooks. */
  removals?: Removals | undefined;
}

/** The state that rounds share: the options, and values that change in place. */
interface Memory {
  readonly options: RoundOptions;
  /** Remembers the results of its last inputs. A new decider makes the same decisions. */
  readonly decider: Decider;
  /** The first seen statuses, and memos of the second stage. */
  readonly board: StatusBoard;
}

interface Rhythms {
  readonly snapshots: Rhythm;
  readonly statuses: Rhythm;
  readonly fleets: Rhythm;
}

export interface Round {
  readonly world: World;
  /** Undefined before the first one. */
  readonly decision: ClusterDecision | undefined;
  /** The reason why the first decision has not been made yet: see `Backing.placeOf`. */
  readonly unread: readonly string[];
  /** Specs by uid that stay in force: see `acceptedSpecChanges`. */
  readonly kept: VersionedMap<LastAcceptedSpec>;
  /** Stored specs by uid: see `persistedSpec`. */
  readonly persisted: VersionedMap<StoredSpec>;
  /** Uids of objects whose spec in `kept` was stored and no longer is. */
  readonly withdrawn: ReadonlySet<string>;
  /** Whether the objects may be older than those of the API server. */
  readonly isCutOff: boolean;
  /** The numbers of snapshots. */
  readonly ledger: VersionLedger;
  /** The limiters that were seen. */
  readonly limiters: LimiterView;
  readonly memory: Memory;
  readonly rhythms: Rhythms;
  /** Uids of stored specs that came from other processes since the last decision. */
  readonly joined: ReadonlySet<string>;
  /** The time, on the monotonic clock, at which objects that are reachable again are certainly up to date. */
  readonly caughtUpMs: number | undefined;
  /** The time, on the monotonic clock, until which the first decision waits for specs that other replicas may know. */
  readonly patienceEndsMs: number | undefined;
  /** The time since which this process leads and knows the rules that limiters should have. */
  readonly leadsSinceMs: number | undefined;
  /** The time at which statuses change without news. */
  readonly statusesDueMs: number;
}

export interface RoundResult {
  /** The decision of this round. Undefined if the previous decision remains. */
  decided?: { decision: ClusterDecision; last: ClusterDecision | undefined; changed: ReadonlySet<string> };
  /** Objects for whose specs in force the first decision waits. */
  awaited?: readonly string[];
  /** Unknown fields that decisions wait for, because newer schemas may explain them. */
  doubts?: ReadonlySet<string>;
  /** Set if this process has started or stopped to lead. */
  lead?: 'begins' | 'ends';
  statuses?: BoardChanges;
  fleetStatuses?: ReturnType<typeof fleetStatuses>;
  /** Deleted objects that no limiter runs any more, and the number of known limiters. */
  removed?: readonly { object: RemovedObject; total: number }[];
  /** The values to store. Missing parts stay unchanged. */
  shared: Partial<StoredState>;
  /** The time after which something changes without news. Undefined if nothing does. */
  waitMs: number | undefined;
}

type Draft = { -readonly [Part in keyof Round]: Round[Part] };
type DraftOutcome = Omit<RoundResult, 'shared' | 'waitMs'> & {
  shared: { -readonly [Part in keyof StoredState]?: StoredState[Part] };
};

export function firstRound(options: RoundOptions): Round {
  return {
    world: unknownWorld,
    decision: undefined,
    unread: [],
    kept: VersionedMap.of(),
    persisted: VersionedMap.of(),
    withdrawn: new Set(),
    isCutOff: false,
    ledger: VersionLedger.empty(),
    limiters: LimiterView.empty,
    memory: { options, decider: options.decider, board: new StatusBoard(options) },
    rhythms: {
      snapshots: Rhythm.of(snapshotRhythm),
      statuses: Rhythm.of(statusRhythm),
      fleets: Rhythm.of(fleetRhythm),
    },
    joined: new Set(),
    caughtUpMs: undefined,
    patienceEndsMs: undefined,
    leadsSinceMs: undefined,
    statusesDueMs: Number.POSITIVE_INFINITY,
  };
}

/** Decides a round. Call it after every change, and after `waitMs`. It skips a stage that is not due, or has no new input. */
export function decide(world: World, last: Round, at: RoundState): { round: Round; outcome: RoundResult } {
  const next: Draft = { ...last, world };
  const outcome: DraftOutcome = { shared: {} };
  followCut(next, last.world, at, outcome);
  if (world.kept !== last.world.kept) followStore(next, last.world);
  followLead(next, last.world, outcome);
  if (snapshotsMayDiffer(next, last.world, at)) ask(next, 'snapshots', at.monotonicMs);
  if (begin(next, 'snapshots', at.monotonicMs)) decideSnapshots(next, at, outcome);
  if (outcome.decided || outcome.lead) share(next, at, outcome);
  if (world.removed !== last.world.removed) useRemoved(next, at, outcome);
  if (outcome.decided || statusesMayDiffer(next, last.world, at)) ask(next, 'statuses', at.monotonicMs);
  const isStatusRound = begin(next, 'statuses', at.monotonicMs);
  if (isStatusRound) decideStatuses(next, at, outcome);
  const { fleets = [] } = world;
  if (fleets.length > 0 && (isStatusRound || fleets !== last.world.fleets))
    ask(next, 'fleets', at.monotonicMs);
  if (begin(next, 'fleets', at.monotonicMs) && at.leads)
    outcome.fleetStatuses = fleetStatuses(fleets, { ...next, nowMs: at.wallMs });
  return { round: next, outcome: { ...outcome, waitMs: waitMs(next, at) } };
}

function ask(next: Draft, stage: keyof Rhythms, monotonicMs: number): void {
  next.rhythms = { ...next.rhythms, [stage]: next.rhythms[stage].asked(monotonicMs) };
}

/** Returns whether a stage begins now. */
function begin(next: Draft, stage: keyof Rhythms, monotonicMs: number): boolean {
  const begun = next.rhythms[stage].begun(monotonicMs);
  if (begun === undefined) return false;
  next.rhythms = { ...next.rhythms, [stage]: begun };
  return true;
}

/** Returns the result for an object that is not stored yet. Changes nothing. */
export function previewObject(
  { memory: { decider } }: Round,
  object: ConfigObject,
  { nowMs, schemas }: { nowMs: number; schemas: PublishedSchemas | undefined },
): ObjectPreview | OverridePreview {
  return object.kind === undefined
    ? decider.preview(object, schemas)
    : decider.previewOverride(object, nowMs, schemas);
}

/** Returns the state of the limiters that should have the served rules of the object. Undefined if it is unknown. */
export function countsFor(
  { decision, ledger, limiters }: Round,
  { uid }: ConfigObject,
): LimiterCounts | undefined {
  const served = decision?.outcomes.get(uid)?.served;
  const since = ledger.since(uid);
  if (served === undefined || since === undefined) return undefined;
  const standing = limiters.fleet(served.fleet).of(since);
  return standing.connected === 0 ? undefined : limiterCounts(standing);
}

/** Returns whether objects may be older than those of the API server. */
function mayBeStale({ isWatchCut, isLeaseCut }: World): boolean {
  return isWatchCut || isLeaseCut;
}

/** Waits a moment until objects that are reachable again are up to date. */
function followCut(
  next: Draft,
  before: World,
  { monotonicMs, leads }: RoundState,
  outcome: DraftOutcome,
): void {
  if (mayBeStale(next.world)) {
    next.isCutOff = true;
    next.caughtUpMs = undefined;
    if (mayBeStale(before)) return;
    outcome.shared.decision = undefined;
    if (!leads) outcome.shared.kept = new Map();
  } else if (mayBeStale(before)) next.caughtUpMs = monotonicMs + catchUpMs;
  else if (next.caughtUpMs !== undefined && monotonicMs >= next.caughtUpMs) {
    next.caughtUpMs = undefined;
    next.isCutOff = false;
    // Because of old objects, this replica may have dropped a stored spec that others serve.
    join(next, next.world.kept ?? []);
    if (isKnown(next.world)) ask(next, 'snapshots', monotonicMs);
  }
}

function followLead(next: Draft, before: World, outcome: DraftOutcome): void {
  if (next.world.leads === before.leads) return;
  outcome.lead = next.world.leads ? 'begins' : 'ends';
  if (next.world.leads) return;
  next.leadsSinceMs = undefined;
  next.memory.board.clear();
}

/** Returns whether objects, specs that others stored, and policy are known. No decision is made before. */
function isKnown({ objects, kept, policy }: World): boolean {
  return objects !== undefined && kept !== undefined && policy !== undefined;
}

function snapshotsMayDiffer(
  { world, decision, patienceEndsMs = Number.POSITIVE_INFINITY }: Draft,
  before: World,
  { wallMs, monotonicMs }: RoundState,
): boolean {
  const isNews = world.edits !== before.edits || world.kept !== before.kept || world.policy !== before.policy;
  const isOverrideDue = wallMs >= (decision?.dueMs ?? Number.POSITIVE_INFINITY);
  const isPatienceOver = decision === undefined && monotonicMs >= patienceEndsMs;
  return isKnown(world) && (isNews || isOverrideDue || isPatienceOver);
}

/** Returns whether statuses may differ. Other changes of objects affect them only after a decision. */
function statusesMayDiffer({ world, statusesDueMs }: Draft, before: World, { wallMs }: RoundState): boolean {
  const isNews = (part: keyof World): boolean => world[part] !== before[part];
  const isStatusShown = isNews('objects') && !isNews('edits');
  const hasBegun = isNews('leads') && world.leads;
  const isReported = isNews('reports') || isNews('expectations') || isNews('removed');
  return isStatusShown || hasBegun || isReported || isNews('setbacks') || wallMs >= statusesDueMs;
}

function decideSnapshots(next: Draft, at: RoundState, outcome: DraftOutcome): void {
  const { world, memory, decision: last } = next;
  const { objects = new Map<string, ConfigObject>(), policy = noPolicy } = world;
  join(
    next,
    [...(world.kept ?? [])].filter(([uid, { generation }]) => isBehind(next, uid, generation)),
  );
  for (;;) {
    const decision = memory.decider.decide({ objects, kept: next.kept, policy, nowMs: at.wallMs });
    const { doubts } = decision.newerFields ?? noNewerFields;
    // Objects that newer schemas may change are not decided yet.
    if (world.confirmed !== undefined && !doubts.isSubsetOf(world.confirmed)) {
      outcome.doubts = doubts;
      return;
    }
    if (last === undefined && isHeld(next, decision)) return;
    const changed = changedKeys(decision.outcomes, last?.outcomes ?? new Map());
    const uids = changed.union(next.joined);
    const kept = acceptedSpecChanges(decision, next.kept, uids);
    const surpassed = surpassedSpecs(next, decision, kept);
    if (surpassed.length > 0) {
      next.kept = next.kept.with(new Map(surpassed));
      next.joined = next.joined.union(new Map(surpassed));
      continue;
    }
    const forgotten = new Map(forgottenSpecs(next, decision).map((uid) => [uid, undefined]));
    next.withdrawn = next.withdrawn.difference(kept).difference(forgotten);
    if (forgotten.size > 0) {
      next.kept = next.kept.with(forgotten);
      continue;
    }
    next.joined = new Set();
    next.kept = next.kept.with(kept);
    if (last === undefined && awaitsSpecs(next, decision, at, outcome)) return;
    next.decision = decision;
    persist(next, uids);
    next.ledger = next.ledger.with(decision, at.wallMs);
    outcome.decided = { decision, last, changed };
    return;
  }
}

/** Joins the specs that other processes stored, and notes which are stored no longer. */
function followStore(next: Draft, { kept: before = new Map() }: World): void {
  const stored = next.world.kept ?? new Map<string, LastAcceptedSpec>();
  const deleted = new Set<string>();
  for (const [uid, { generation }] of before)
    if (!stored.has(uid) && next.kept.get(uid)?.generation === generation) deleted.add(uid);
  next.withdrawn = next.withdrawn.union(deleted).difference(stored);
  join(next, stored);
}

/** Joins the specs that other processes stored. */
function join(next: Draft, stored: Iterable<readonly [uid: string, spec: LastAcceptedSpec]>): void {
  const specs = new Map([...stored].map(([uid, spec]) => [uid, newerAcceptedSpec(next.kept.get(uid), spec)]));
  next.kept = next.kept.with(specs);
  persist(next, specs.keys());
  next.joined = next.joined.union(specs);
}

function persist(next: Draft, uids: Iterable<string>): void {
  const changed = new Map<string, StoredSpec | undefined>();
  for (const uid of uids)
    changed.set(uid, persistedSpec(next.decision?.outcomes.get(uid), next.kept.get(uid)));
  next.persisted = next.persisted.with(changed);
}

/**
 * Returns whether the object was read earlier than the stored spec. A decision that knew the generation has dropped its spec for good.
 */
function isBehind({ decision, kept }: Draft, uid: string, generation: number): boolean {
  const known = kept.get(uid);
  const newest = known?.generation ?? decision?.outcomes.get(uid)?.object.generation ?? 0;
  return newest < generation;
}

/**
 * Returns stored specs that replace one of this replica. A replica that sees an object before the specs that others stored for it
 * may accept a generation that others reject. Once that generation is not served, the stored spec is in force. Otherwise, this
 * replica alone would serve nothing.
 */
function surpassedSpecs(
  { world, kept }: Draft,
  { outcomes }: ClusterDecision,
  changed: ReadonlyMap<string, LastAcceptedSpec | undefined>,
): [uid: string, stored: LastAcceptedSpec][] {
  return [...changed].flatMap(([uid, spec]) => {
    const stored = world.kept?.get(uid);
    if (spec !== undefined || stored === undefined || !outcomes.has(uid)) return [];
    return stored.generation < (kept.get(uid)?.generation ?? 0) ? [[uid, stored]] : [];
  });
}

/**
 * Returns the uids of objects whose spec in force the other replicas have dropped, because the object did not belong to this control plane
 * for a while. A replica that was paused does not notice that. A leader has then deleted the stored spec, and its status of the current
 * generation says that nothing is served. A spec that was never stored remains, because this replica may be the only one that knows it.
 */
function forgottenSpecs({ withdrawn, memory }: Draft, { outcomes }: ClusterDecision): string[] {
  const { controllerName } = memory.options;
  return [...withdrawn].filter((uid) => {
    const { object, accepted } = outcomes.get(uid) ?? {};
    if (object === undefined || accepted?.status) return false;
    const { status, generation } = object;
    const isDecided = status?.controllerName === controllerName && status?.observedGeneration === generation;
    return isDecided && servedGeneration(status) === undefined;
  });
}

/** Returns whether the decision is held back: limiters retain their rules, and a change of the files leads to a new attempt. */
function isHeld(next: Draft, decision: ClusterDecision): boolean {
  const { placeOf } = next.memory.options;
  const problems = placeOf === undefined ? [] : unreadSpecs(decision, placeOf);
  if (problems.join() !== next.unread.join()) next.unread = problems;
  return problems.length > 0;
}

/**
 * Returns whether to wait for specs. A starting replica may find a rejected object whose spec in force was not stored before all replicas
 * that knew it ended or were disconnected. One of them may still return. Until then, no decision is made.
 */
function awaitsSpecs(
  next: Draft,
  decision: ClusterDecision,
  { monotonicMs }: RoundState,
  outcome: DraftOutcome,
): boolean {
  if (next.patienceEndsMs !== undefined && monotonicMs >= next.patienceEndsMs) return false;
  const { controllerName } = next.memory.options;
  const objects = withUnknownSpec(decision, next.kept, controllerName);
  if (objects.length === 0) return false;
  if (next.patienceEndsMs === undefined) outcome.awaited = objects;
  next.patienceEndsMs ??= monotonicMs + unknownSpecPatienceMs;
  return true;
}

/** Before the first decision, no replica knows which specs may be deleted. */
function share({ decision, persisted, isCutOff }: Draft, { leads }: RoundState, outcome: DraftOutcome): void {
  if (decision === undefined) return;
  // Another replica may have older information than the leader.
  outcome.shared.kept = leads || !isCutOff ? persisted : new Map();
  if (leads && !isCutOff) outcome.shared.decision = decision;
}

function useRemoved(next: Draft, { leads, wallMs }: RoundState, outcome: DraftOutcome): void {
  const { removals } = next.memory.options;
  removals?.useStored(next.world.removed ?? [], { leads, nowMs: wallMs });
  outcome.shared.removed = removals?.objects ?? [];
}

function decideStatuses(next: Draft, at: RoundState, outcome: DraftOutcome): void {
  const { world, decision, memory } = next;
  const { board } = memory;
  const nowMs = at.wallMs;
  const { reports: living, expectations } = world;
  const ledger = next.ledger.followedBy(living.flatMap((report) => report.limiters));
  const limiters = next.limiters.with({ living, expectations, ledger, nowMs });
  next.ledger = ledger;
  next.limiters = limiters;
  if (at.leads && decision !== undefined) next.leadsSinceMs ??= nowMs;
  const heldUntilMs = (next.leadsSinceMs ?? Number.NEGATIVE_INFINITY) + reconnectGraceMs;
  const awaitsLimiters = next.leadsSinceMs === undefined || nowMs < heldUntilMs;
  if (decision !== undefined) reportRemoved(next, decision, { ...at, awaitsLimiters }, outcome);
  if (decision !== undefined && at.leads) {
    const { objects = new Map<string, ConfigObject>(), left, oversize } = world;
    const isOversize = (fleet: string): boolean => oversize.has(fleet);
    const known = { decision, ledger, limiters, objects, left, isOversize };
    outcome.statuses = board.evaluate({ ...known, awaitsLimiters, nowMs });
  } else board.missed();
  next.statusesDueMs = Math.min(
    limiters.dueMs,
    board.nextDueMs(nowMs) ?? Number.POSITIVE_INFINITY,
    heldUntilMs > nowMs ? heldUntilMs : Number.POSITIVE_INFINITY,
  );
}

function reportRemoved(
  { ledger, limiters, memory }: Draft,
  decision: ClusterDecision,
  { leads, wallMs, awaitsLimiters }: RoundState & { awaitsLimiters: boolean },
  outcome: DraftOutcome,
): void {
  const { removals, isGone } = memory.options;
  if (removals === undefined) return;
  removals.observe(decision, isGone, wallMs);
  if (!leads) {
    removals.follow(wallMs);
    return;
  }
  const due = awaitsLimiters
    ? []
    : removals.due(
        (fleet) => ledger.newest(fleet)?.number,
        (fleet, resource, since) => limiters.fleet(fleet).mayRun(resource, since),
      );
  outcome.removed = due.map((object) => {
    const total = object.served === null ? 0 : limiters.fleet(object.served.fleet).total;
    return { object, total };
  });
  outcome.shared.removed = removals.objects;
}

/** Returns the wait until something changes without news. Work that is due has already been requested. */
function waitMs(round: Round, { wallMs, monotonicMs }: RoundState): number | undefined {
  const { snapshots, statuses, fleets } = round.rhythms;
  const none = Number.POSITIVE_INFINITY;
  const patience = round.decision === undefined ? round.patienceEndsMs : undefined;
  const rhythms = [snapshots.dueMs, statuses.dueMs, fleets.dueMs];
  const byMonotonic = [...rhythms, round.caughtUpMs, patience].map((ms = none) => ms - monotonicMs);
  const byWall = [round.decision?.dueMs, round.statusesDueMs].map((ms = none) => ms - wallMs);
  const wait = Math.min(...[...byMonotonic, ...byWall].filter((ms) => ms > 0));
  return wait === none ? undefined : Math.min(Math.ceil(wait), longestWaitMs);
}
