/** Decides what limiters are served whenever objects have changed, and passes on the snapshots. */
import type { Logger } from '../process/log/logger.ts';
import type { Clock, Timers } from '../process/time/clock.ts';
import { Pace } from '../process/time/pacing.ts';
import { type ConfigObject, kindOf, objectKey } from './model/config-object.ts';
import type { Decision, KeptSpec, ObjectOutcome, StoredSpec } from './model/decision.ts';
import { noNewerFields } from './model/newer-fields.ts';
import { isEnd } from './model/reasons.ts';
import { type Changes, changedKeys, VersionedMap } from './model/versioned-map.ts';
import { type Decider, joinedKept, keptChanges, persistedSpec, withUnknownSpec } from './reconcile/decide.ts';
import type { VersionLedger } from './reconcile/fleet-standing.ts';
import { unreadSpecs } from './reconcile/rejections.ts';
import type { SchemaStore } from './source/schema-store.ts';
import type { Telemetry } from './telemetry/control-plane-metrics.ts';
import * as lines from './telemetry/log-lines.ts';
import { isCut, unknownWorld, type World } from './world.ts';
import type { LimiterStreams } from './xds/limiter-streams.ts';

export interface DistributionOptions extends Telemetry {
  decider: Decider;
  /** See `SchemaStore`; missing: there are no schemas. */
  schemas?: Pick<SchemaStore, 'confirms'> | undefined;
  /** The controller whose statuses say what is in force. Undefined: no other control plane writes any. */
  controllerName?: string | undefined;
  /** See `Backing`. */
  placeOf?: ((object: ConfigObject) => string | undefined) | undefined;
  ledger: VersionLedger;
  xds: Pick<LimiterStreams, 'serve' | 'cutOff'>;
  clock: Clock;
  timers: Timers;
  decided(): void;
}

/** Changes that arrive together are decided together. */
const gatherMs = 5;
/** Many changes are decided ten times a second. Two changes in a row are each decided at once. */
const intervalMs = 100;
const burst = 3;
/** Far longer than a watch that is open again needs to deliver what happened meanwhile. */
const catchUpMs = 1_000;

/** By then, a replica that was paused or disconnected and is the only one with a spec has stored it. */
const unknownSpecPatienceMs = 30_000;

/** Timers hold no more than 24 days. */
const longestWaitMs = 86_400_000;

export class Distribution {
  readonly #options: DistributionOptions;
  readonly #pace: Pace;
  #world = unknownWorld;
  /** The values of the last round. */
  #objects: ReadonlyMap<string, ConfigObject> = new Map();
  #persisted = VersionedMap.of<StoredSpec>();
  /** Uids of kept specs that came from other processes since the last decision. */
  readonly #joined = new Set<string>();
  #decision: Decision | undefined;
  #unread: readonly string[] = [];
  /** When the source reported a change that no limiter was sent yet. */
  #unsentChangeMs: number | undefined;
  #callOffEnd = (): void => {};
  /** Fields that the log has named. */
  readonly #reportedFields = new Set<string>();
  #callOffReturn = (): void => {};
  /** The wait for specs that other replicas may know. Undefined: it has not begun. */
  #callOffPatience: (() => void) | undefined;
  #isPatienceOver = false;
  #isCutOff = false;

  constructor(options: DistributionOptions) {
    const { clock, timers } = options;
    this.#options = options;
    this.#pace = new Pace({ clock, timers, gatherMs, intervalMs, burst, run: () => this.#decide() });
  }

  /** The newest one; undefined before the first complete list. */
  get decision(): Decision | undefined {
    return this.#decision;
  }

  /** Why the first decision is not served yet: see `Backing.placeOf`. */
  get unread(): readonly string[] {
    return this.#unread;
  }

  /** By uid: see `persistedSpec`. */
  get persisted(): ReadonlyMap<string, StoredSpec> {
    return this.#persisted;
  }

  /** Nothing is decided before objects, specs that others stored, and policy are known. */
  learn(world: World): void {
    const last = this.#world;
    this.#world = world;
    if (isCut(world) !== isCut(last)) this.#cutOff(isCut(world));
    const isEdited = world.edits !== last.edits;
    if (isEdited) this.#unsentChangeMs ??= this.#options.clock.monotonicMs();
    const hasKept = world.kept !== last.kept;
    if (hasKept) this.#join([...(world.kept ?? [])]);
    if (isEdited || hasKept || world.policy !== last.policy) this.#ask();
  }

