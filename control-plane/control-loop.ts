/**
 * From objects to what limiters are served, and from what limiters answer to statuses, events and webhooks: all of one replica
 * that needs no port.
 */
import { packageVersion } from '../process/files/package-file.ts';
import { LogThrottle } from '../process/log/log-throttle.ts';
import type { Clock, Timers } from '../process/time/clock.ts';
import { Pace } from '../process/time/pacing.ts';
import type { Backing, OpenBacking, OpenBackingOptions } from './backing.ts';
import { Distribution } from './distribution.ts';
import type { Decision } from './model/decision.ts';
import { parseDomainOwners } from './reconcile/claims.ts';
import { CollisionWatch, type CollisionWatchOptions } from './reconcile/collision-watch.ts';
import { Decider } from './reconcile/decide.ts';
import { VersionLedger } from './reconcile/fleet-standing.ts';
import { Removals } from './reconcile/removals.ts';
import type { ControlPlaneSettings } from './settings/table.ts';
import type { SourceListener } from './source/kubernetes-source.ts';
import { Announcer, type AnnouncerOptions, StatusKeeper } from './status-keeper.ts';
import type { Telemetry } from './telemetry/control-plane-metrics.ts';
import * as lines from './telemetry/log-lines.ts';
import { isCut, unknownWorld, type World } from './world.ts';
import { LimiterStreams, type LimiterStreamsOptions } from './xds/limiter-streams.ts';

export interface ControlLoopOptions
  extends Omit<OpenBackingOptions, 'learn'>,
    Pick<LimiterStreamsOptions, 'maxStreams' | 'fleetsOfClients'>,
    Telemetry {
  settings: ControlPlaneSettings;
  openBacking: OpenBacking;
  /** See `replicaName`. */
  replica: string;
  clock: Clock;
  timers: Timers;
  /** See `Webhooks.notify`. */
  notify: AnnouncerOptions['notify'];
  searchCollisions: CollisionWatchOptions['search'];
  /** The first decision is made: there is something to serve. Called once. */
  serving(): void;
}

/** Far below the time within which a status must be correct. */
const reportGatherMs = 10;
const reportIntervalMs = 100;
/** A leader may be dead for the Lease's duration, and its last status a moment older. */
const webhookRepeatMarginMs = 30_000;

export class ControlLoop {
  readonly backing: Backing;
  readonly streams: LimiterStreams;
  readonly decider: Decider;
  readonly statuses: StatusKeeper;
  readonly #options: ControlLoopOptions;
  /** Answers of limiters come in bursts. */
  readonly #reportPace: Pace;
  readonly #ledger = new VersionLedger();
  readonly #distribution: Distribution;
  readonly #announcer: Announcer;
  /** Without an API server there are no events. */
  readonly #collisions: CollisionWatch | undefined;
  #world = unknownWorld;
  #isServing = false;

