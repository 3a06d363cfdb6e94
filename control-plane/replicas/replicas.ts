/**
 * One replica among others: its sign of life, its report, the reports of others, the election of the leader, and the leader's cleanup of
 * dead replicas.
 */
import { errorText } from '../../process/log/error-text.ts';
import { throttledLine } from '../../process/log/log-throttle.ts';
import type { ProcessTime } from '../../process/time/clock.ts';
import { ApiError, isRejection, type KubernetesApi } from '../kubernetes/api.ts';
import type { LimiterReport, ReplicaReport } from '../model/fleet-snapshot.ts';
import { noVersions } from '../model/object-versions.ts';
import { isNewerVersion } from '../model/write-ledger.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import { LeaseApi, ReplicaLease } from './lease-api.ts';
import { type ElectionOptions, LeaseElection } from './lease-election.ts';
import { type Codec, ConfigMapApi, replicaLeaseName } from './own-objects.ts';
import { ReplicaReports } from './replica-reports.ts';

/** Chosen: connections that are not known to be dead are replaced at most once in this time, plus up to half of it. */
const rareMs = 60_000;

export interface ReplicasOptions extends Omit<ElectionOptions, 'identity'>, Telemetry, ProcessTime {
  client: KubernetesApi;
  /** The namespace of Leases and ConfigMaps. */
  namespace: string;
  /** The name of the replica, which is also its identity in the election: see `replicaName`. */
  replica: string;
  leaseName: string;
  replicaLeaseDurationMs: number;
  /** How long a replica must be dead before the leader deletes its objects. Defaults to a minute. */
  cleanupAfterMs?: number;
  /** The maximum size of one ConfigMap with a report. Defaults to the limit of the API server. */
  maxPartBytes?: number;
  random(): number;
  codec: Codec;
  startedLeading(): void;
  stoppedLeading(): void;
  /** Called when `living` may have changed. */
  changed(): void;
  /**
   * Called when renewals of this replica's Lease object get no answer, or get answers again. A watch over a dead connection shows
   * nothing for minutes.
   */
  cutOff(isCutOff: boolean): void;
}

export class Replicas {
  readonly #options: ReplicasOptions;
  readonly #reports: ReplicaReports;
  readonly #lease: ReplicaLease;
  readonly #election: LeaseElection;
  readonly #cleanup: ReplicaCleanup;
  readonly #doubt: WatchDoubt;

