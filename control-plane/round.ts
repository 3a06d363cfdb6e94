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
import { type FleetStatuses, fleetStatuses } from './fleets/fleet-status.ts';
import type { ConfigObject } from './model/config-object.ts';
import { type ClusterDecision, noNewerFields } from './model/decision.ts';
import { noVersions, type ObjectVersions, withVersionsOf } from './model/object-versions.ts';
import { changedKeys } from './model/versioned-map.ts';
import { AcceptedSpecs, withUnknownSpec } from './reconcile/accepted-specs.ts';
import { sameStatus } from './reconcile/conditions.ts';
import { type Decider, noPolicy } from './reconcile/decide.ts';
import { VersionLedger } from './reconcile/fleet-rollout.ts';
import { LimiterView, reconnectGraceMs } from './reconcile/limiter-view.ts';
import { unreadSpecs } from './reconcile/rejections.ts';
import {
  afterNotices,
  afterStore,
  evaluateRemovals,
  noRemovals,
  type Removals,
  type RemovalsOptions,
  waitingObjects,
} from './reconcile/removals.ts';
import {
  type BoardChanges,
  type Evaluation,
  emptyBoard,
  evaluateStatuses,
  type LimiterCounts,
  limiterCounts,
  type StatusBoard,
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
export interface RoundState extends Pick<Evaluation, 'inFlight'> {
  wallMs: number;
  monotonicMs: number;
  /** Whether this process leads, by the clock: see `Backing.leads`. */
  leads: boolean;
  /** See `ObjectSource.isGone`. */
  isGone(object: ConfigObject): boolean;
}

export interface RoundOptions {
  decider: Decider;
  /** The `controllerName` in statuses: see `Backing.controllerName`. */
  controllerName: string | undefined;
  /** See `Backing.placeOf`. */
  placeOf?: ((object: ConfigObject) => string | undefined) | undefined;
  /** Undefined without webhooks. */
  removals?: RemovalsOptions | undefined;
}

interface Rhythms {
  readonly snapshots: Rhythm;
  readonly statuses: Rhythm;
  readonly fleets: Rhythm;
}

/** Immutable: each further world leads to a new round. */
export interface Round {
  /** The world that was decided, with what the round found about status writes. The next world follows from it. */
  readonly world: World;
  /** Undefined before the first one. */
  readonly decision: ClusterDecision | undefined;
  /** Objects that were edited since the decision, by uid. */
  readonly edited: ReadonlySet<string>;
  /** The versions of the edits that were decided. */
  readonly edits: ObjectVersions;
  /** The versions up to which all edits were decided. */
  readonly decidedVersions: ObjectVersions;
  /** The reason why the first decision has not been made yet: see `Backing.placeOf`. */
  readonly unread: readonly string[];
  readonly specs: AcceptedSpecs;
  /** Whether the objects may be older than those of the API server. */
  readonly isCutOff: boolean;
  /** The numbers of snapshots. */
  readonly ledger: VersionLedger;
  /** The limiters that were seen. */
  readonly limiters: LimiterView;
  /** Deleted objects. Undefined without webhooks. */
  readonly removals: Removals | undefined;
  /** The statuses after the last evaluation of limiters. */
  readonly board: StatusBoard;
  readonly fleetStatuses: FleetStatuses;
  readonly options: RoundOptions;
  readonly rhythms: Rhythms;
  /** The time, on the monotonic clock, at which objects that are reachable again are certainly up to date. */
  readonly caughtUpMs: number | undefined;
  /** The time, on the monotonic clock, until which the first decision waits for specs that other replicas may know. */
  readonly patienceEndsMs: number | undefined;
  /** The time, on the monotonic clock, since which this process leads and knows the rules that limiters should have. */
  readonly leadsSinceMs: number | undefined;
  /** The time, on the monotonic clock, at which statuses change without news. The wall clock may be set back by hours. */
  readonly statusesDueMs: number;
}

export interface RoundResult {
  /** Whether objects have changed, other than by status writes of this process. */
  isEdited: boolean;
  /** The decision of this round. Undefined if the previous decision remains. */
  decided?: { decision: ClusterDecision; last: ClusterDecision | undefined; changed: ReadonlySet<string> };
  /** Objects for whose specs in force the first decision waits. */
  awaited?: readonly string[];
  /** Unknown fields that decisions wait for, because newer schemas may explain them. */
  doubts?: ReadonlySet<string>;
  /** Set if this process has started or stopped to lead. */
  lead?: 'begins' | 'ends';
  statuses?: BoardChanges;
  fleetStatuses?: ReturnType<typeof fleetStatuses>['entries'];
  /** Deleted objects that no limiter runs any more, and the number of known limiters. */
  removed?: ReturnType<typeof evaluateRemovals>['due'];
  /** The values to store. Missing parts stay unchanged. */
  shared: Partial<StoredState>;
  /** The time after which something changes without news. Undefined if nothing does. */
  waitMs: number | undefined;
}

type Draft = { -readonly [Part in keyof Round]: Round[Part] };
type DraftOutcome = Omit<RoundResult, 'shared' | 'waitMs'> & {
  shared: { -readonly [Part in keyof StoredState]?: StoredState[Part] };
};

const none: ReadonlyMap<string, never> = new Map<string, never>();

export function firstRound(options: RoundOptions): Round {
  return {
    world: unknownWorld,
    decision: undefined,
    edited: new Set(),
    edits: noVersions,
    decidedVersions: noVersions,
    unread: [],
    specs: AcceptedSpecs.none,
    isCutOff: false,
    ledger: VersionLedger.empty(),
    limiters: LimiterView.empty,
    removals: options.removals && noRemovals(options.removals),
    board: emptyBoard(options.controllerName),
    fleetStatuses: new Map(),
    options,
    rhythms: {
      snapshots: Rhythm.of(snapshotRhythm),
      statuses: Rhythm.of(statusRhythm),
      fleets: Rhythm.of(fleetRhythm),
    },
    caughtUpMs: undefined,
    patienceEndsMs: undefined,
    leadsSinceMs: undefined,
    statusesDueMs: Number.POSITIVE_INFINITY,
  };
}

/**
 * Decides a round. Call it after every change, and after `waitMs`. It skips a stage that is not due, or has no new input. Pure: the
 * `Decider` only remembers the results of its last inputs.
 */
export function decide(world: World, last: Round, at: RoundState): { round: Round; outcome: RoundResult } {
  const next: Draft = { ...last, world };
  const outcome: DraftOutcome = { isEdited: followEdits(next, last.world), shared: {} };
  followCut(next, last.world, at, outcome);
  followStore(next, last.world, at);
  followLead(next, last.world, at, outcome);
  if (snapshotsMayDiffer(next, last.world, at, outcome)) ask(next, 'snapshots', at.monotonicMs);
  if (begin(next, 'snapshots', at.monotonicMs)) decideSnapshots(next, at, outcome);
  const isUpToDate = next.edited.size === 0 && next.rhythms.snapshots.dueMs === undefined;
  if (next.decision !== undefined && isUpToDate) next.decidedVersions = world.objectVersions;
  if (outcome.decided || outcome.lead) share(next, at, outcome);
  followRemoved(next, last.world, at, outcome);
  if (outcome.decided || statusesMayDiffer(next, last.world, at, outcome))
    ask(next, 'statuses', at.monotonicMs);
  const isStatusRound = begin(next, 'statuses', at.monotonicMs);
  if (isStatusRound) decideStatuses(next, at, outcome);
  const { fleets = [] } = world;
  if (fleets.length > 0 && (isStatusRound || fleets !== last.world.fleets))
    ask(next, 'fleets', at.monotonicMs);
  if (begin(next, 'fleets', at.monotonicMs) && at.leads) decideFleets(next, at, outcome);
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

/** Returns the state of the limiters that should have the served rules of the object. Undefined if it is unknown. */
export function countsFor(
  { decision, ledger, limiters }: Round,
  { uid }: ConfigObject,
): LimiterCounts | undefined {
  const served = decision?.outcomes.get(uid)?.served;
  const since = ledger.since(uid);
  if (served === undefined || since === undefined) return undefined;
  const standing = limiters.fleet(served.fleet).of(since, served.resource);
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
    if (!leads) outcome.shared.acceptedSpecs = new Map();
  } else if (mayBeStale(before)) next.caughtUpMs = monotonicMs + catchUpMs;
  else if (next.caughtUpMs !== undefined && monotonicMs >= next.caughtUpMs) {
    next.caughtUpMs = undefined;
    next.isCutOff = false;
    // Because of old objects, this replica may have dropped a stored spec that others serve.
    next.specs = next.specs.joinedWith(next.world.acceptedSpecs ?? [], next.decision?.outcomes);
    if (isKnown(next.world)) ask(next, 'snapshots', monotonicMs);
  }
}

function followLead(next: Draft, before: World, { wallMs }: RoundState, outcome: DraftOutcome): void {
  if (next.world.leads === before.leads) return;
  outcome.lead = next.world.leads ? 'begins' : 'ends';
  if (next.world.leads) return;
  next.leadsSinceMs = undefined;
  next.board = emptyBoard(next.options.controllerName);
  next.fleetStatuses = new Map();
  next.world = { ...next.world, writes: next.world.writes.lostLead(wallMs) };
}

/** Returns whether objects, specs that others stored, and policy are known. No decision is made before. */
function isKnown({ objects, acceptedSpecs, policy }: World): boolean {
  return objects !== undefined && acceptedSpecs !== undefined && policy !== undefined;
}

/**
 * Returns whether a new decision is needed. A status write follows from a decision of this process, so it needs no new one. Others may say
 * that other rules are served. If neither generation nor status differ, labels may have changed, and changed back.
 */
function followEdits(next: Draft, { objects: known }: World): boolean {
  const { objects, writes } = next.world;
  if (objects === undefined) return false;
  const before: ReadonlyMap<string, ConfigObject> = known ?? none;
  const mayBeOthers = next.options.controllerName !== undefined;
  const edited = new Set(next.edited);
  let isNews = known === undefined;
  for (const uid of changedKeys(objects, before)) {
    const now = objects.get(uid);
    const last = before.get(uid);
    const isEdit = now?.generation !== last?.generation || sameStatus(now?.status, last?.status);
    if (isEdit) edited.add(uid);
    isNews ||= isEdit || (mayBeOthers && !writes.isOwn(now!));
  }
  next.edited = edited;
  return isNews;
}

function snapshotsMayDiffer(
  { world, decision, patienceEndsMs = Number.POSITIVE_INFINITY }: Draft,
  before: World,
  { wallMs, monotonicMs }: RoundState,
  outcome: DraftOutcome,
): boolean {
  const isNews =
    outcome.isEdited || world.acceptedSpecs !== before.acceptedSpecs || world.policy !== before.policy;
  const isOverrideDue = wallMs >= (decision?.dueMs ?? Number.POSITIVE_INFINITY);
  const isPatienceOver = decision === undefined && monotonicMs >= patienceEndsMs;
  return isKnown(world) && (isNews || isOverrideDue || isPatienceOver);
}

/** Returns whether statuses may differ. Other changes of objects affect them only after a decision. */
function statusesMayDiffer(
  { world, statusesDueMs }: Draft,
  before: World,
  { monotonicMs }: RoundState,
  outcome: DraftOutcome,
): boolean {
  const isNews = (part: keyof World): boolean => world[part] !== before[part];
  const isStatusShown = (isNews('objects') || isNews('left')) && !outcome.isEdited;
  const hasBegun = isNews('leads') && world.leads;
  const isReported = isNews('reports') || isNews('expectations') || isNews('removed');
  return isStatusShown || hasBegun || isReported || isNews('endedWrites') || monotonicMs >= statusesDueMs;
}

function decideSnapshots(next: Draft, at: RoundState, outcome: DraftOutcome): void {
  const { world, options, decision: last } = next;
  const { objects = none, acceptedSpecs: stored = none, policy = noPolicy } = world;
  next.specs = next.specs.joinedWithNewer(stored, last?.outcomes);
  for (;;) {
    const decision = options.decider.decide({
      objects,
      acceptedSpecs: next.specs.known,
      policy,
      nowMs: at.wallMs,
      leads: at.leads,
    });
    const { doubts } = decision.newerFields ?? noNewerFields;
    // Objects that newer schemas may change are not decided yet.
    if (world.confirmed !== undefined && !doubts.isSubsetOf(world.confirmed)) {
      outcome.doubts = doubts;
      return;
    }
    if (last === undefined && isHeld(next, decision)) return;
    const changed = changedKeys(decision.outcomes, last?.outcomes ?? none);
    const { specs, isFinal } = next.specs.after(decision, changed, { ...options, ...at, stored });
    next.specs = specs;
    if (!isFinal) continue;
    if (last === undefined && awaitsSpecs(next, decision, at, outcome)) return;
    next.decision = decision;
    const edited = [...next.edited].flatMap((uid) => objects.get(uid) ?? []);
    next.edits = withVersionsOf(edited, { versions: next.edits, watches: world.objectVersions });
    const edits = { uids: next.edited, versions: next.edits, accesses: policy.accessVersions };
    next.ledger = next.ledger.with(decision, at.wallMs, edits);
    next.edited = new Set();
    outcome.decided = { decision, last, changed };
    return;
  }
}

function followStore(next: Draft, before: World, { monotonicMs, leads }: RoundState): void {
  const { outcomes = none } = next.decision ?? {};
  const { controllerName } = next.options;
  const { acceptedSpecs: stored = none } = next.world;
  const { acceptedSpecs: storedBefore = none } = before;
  if (stored !== storedBefore)
    next.specs = next.specs.following({ before: storedBefore, stored }, { monotonicMs, outcomes });
  const { known } = next.specs;
  next.specs = next.specs.followingLeader(stored, outcomes, {
    monotonicMs,
    isSure: !leads && !next.isCutOff,
    controllerName,
  });
  if (next.specs.known !== known) ask(next, 'snapshots', monotonicMs);
}

/** Returns whether the decision is held back: limiters retain their rules, and a change of the files leads to a new attempt. */
function isHeld(next: Draft, decision: ClusterDecision): boolean {
  const { placeOf } = next.options;
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
  const { controllerName } = next.options;
  const objects = withUnknownSpec(decision, next.specs.known, controllerName);
  if (objects.length === 0) return false;
  if (next.patienceEndsMs === undefined) outcome.awaited = objects;
  next.patienceEndsMs ??= monotonicMs + unknownSpecPatienceMs;
  return true;
}

/** Before the first decision, no replica knows which specs may be deleted. */
function share({ decision, specs, isCutOff }: Draft, { leads }: RoundState, outcome: DraftOutcome): void {
  if (decision === undefined) return;
  // Another replica may have older information than the leader.
  outcome.shared.acceptedSpecs = leads || !isCutOff ? specs.persisted : new Map();
  if (leads && !isCutOff) outcome.shared.decision = decision;
}

function followRemoved(
  next: Draft,
  before: World,
  { leads, wallMs }: RoundState,
  outcome: DraftOutcome,
): void {
  const { removed, notified } = next.world;
  if (next.removals === undefined || (removed === before.removed && notified === before.notified)) return;
  next.removals = afterNotices(next.removals, notified.difference(before.notified), wallMs);
  if (removed !== before.removed)
    next.removals = afterStore(next.removals, removed ?? [], { leads, nowMs: wallMs });
  outcome.shared.removed = waitingObjects(next.removals);
}

function decideStatuses(next: Draft, at: RoundState, outcome: DraftOutcome): void {
  const { world, decision } = next;
  const { wallMs: nowMs, monotonicMs, inFlight } = at;
  const { reports: living, expectations, writes } = world;
  const ledger = next.ledger.followedBy(living.flatMap((report) => report.limiters));
  const limiters = next.limiters.with({ living, expectations, ledger, nowMs });
  next.ledger = ledger;
  next.limiters = limiters;
  if (at.leads && decision !== undefined) next.leadsSinceMs ??= monotonicMs;
  const heldUntilMs = (next.leadsSinceMs ?? Number.NEGATIVE_INFINITY) + reconnectGraceMs;
  const isHeld = monotonicMs < heldUntilMs;
  const awaitsLimiters = next.leadsSinceMs === undefined || isHeld;
  if (decision !== undefined && next.removals !== undefined) {
    const facts = { ...at, decision, ledger, limiters, awaitsLimiters, nowMs };
    const { removals, due } = evaluateRemovals(next.removals, facts);
    next.removals = removals;
    outcome.removed = due;
    if (at.leads) outcome.shared.removed = waitingObjects(removals);
  }
  const dueAt = (ms: number): number => monotonicMs + ms - nowMs;
  next.statusesDueMs = Math.min(dueAt(limiters.dueMs), isHeld ? heldUntilMs : Number.POSITIVE_INFINITY);
  if (decision === undefined || !at.leads) {
    next.board = { ...next.board, decision: undefined };
    return;
  }
  const { objects = none, left, oversize } = world;
  const known = { decision, ledger, limiters, objects, left, writes, inFlight, oversize };
  const evaluated = evaluateStatuses(next.board, { ...known, awaitsLimiters, nowMs });
  next.board = evaluated.board;
  next.world = { ...world, writes: evaluated.writes };
  next.statusesDueMs = Math.min(next.statusesDueMs, dueAt(evaluated.dueMs));
  outcome.statuses = evaluated.changes;
}

function decideFleets(next: Draft, { inFlight, wallMs: nowMs }: RoundState, outcome: DraftOutcome): void {
  const { ledger, limiters, world, fleetStatuses: last } = next;
  const { fleets = [], writes } = world;
  const evaluated = fleetStatuses({ fleets, last, ledger, limiters, writes, inFlight, nowMs });
  next.fleetStatuses = evaluated.statuses;
  next.world = { ...world, writes: evaluated.writes };
  outcome.fleetStatuses = evaluated.entries;
}

/** Returns the wait until something changes without news. Work that is due has already been requested. */
function waitMs(round: Round, { wallMs, monotonicMs }: RoundState): number | undefined {
  const patience = round.decision === undefined ? round.patienceEndsMs : undefined;
  const { snapshots, statuses, fleets } = round.rhythms;
  const rhythms = [snapshots.dueMs, statuses.dueMs, fleets.dueMs];
  const wait = Math.min(
    waitUntil([...rhythms, round.caughtUpMs, patience, round.specs.dueMs, round.statusesDueMs], monotonicMs),
    waitUntil([round.decision?.dueMs], wallMs),
  );
  return wait === Number.POSITIVE_INFINITY ? undefined : Math.min(Math.ceil(wait), longestWaitMs);
}

/** Returns the wait until the first of these times that has not passed. Infinity if there is none. */
function waitUntil(times: readonly (number | undefined)[], nowMs: number): number {
  let wait = Number.POSITIVE_INFINITY;
  for (const ms of times) if (ms !== undefined && ms > nowMs) wait = Math.min(wait, ms - nowMs);
  return wait;
}