  /** Throws when the settings name no way to the objects. */
  constructor(options: ControlLoopOptions) {
    const { settings, replica } = options;
    this.#options = options;
    this.backing = options.openBacking({ ...options, learn: (news) => this.#learn(news) });
    this.streams = this.#createStreams(replica);
    this.#reportPace = new Pace({
      ...options,
      gatherMs: reportGatherMs,
      intervalMs: reportIntervalMs,
      run: () => this.backing.publish(this.streams.limiters()),
    });
    this.decider = this.#createDecider();
    this.#distribution = new Distribution({
      ...options,
      decider: this.decider,
      schemas: this.backing.schemas,
      controllerName: this.backing.controllerName,
      placeOf: this.backing.placeOf && ((object) => this.backing.placeOf!(object)),
      ledger: this.#ledger,
      xds: this.streams,
      decided: () => this.#decided(),
    });
    this.#announcer = new Announcer({
      ...options,
      recordEvent: (event) => this.backing.recordEvent(event),
      limitersOf: (object) => this.statuses.countsFor(object),
      repeatMs: this.#repeatMs,
    });
    this.statuses = new StatusKeeper({
      ...options,
      backing: this.backing,
      ledger: this.#ledger,
      decision: () => this.#distribution.decision,
      isOversize: (fleet) => this.streams.isOversize(fleet),
      writesPerSecond: settings.statusWritesPerSecond,
      announcer: this.#announcer,
      removals: settings.webhookUrls.length === 0 ? undefined : this.#createRemovals(),
    });
    this.#collisions = settings.source === 'KUBERNETES' ? this.#createCollisions() : undefined;
  }

  /** The newest one; undefined before the first complete list. */
  get decision(): Decision | undefined {
    return this.#distribution.decision;
  }

  get world(): World {
    return this.#world;
  }

  /** See `Distribution.unread`. */
  get unread(): readonly string[] {
    return this.#distribution.unread;
  }

  get isServing(): boolean {
    return this.#isServing;
  }

  async start(): Promise<void> {
    this.backing.start();
    await this.backing.source.start(this.#sourceListener());
  }

  /** After `statuses`, and before `backing`: see their `close`. */
  closeSource(): Promise<void> {
    this.#distribution.close();
    this.#collisions?.close();
    this.#reportPace.close();
    return this.backing.source.close();
  }

  #sourceListener(): SourceListener {
    const { source } = this.backing;
    const objects = (edits: number): void =>
      this.#learn({ objects: source.objects, left: source.left(), edits: this.#world.edits + edits });
    return {
      listed: () => objects(1),
      changed: () => objects(1),
      statusShown: () => objects(0),
      cutOff: (isWatchCut) => this.#learn({ isWatchCut }),
    };
  }

  #learn(news: Partial<World>): void {
    const last = this.#world;
    const world = { ...last, ...news };
    this.#world = world;
    this.#distribution.learn(world);
    if (isCut(world) && !isCut(last)) {
      this.backing.share({ decision: undefined, ...(this.backing.leads ? {} : { kept: new Map() }) });
    }
    if (world.leads !== last.leads) {
      this.#share();
      if (!world.leads) this.#collisions?.stoppedLeading();
      else if (this.#isServing) this.#announcer.startedLeading(this.backing.source.objects.values());
    }
    this.statuses.learn(world);
    if (world.leads !== last.leads || world.reports !== last.reports) this.#collisions?.update();
  }

  #createStreams(replicaName: string): LimiterStreams {
    return new LimiterStreams({
      ...this.#options,
      replicaName,
      changed: () => this.#reportPace.ask(),
      sent: () => this.#distribution.sent(),
    });
  }

  #createDecider(): Decider {
    const { settings } = this.#options;
    const parsed = parseDomainOwners(settings.domainOwners, settings.domainOwnership);
    if (!parsed.ok) throw new Error(`DOMAIN_OWNERS: ${parsed.errors.join('; ')}`);
    return new Decider({
      mergeDomains: settings.mergeDomainConfig,
      domainOwners: parsed.owners,
      overridesMaxSeconds: settings.overridesMaxSeconds,
      controllerName: this.backing.controllerName,
      version: packageVersion(),
    });
  }

  /** Webhooks that an earlier leader may have lost are not older than this. */
  get #repeatMs(): number {
    return this.#options.settings.leaseDurationMs + webhookRepeatMarginMs;
  }

  #createRemovals(): Removals {
    const { settings, log, clock, metrics } = this.#options;
    const { webhookQueueSize: most } = settings;
    const drops = new LogThrottle<undefined>(clock, (_, count) => lines.removedDropped(log, { count, most }));
    return new Removals({
      most,
      forgetAfterMs: this.#repeatMs,
      dropped: () => {
        if (!this.backing.leads) return;
        metrics.webhookDropped('queue full', 1);
        drops.note(undefined);
      },
    });
  }

  #createCollisions(): CollisionWatch {
    return new CollisionWatch({
      ...this.#options,
      decision: () => this.#distribution.decision,
      reports: () => this.#world.reports,
      leads: () => this.backing.leads,
      search: this.#options.searchCollisions,
      recordEvent: (event) => this.backing.recordEvent(event),
    });
  }

  #decided(): void {
    if (!this.#isServing) {
      this.#isServing = true;
      this.#options.serving();
      // A lead that was won before anything could be decided had nothing to repeat.
      if (this.backing.leads) this.#announcer.startedLeading(this.backing.source.objects.values());
    }
    this.#share();
    this.statuses.update();
    this.#collisions?.update();
  }

  /** Before the first decision nobody can say what may be forgotten. */
  #share(): void {
    const { decision, persisted, isCutOff } = this.#distribution;
    const { leads } = this.backing;
    if (decision === undefined) return;
    // The knowledge of another replica may be older than that of the leader.
    this.backing.share({ kept: leads || !isCutOff ? persisted : new Map() });
    if (leads && !isCutOff) this.backing.share({ decision });
  }
}
