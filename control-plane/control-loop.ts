/**
 * The part of a replica that needs no ports: it collects news, decides, and carries out the results.
 *
 *     backing, limiters --> learn --> decide --> apply --> limiters, statuses, shared values, events and webhooks
 */
import { packageVersion } from '../process/files/package-file.ts';
import { LogThrottle } from '../process/log/log-throttle.ts';
import type { Logger } from '../process/log/logger.ts';
import { Pace } from '../process/time/pacing.ts';
import { Announcer, type AnnouncerOptions } from './announcer.ts';
import type { Backing, OpenBacking, OpenBackingOptions } from './backing.ts';
import { type ConfigObject, kindOf, objectKey } from './model/config-object.ts';
import type { ClusterDecision, ObjectOutcome } from './model/decision.ts';
import { parseDomainOwners } from './model/domain-owners.ts';
import { isEndReason } from './model/reasons.ts';
import { CollisionWatch, type CollisionWatchOptions } from './reconcile/collision-watch.ts';
import { Decider } from './reconcile/decide.ts';
import type { ObjectPreview } from './reconcile/spec-reading.ts';
import { countsOf } from './reconcile/status-board.ts';
import { isOfFleet, type StatusEntry, StatusQueue } from './replicas/status-queue.ts';
import { StatusPump } from './replicas/status-writer.ts';
import {
  countsFor,
  decide,
  firstRound,
  type Round,
  type RoundResult,
  unknownSpecPatienceMs,
} from './round.ts';
import type { ControlPlaneSettings } from './settings/table.ts';
import type { SourceListener } from './source/kubernetes-source.ts';
import { lines } from './telemetry/log-lines.ts';
import { unknownWorld, type World } from './world.ts';
import { LimiterStreams, type LimiterStreamsOptions } from './xds/limiter-streams.ts';

export interface ControlLoopOptions
  extends Omit<OpenBackingOptions, 'learn'>,
    Pick<LimiterStreamsOptions, 'maxStreams' | 'fleetsOfClients'> {
  openBacking: OpenBacking;
  /** The function that sends webhooks, if there are any: see `Webhooks.notify`. */
  notify: NonNullable<AnnouncerOptions['notify']>;
  searchCollisions: CollisionWatchOptions['search'];
  /** Called once when the first decision is made and rules can be served. */
  serving(): void;
}

/** The wait is far shorter than the time within which a status must be correct. */
const reportGatherMs = 10;
const reportIntervalMs = 100;
/** A leader may have ended as long ago as the Lease object's duration, and may have written its last status shortly before. */
const webhookRepeatMarginMs = 30_000;

export class ControlLoop {
  readonly backing: Backing;
  readonly streams: LimiterStreams;
  readonly #options: ControlLoopOptions;
  /** Limiters answer in bursts. */
  readonly #reportPace: Pace;
  readonly #queue: StatusQueue;
  readonly #pump: StatusPump;
  readonly #announcer: Announcer;
  /** Undefined without an API server, because there are no events then. */
  readonly #collisions: CollisionWatch | undefined;
  /** Deleted objects without a webhook, because too many wait. */
  readonly #drops: LogThrottle<undefined>;
  #world = unknownWorld;
  #round: Round;
  #isDeciding = false;
  #callOff = (): void => {};
  /** The time when the source reported a change that was not sent to any limiter yet. */
  #unsentChangeMs: number | undefined;
  /** Fields that the log has named. */
  readonly #reportedFields = new Set<string>();
  /** Whether this process leads, and has not repeated webhooks of its predecessor yet. */
  #isNewLeader = false;
  /** Whether statuses are left to the next leader. */
  #isEnding = false;
  #isClosed = false;