  /** Whether the objects may be older than what the place has by now. */
  get isCutOff(): boolean {
    return this.#isCutOff;
  }

  /** The first limiter is sent what came of a change. */
  sent(): void {
    if (this.#unsentChangeMs === undefined) return;
    this.#options.metrics.changePushed(this.#options.clock.monotonicMs() - this.#unsentChangeMs);
    this.#unsentChangeMs = undefined;
  }

  close(): void {
    this.#callOffReturn();
    this.#callOffPatience?.();
    this.#callOffEnd();
    this.#pace.close();
  }

  #ask(): void {
    const { objects, kept, policy } = this.#world;
    const isReady = objects !== undefined && kept !== undefined && policy !== undefined;
    if (isReady) this.#pace.ask();
  }

  /** See `LimiterStreams.cutOff`. Objects that are reachable again are the newest after a moment. */
  #cutOff(isCutOff: boolean): void {
    const { xds, timers } = this.#options;
    const report = (): void => {
      this.#isCutOff = isCutOff;
      xds.cutOff(isCutOff);
    };
    this.#callOffReturn();
    if (isCutOff) report();
    else {
      this.#callOffReturn = timers.after(catchUpMs, () => {
        report();
        // Old objects may have made this replica forget a stored spec that others serve.
        this.#join([...(this.#world.kept ?? [])]);
        this.#ask();
      });
    }
  }

  #join(stored: readonly (readonly [uid: string, spec: KeptSpec])[]): void {
    const { decider } = this.#options;
    this.#keep(new Map(stored.map(([uid, spec]) => [uid, joinedKept(decider.kept.get(uid), spec)])));
    for (const [uid] of stored) this.#joined.add(uid);
  }

  #keep(changed: ReadonlyMap<string, KeptSpec | undefined>): void {
    this.#options.decider.keep(changed);
    this.#persist(changed.keys());
  }

  #persist(uids: Iterable<string>): void {
    const changed = new Map<string, StoredSpec | undefined>();
    for (const uid of uids) {
      const spec = persistedSpec(this.#decision?.outcomes.get(uid), this.#options.decider.kept.get(uid));
      changed.set(uid, spec);
    }
    this.#persisted = this.#persisted.with(changed);
  }

  /** Objects may be read later than what is stored of them. A decision that knew the generation has forgotten its spec for good. */
  #isBehind(uid: string, generation: number): boolean {
    const known = this.#options.decider.kept.get(uid);
    const newest = known?.generation ?? this.#decision?.outcomes.get(uid)?.object.generation ?? 0;
    return newest < generation;
  }

  #takeChanges(): Changes<ConfigObject> {
    const { objects = this.#objects } = this.#world;
    const uids = changedKeys(objects, this.#objects);
    this.#objects = objects;
    return new Map([...uids].map((uid) => [uid, objects.get(uid)]));
  }

  #decide(): void {
    const { decider, ledger, xds, clock, metrics, log } = this.#options;
    const { kept: stored = new Map(), policy } = this.#world;
    const startMs = clock.monotonicMs();
    const last = this.#decision;
    const nowMs = clock.nowMs();
    this.#join([...stored].filter(([uid, { generation }]) => this.#isBehind(uid, generation)));
    const decision = decider.decide(this.#takeChanges(), policy, nowMs);
    // Objects that newer schemas may change are not decided: the store asks again.
    const { doubts, ignored } = decision.newerFields ?? noNewerFields;
    if (this.#options.schemas?.confirms(doubts) === false) return;
    if (last === undefined && this.#isHeld(decision)) return;
    const changed = changedKeys(decision.outcomes, last?.outcomes ?? new Map());
    const uids = changed.union(this.#joined);
    const kept = keptChanges(decision, decider.kept, uids);
    const surpassed = this.#surpassed(decision, kept);
    if (surpassed.length > 0) {
      decider.keep(new Map(surpassed));
      for (const [uid] of surpassed) this.#joined.add(uid);
      this.#decide();
      return;
    }
    this.#joined.clear();
    decider.keep(kept);
    if (last === undefined && this.#awaitsSpecs(decision)) return;
    this.#awaitEnd(decision, nowMs);
    this.#decision = decision;
    this.#persist(uids);
    ledger.observe(decision, nowMs);
    xds.serve(decision.fleets);
    const durationMs = clock.monotonicMs() - startMs;
    const changedFleets = metrics.decided(decision, durationMs);
    // The change causes no message to limiters.
    if (changedFleets === 0) this.#unsentChangeMs = undefined;
    if (last === undefined || changedFleets > 0) {
      const { outcomes, fleets } = decision;
      lines.decided(log, { objects: outcomes.size, fleets: fleets.size, changedFleets, durationMs });
    }
    for (const field of ignored.difference(this.#reportedFields)) {
      this.#reportedFields.add(field);
      lines.fieldIgnored(log, field);
    }
    for (const uid of changed) {
      const outcome = decision.outcomes.get(uid);
      if (outcome !== undefined) reportNews(log, outcome, last?.outcomes.get(uid));
    }
    this.#options.decided();
  }

  /**
   * A replica that sees an object before what others stored of it may accept a generation that is turned down elsewhere. Once
   * nothing comes of that generation, the stored one is in force: without this, this replica alone would serve nothing.
   */
  #surpassed(
    { outcomes }: Decision,
    changed: ReadonlyMap<string, KeptSpec | undefined>,
  ): [uid: string, stored: KeptSpec][] {
    const { kept } = this.#options.decider;
    return [...changed].flatMap(([uid, next]) => {
      const stored = this.#world.kept?.get(uid);
      if (next !== undefined || stored === undefined || !outcomes.has(uid)) return [];
      return stored.generation < (kept.get(uid)?.generation ?? 0) ? [[uid, stored]] : [];
    });
  }

  /**
   * A replica that begins may find an object that is not accepted, whose spec in force was not stored before all replicas that
   * knew it ended or were cut off. One of them may still come back. Before that, nothing is decided.
   */
  #awaitsSpecs(decision: Decision): boolean {
    if (this.#isPatienceOver) return false;
    const { controllerName, timers, log } = this.#options;
    const objects = withUnknownSpec(decision, this.#options.decider.kept, controllerName);
    if (objects.length === 0) {
      this.#callOffPatience?.();
      return false;
    }
    if (this.#callOffPatience === undefined) {
      lines.specsUnknown(log, { objects: objects.join(', '), waitMs: unknownSpecPatienceMs });
      this.#callOffPatience = timers.after(unknownSpecPatienceMs, () => {
        this.#isPatienceOver = true;
        this.#ask();
      });
    }
    return true;
  }

  /** Limiters keep what they have; a change of the files asks again. */
  #isHeld(decision: Decision): boolean {
    const { log, placeOf } = this.#options;
    const problems = placeOf === undefined ? [] : unreadSpecs(decision, placeOf);
    const isNews = problems.join() !== this.#unread.join();
    this.#unread = problems;
    if (isNews && problems.length > 0) lines.startIsBlocked(log, problems);
    return problems.length > 0;
  }

  /** A timer that is early asks for another one. */
  #awaitEnd({ dueMs }: Decision, nowMs: number): void {
    this.#callOffEnd();
    this.#callOffEnd = () => {};
    if (dueMs === undefined) return;
    const waitMs = Math.min(Math.max(1, Math.ceil(dueMs - nowMs)), longestWaitMs);
    this.#callOffEnd = this.#options.timers.after(waitMs, () => this.#ask());
  }
}

/** Logs an object that is rejected for a new reason, or accepted again. */
function reportNews(
  log: Logger,
  { object, accepted, served }: ObjectOutcome,
  last: ObjectOutcome | undefined,
): void {
  const before = last?.accepted;
  const { generation } = object;
  const { kind } = kindOf(object);
  if (accepted.status) {
    if (before?.status === false) lines.objectAccepted(log, kind, objectKey(object), generation);
    return;
  }
  const { reason, message } = accepted;
  if (before?.status === false && before.message === message) return;
  if (isEnd(reason)) {
    lines.overrideEnded(log, objectKey(object), message);
    return;
  }
  const inForce = served?.generation;
  lines.objectRejected(log, kind, { object: objectKey(object), generation, inForce, reason, message });
}