  constructor(options: ReplicasOptions) {
    const { client, namespace, replica, clock, metrics, leaseName } = options;
    this.#options = options;
    const configMaps = new ConfigMapApi({ client, namespace, timeoutMs: 10_000 });
    const leases = (timeoutMs: number) => new LeaseApi({ client, namespace, clock, timeoutMs });
    const leaseFailed = throttledLine(options, lines.leaseFailed);
    const failed = (error: unknown): void => {
      metrics.all.leaseRenewalsFailed.inc();
      leaseFailed({ reason: errorText(error) });
    };
    this.#reports = new ReplicaReports({
      ...options,
      listed: () => this.#election.start(),
      leaseChanged: (name, record) => {
        if (name === leaseName) this.#election.observed(record);
        if (name === replicaLeaseName(replica) && record !== undefined) {
          this.#doubt.shown(record.resourceVersion);
        }
      },
    });
    this.#doubt = new WatchDoubt({
      ...options,
      patienceMs: options.replicaLeaseDurationMs / 2,
      reconnect: () => client.close(),
    });
    // A sign of life without an answer must fail before others consider this replica dead.
    this.#lease = new ReplicaLease({
      ...options,
      durationMs: options.replicaLeaseDurationMs,
      api: leases(options.replicaLeaseDurationMs / 2),
      annotations: () => this.#reports.progress,
      renewed: (owner, resourceVersion) => {
        this.#reports.hears('renewal', true);
        this.#doubt.answered(resourceVersion);
        this.#reports.ownedBy(owner);
      },
      failed: (error) => {
        this.#reports.hears('renewal', false);
        if (isRejection(error)) this.#doubt.answered(undefined);
        else this.#doubt.unanswered(error instanceof ApiError && error.reason === 'Timeout');
        failed(error);
      },
    });
    this.#election = new LeaseElection({
      ...options,
      identity: replica,
      api: leases(options.renewDeadlineMs / 2),
      failed,
    });
    this.#cleanup = new ReplicaCleanup({
      ...options,
      reports: this.#reports,
      leases: leases(10_000),
      configMaps,
      afterMs: options.cleanupAfterMs ?? 60_000,
      mayDelete: () => this.leads,
    });
  }

  /** Returns whether this replica may write. The clock decides, so that it is false before another replica leads. */
  get leads(): boolean {
    return this.#election.leads;
  }

  /** Undefined also while this replica is still named as the leader, and no longer leads. */
  get leader(): string | undefined {
    const { leader, leads } = this.#election;
    return leader === this.#options.replica && !leads ? undefined : leader;
  }

  /** The replica becomes a candidate once it knows the reports of all replicas. */
  start(): void {
    this.#reports.start();
    this.#lease.start();
    this.publish([]);
    this.#cleanup.start();
  }

  /** Publishes the report of this replica's limiters. If they have changed, it calls `changed` at once. `decided`: see `ReplicaReport`. */
  publish(limiters: readonly LimiterReport[], decided = noVersions): void {
    this.#reports.publish(limiters, decided);
  }

  /** See `ReplicaLease.confirm`. */
  confirm(then: () => void): void {
    this.#lease.confirm(then);
  }

  /** Returns the report of this replica first. */
  living(): ReplicaReport[] {
    return this.#reports.living();
  }

  /** Gives up the lead and removes every sign of this replica. Rejects if the API server does not allow it. */
  async close(): Promise<void> {
    await Promise.all([this.#election.close(), this.#cleanup.close(), this.#reports.close()]);
    const outcomes = await Promise.allSettled([this.#lease.close(), this.#reports.takeBack()]);
    this.#doubt.close();
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  }
}

export interface WatchDoubtOptions extends Pick<ReplicasOptions, 'clock' | 'timers' | 'random' | 'cutOff'> {
  /** The maximum time after which the watch of Lease objects shows a renewal. */
  patienceMs: number;
  /** Ends all connections. Watches start again, and show missed events a moment later. */
  reconnect(): void;
}

/**
 * Finds out whether watches are silent because of dead connections. The watch of Lease objects must show an event after a renewal by this
 * replica. If it does not, all connections are replaced. A renewal without an answer may have the same reason, or the API server may be
 * slow. In this case, connections are replaced as soon as there is an answer. If they were replaced a moment ago, this happens only if
 * the watch does not show the renewal, and otherwise later, because replacing them does not help a slow server.
 */
export class WatchDoubt {
  readonly #options: WatchDoubtOptions;
  #state: 'sure' | 'unanswered' | 'doubt' = 'sure';
  /** Versions of this replica's Lease object: the last one that the watch showed, and the expected one. */
  #shown: string | undefined;
  #awaited: string | undefined;
  #rareUntilMs = Number.NEGATIVE_INFINITY;
  /** Whether the watch has shown an event since connections were replaced, so that it is known to work. */
  #hasShown = false;
  /** Ends the only timer, which runs until the renewal is shown, or until connections may be replaced. */
  #callOff = (): void => {};
  /** Ends the wait for any event of the watch, after a renewal that was answered at once. */
  #expected: (() => void) | undefined;

  constructor(options: WatchDoubtOptions) {
    this.#options = options;
  }

  unanswered(isTimeout: boolean): void {
    if (isTimeout || this.#state === 'doubt') {
      this.#callOff();
      this.#expectNothing();
      this.#state = 'unanswered';
    }
    this.#options.cutOff(true);
  }

  /** `version`: the version that the renewal created. Undefined if it was rejected. */
  answered(version: string | undefined): void {
    const { timers, patienceMs, cutOff } = this.#options;
    if (this.#state === 'sure') {
      cutOff(false);
      this.#expect(version);
    }
    if (this.#state !== 'unanswered') return;
    if (this.#rareForMs() <= 0) this.#beginAnew();
    else if (version === undefined) this.#believe();
    else {
      this.#state = 'doubt';
      this.#awaited = version;
      this.#callOff = timers.after(patienceMs, () => this.#beginAnew());
      this.#look();
    }
  }

  /** The watch of Leases shows our own at this version. */
  shown(version: string): void {
    this.#shown = version;
    this.#hasShown = true;
    // This also holds for an earlier renewal: a late event proves that the connection works.
    this.#expectNothing();
    this.#look();
  }

  close(): void {
    this.#callOff();
    this.#expectNothing();
  }

  /** Expects no event of a watch that never worked, or that has not worked since connections were last replaced. This is rare. */
  #expect(version: string | undefined): void {
    if (version === undefined || this.#expected || this.#shown === undefined) return;
    if (!isNewerVersion(version, this.#shown)) return;
    this.#expected = this.#options.timers.after(this.#options.patienceMs, () => {
      this.#expected = undefined;
      if (this.#hasShown || this.#rareForMs() <= 0) this.#beginAnew();
    });
  }

  #expectNothing(): void {
    this.#expected?.();
    this.#expected = undefined;
  }

  #look(): void {
    if (this.#state !== 'doubt' || this.#shown === undefined || this.#awaited === undefined) return;
    if (!isNewerVersion(this.#awaited, this.#shown)) this.#believe();
  }

  /** The other watches may have used other connections, which died. */
  #believe(): void {
    this.#callOff();
    this.#callOff = this.#options.timers.after(this.#rareForMs(), () => this.#reconnect());
    this.#state = 'sure';
    this.#options.cutOff(false);
  }

  #beginAnew(): void {
    this.#reconnect();
    this.#state = 'sure';
    this.#options.cutOff(false);
  }

  #reconnect(): void {
    const { clock, random, reconnect } = this.#options;
    this.#rareUntilMs = clock.monotonicMs() + rareMs * (1 + random() / 2);
    this.#hasShown = false;
    reconnect();
  }

  #rareForMs(): number {
    return this.#rareUntilMs - this.#options.clock.monotonicMs();
  }
}

export interface ReplicaCleanupOptions extends Pick<Telemetry, 'log'>, ProcessTime {
  reports: Pick<ReplicaReports, 'remains'>;
  leases: LeaseApi;
  configMaps: ConfigMapApi;
  /** The time for which a replica must be dead. */
  afterMs: number;
  mayDelete(): boolean;
}

/** Deletes the objects of dead replicas. Only the leader does this. */
export class ReplicaCleanup {
  readonly #options: ReplicaCleanupOptions;
  /** The time since which a replica counts as dead, by replica. */
  #deadSinceMs = new Map<string, number>();
  #round: Promise<void> | undefined;
  #end: (() => void) | undefined;

  constructor(options: ReplicaCleanupOptions) {
    this.#options = options;
  }

  start(): void {
    this.#end = this.#options.timers.every(this.#options.afterMs / 4, () => {
      this.#round ??= this.#sweep().finally(() => {
        this.#round = undefined;
      });
    });
  }

  async close(): Promise<void> {
    this.#end?.();
    await this.#round;
  }

  async #sweep(): Promise<void> {
    const { reports, clock, afterMs, mayDelete } = this.#options;
    const nowMs = clock.monotonicMs();
    const remains = reports.remains();
    this.#deadSinceMs = new Map(
      remains.map(({ replica }) => [replica, this.#deadSinceMs.get(replica) ?? nowMs] as const),
    );
    for (const dead of remains) {
      const sinceMs = this.#deadSinceMs.get(dead.replica) ?? nowMs;
      if (mayDelete() && nowMs - sinceMs >= afterMs) await this.#delete(dead);
    }
  }

  /** Deletes objects by version, so that it spares those of a replica that has returned meanwhile. */
  async #delete({ replica, leases, reports }: ReturnType<ReplicaReports['remains']>[number]): Promise<void> {
    const { leases: leaseApi, configMaps, log } = this.#options;
    try {
      for (const { name, record } of leases) await leaseApi.delete(name, record.resourceVersion);
      for (const { name, resourceVersion } of reports) await configMaps.delete(name, resourceVersion);
      lines.replicaCleanedUp(log, { replica });
    } catch (error) {
      // The next round tries again.
      lines.cleanupFailed(log, { replica, error });
    }
  }
}