  /** Throws if the settings name no source of objects. */
  constructor(options: ControlLoopOptions) {
    const { settings, replica, notify } = options;
    const hasWebhooks = settings.webhookUrls.length > 0;
    this.#options = options;
    this.backing = options.openBacking({
      ...options,
      learn: (news) => this.#learn(typeof news === 'function' ? news(this.#world) : news),
    });
    this.streams = this.#createStreams(replica);
    this.#reportPace = new Pace({
      ...options,
      gatherMs: reportGatherMs,
      intervalMs: reportIntervalMs,
      run: () => this.backing.replicas.publish(this.streams.limiters(), this.#round.decidedVersions),
    });
    this.#queue = new StatusQueue({ writesPerSecond: settings.statusWritesPerSecond });
    const { log, clock } = options;
    const max = settings.webhookQueueSize;
    this.#drops = new LogThrottle(clock, (_, count) => lines.removedDropped(log, { count, max }));
    this.#announcer = new Announcer({
      ...options,
      notify: hasWebhooks ? notify : undefined,
      events: this.backing.events,
      limitersOf: (object) => countsFor(this.#round, object),
      repeatMs: this.#repeatMs,
    });
    this.#pump = this.#createPump();
    this.#round = this.#firstRound();
    if (settings.source === 'KUBERNETES') {
      const { events } = this.backing;
      this.#collisions = new CollisionWatch({ ...options, events, search: options.searchCollisions });
    }
  }

  /** The newest decision; undefined before the first complete list. */
  get decision(): ClusterDecision | undefined {
    return this.#round.decision;
  }

  get world(): World {
    return this.#world;
  }

  /** The last round. */
  get round(): Round {
    return this.#round;
  }

  /** Problems of unread manifests: see `Round.unread`. */
  get unread(): readonly string[] {
    return this.#round.unread;
  }

  get isServing(): boolean {
    return this.#round.decision !== undefined;
  }

  /** The number of statuses that wait to be written. */
  get statusesWaiting(): number {
    return this.#queue.size + this.#pump.paused;
  }

  /** Whether several objects may define rules for one domain of a fleet. */
  get mergesDomains(): boolean {
    return this.#options.settings.mergeDomainConfig;
  }

  /** Returns the result for an object that is not stored yet. */
  preview(object: ConfigObject): ObjectPreview {
    const { decider } = this.#round.options;
    return decider.preview(object, this.#options.clock.nowMs(), this.backing.schemas?.known);
  }

  async start(): Promise<void> {
    this.backing.start();
    await this.backing.source.start(this.#sourceListener());
  }

  /** Stops writing statuses. Resolves when no write is in progress. */
  closeStatuses(): Promise<void> {
    this.#isEnding = true;
    return this.#pump.close();
  }

  /** Closes the source. Call it after `closeStatuses`, and before `close` of `backing`. */
  closeSource(): Promise<void> {
    this.#isClosed = true;
    this.#callOff();
    this.#collisions?.close();
    this.#reportPace.close();
    return this.backing.source.close();
  }

  #sourceListener(): SourceListener {
    const { source } = this.backing;
    return {
      changed: () =>
        this.#learn({
          objects: source.objects,
          objectVersions: { ...this.#world.objectVersions, ...source.versions },
          left: source.left(),
        }),
      cutOff: (isWatchCut) => this.#learn({ isWatchCut }),
    };
  }

  #learn(news: Partial<World>): void {
    this.#world = { ...this.#world, ...news };
    this.#decide();
  }

  /** Decides. News that arrives while a result is applied leads to another decision afterward. */
  #decide(): void {
    if (this.#isDeciding || this.#isClosed) return;
    this.#isDeciding = true;
    try {
      do this.#decideOnce();
      while (this.#world !== this.#round.world);
    } finally {
      this.#isDeciding = false;
    }
  }

  #decideOnce(): void {
    const { clock, timers } = this.#options;
    const last = this.#round;
    const startMs = clock.monotonicMs();
    const { round, outcome } = decide(this.#world, last, {
      wallMs: clock.nowMs(),
      monotonicMs: startMs,
      leads: this.backing.replicas.leads,
      inFlight: this.#queue.inFlight,
      isGone: (object) => this.backing.source.isGone(object),
    });
    this.#round = round;
    this.#world = round.world;
    if (outcome.isEdited) this.#unsentChangeMs ??= startMs;
    this.#apply(outcome, last, clock.monotonicMs() - startMs);
    this.#callOff();
    const { waitMs } = outcome;
    if (waitMs === undefined || this.#isClosed) return;
    this.#callOff = timers.after(waitMs, () => this.#decide());
  }

  #apply(outcome: RoundResult, last: Round, durationMs: number): void {
    const { backing, streams } = this;
    const { decided, lead, doubts, shared } = outcome;
    streams.cutOff(this.#round.isCutOff);
    if (decided !== undefined) this.#serve(decided, durationMs);
    if (this.#round.decidedVersions !== last.decidedVersions) this.#reportPace.ask();
    if (doubts !== undefined) backing.schemas?.confirm(doubts);
    if (Object.keys(shared).length > 0) backing.share(shared);
    if (lead === 'ends') this.#stopLeading();
    if (lead !== undefined) this.#isNewLeader = lead === 'begins';
    // It repeats webhooks from the objects, so they must be read first, and be current.
    if (this.#isNewLeader && this.isServing && backing.replicas.leads && !this.#round.isCutOff) {
      this.#isNewLeader = false;
      this.#announcer.startedLeading(backing.source.objects.values());
    }
    this.#logWaits(outcome, last);
    this.#reportDrops(last);
    if (!this.#isEnding) this.#write(outcome);
    const isReported = this.#round.world.reports !== last.world.reports;
    if (decided !== undefined || lead !== undefined || isReported) this.#collisions?.update(this.#round);
  }

  #serve({ decision, last, changed }: NonNullable<RoundResult['decided']>, durationMs: number): void {
    const { metrics, log, serving } = this.#options;
    const { fleets, outcomes, newerFields } = decision;
    const oversize = this.streams.serve(fleets);
    if (oversize.symmetricDifference(this.#world.oversize).size > 0) this.#learn({ oversize });
    const changedFleets = metrics.decided(decision, durationMs);
    // The change is not sent to any limiter.
    if (changedFleets === 0) this.#unsentChangeMs = undefined;
    if (last === undefined || changedFleets > 0)
      lines.decided(log, { objects: outcomes.size, fleets: fleets.size, changedFleets, durationMs });
    for (const field of newerFields?.ignored.difference(this.#reportedFields) ?? []) {
      this.#reportedFields.add(field);
      lines.fieldIgnored(log, { field });
    }
    for (const uid of changed) {
      const outcome = outcomes.get(uid);
      if (outcome !== undefined) reportNews(log, outcome, last?.outcomes.get(uid));
    }
    if (last === undefined) serving();
  }

  /** The first limiter was sent the result of a change. */
  #sent(): void {
    const { metrics, clock } = this.#options;
    if (this.#unsentChangeMs === undefined) return;
    metrics.all.changeToPush.observe((clock.monotonicMs() - this.#unsentChangeMs) / 1000);
    this.#unsentChangeMs = undefined;
  }

  #stopLeading(): void {
    this.#pump.stop();
    this.#queue.clear();
  }

  #reportDrops({ removals: before }: Round): void {
    const dropped = (this.#round.removals?.dropped ?? 0) - (before?.dropped ?? 0);
    if (dropped === 0 || !this.backing.replicas.leads) return;
    this.#options.metrics.all.webhookDropped.inc({ reason: 'queue full' }, dropped);
    for (let i = 0; i < dropped; i++) this.#drops.note(undefined);
  }

  /** The webhook of a deleted object was delivered. */
  #notified(uid: string): void {
    const waiting = [...this.#world.notified].filter((one) => this.#round.removals?.waiting.has(one));
    this.#learn({ notified: new Set([...waiting, uid]) });
  }

  #logWaits({ awaited }: RoundResult, { unread }: Round): void {
    const { log } = this.#options;
    if (this.#round.unread !== unread && this.#round.unread.length > 0)
      lines.startIsBlocked(log, { problems: this.#round.unread });
    if (awaited === undefined) return;
    lines.specsUnknown(log, { objects: awaited.join(', '), waitMs: unknownSpecPatienceMs });
  }

  #write({ statuses, fleetStatuses, removed = [] }: RoundResult): void {
    for (const { object, total } of removed) {
      this.#announcer.removed(object, total, () => this.#notified(object.uid));
    }
    for (const { object, news } of statuses?.found ?? []) {
      if (news.is === 'written') this.#announce(news.entry);
      else this.#announcer.contested(object, news);
    }
    for (const [uid, entry] of [...(statuses?.entries ?? []), ...(fleetStatuses ?? [])]) {
      if (entry === undefined) this.#queue.withdraw(uid);
      else this.#queue.offer(entry);
    }
    if (statuses !== undefined || fleetStatuses !== undefined) this.#pump.wake();
  }

  #announce(entry: StatusEntry): void {
    if (isOfFleet(entry)) return;
    const { object, status: next } = entry;
    const limiters = countsOf(next);
    this.#announcer.written({ object, previous: object.status, next, limiters });
  }

  #createStreams(replicaName: string): LimiterStreams {
    return new LimiterStreams({
      ...this.#options,
      replicaName,
      changed: () => this.#reportPace.ask(),
      sent: () => this.#sent(),
      confirm: (then) => this.backing.replicas.confirm(then),
    });
  }

  #createPump(): StatusPump {
    return new StatusPump({
      ...this.#options,
      queue: this.#queue,
      writer: this.backing.statusWriter,
      mayWrite: () => this.backing.replicas.leads,
      written: (entry) => {
        // The answer may be late, and another leader may have written since. A new leader repeats webhooks.
        if (this.backing.replicas.leads) this.#announce(entry);
      },
      record: (change) => this.#learn({ writes: change(this.#world.writes) }),
      again: (ended) => {
        const { writes, endedWrites } = this.#world;
        this.#learn({ writes: ended?.(writes) ?? writes, endedWrites: endedWrites + 1 });
      },
    });
  }

  #firstRound(): Round {
    const { settings } = this.#options;
    const { backing } = this;
    const { controllerName } = backing;
    const hasWebhooks = settings.webhookUrls.length > 0;
    return firstRound({
      decider: deciderOf(settings, controllerName),
      controllerName,
      placeOf: backing.placeOf && ((object) => backing.placeOf!(object)),
      removals: hasWebhooks ? { max: settings.webhookQueueSize, forgetAfterMs: this.#repeatMs } : undefined,
    });
  }

  /** The maximum age of webhooks that an earlier leader may have lost and that this one repeats. */
  get #repeatMs(): number {
    return this.#options.settings.leaseDurationMs + webhookRepeatMarginMs;
  }
}

/** Returns a decider with an empty cache. Throws if the settings have other owners of domains than parsers accept. */
export function deciderOf(settings: ControlPlaneSettings, controllerName: string | undefined): Decider {
  const parsed = parseDomainOwners(settings.domainOwners, settings.domainOwnership);
  if (!parsed.ok) throw new Error(`DOMAIN_OWNERS: ${parsed.errors.join('; ')}`);
  return new Decider({
    mergeDomains: settings.mergeDomainConfig,
    domainOwners: parsed.owners,
    overridesMaxSeconds: settings.overridesMaxSeconds,
    controllerName,
    version: packageVersion(),
  });
}

/** Logs an object that is rejected for a new reason, or accepted again. */
function reportNews(
  log: Logger,
  { object, accepted, served }: ObjectOutcome,
  last: ObjectOutcome | undefined,
): void {
  const before = last?.accepted;
  const { generation } = object;
  const named = { kind: kindOf(object).kind, object: objectKey(object) };
  if (accepted.status) {
    if (before?.status === false) lines.objectAccepted(log, { ...named, generation });
    return;
  }
  const { reason, message } = accepted;
  if (before?.status === false && before.message === message) return;
  if (isEndReason(reason)) {
    lines.overrideEnded(log, { object: named.object, message });
    return;
  }
  lines.objectRejected(log, { ...named, generation, inForce: served?.generation, reason, message });
}
