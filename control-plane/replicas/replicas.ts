/**
 * One replica among the others: its sign of life, its report, the others' reports, the election of the leader, and what the leader deletes
 * of dead replicas.
 */
import { errorText } from '../../process/log/error-text.ts';
import { LogThrottle } from '../../process/log/log-throttle.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { KubernetesApi } from '../kubernetes/api.ts';
import { ApiError } from '../kubernetes/api-error.ts';
import type { LimiterReport, ReplicaReport } from '../model/fleet-snapshot.ts';
import { isNewerVersion } from '../model/write-ledger.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';
import { type Codec, ConfigMapApi } from './config-maps.ts';
import { type ElectionOptions, LeaseElection } from './lease-election.ts';
import { LeaseApi, ReplicaLease } from './leases.ts';
import { replicaLeaseName } from './replica-name.ts';
import { boundedReport, ReplicaReports } from './replica-reports.ts';

/** Chosen: connections that are not shown to be dead are taken anew once in so long, and up to half of it later. */
const rareMs = 60_000;

export interface ReplicasOptions extends Omit<ElectionOptions, 'identity'>, Telemetry {
  client: KubernetesApi;
  /** The namespace of Leases and ConfigMaps. */
  namespace: string;
  /** See `replicaName`; also its identity in the election. */
  replica: string;
  leaseName: string;
  replicaLeaseDurationMs: number;
  /** How long a replica has to be dead before the leader deletes what it left. Defaults to a minute. */
  cleanupAfterMs?: number;
  /** The most bytes of one ConfigMap with a report. Defaults to what the API server accepts. */
  maxPartBytes?: number;
  clock: Clock;
  timers: Timers;
  random(): number;
  codec: Codec;
  startedLeading(): void;
  stoppedLeading(): void;
  /** `living` may answer differently. */
  changed(): void;
  /** Renewals of our Lease have no answer, or have one again: a watch over a connection that is dead says nothing for minutes. */
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
    this.#options = options;
    const { client, namespace, replica, clock, log, metrics, leaseName } = options;
    const configMaps = new ConfigMapApi({ client, namespace, timeoutMs: 10_000 });
    const leases = (timeoutMs: number) => new LeaseApi({ client, namespace, clock, timeoutMs });
    const failures = new LogThrottle<string>(clock, (reason, times) => {
      lines.leaseFailed(log, { reason, times });
    });
    const failed = (error: unknown): void => {
      metrics.all.leaseRenewalsFailed.inc();
      failures.note(errorText(error));
    };
    this.#reports = new ReplicaReports({
      ...options,
      listed: () => this.#election.start(),
      leaseChanged: (name, record) => {
        if (name === leaseName) this.#election.heard(record);
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
    // A sign of life that hangs must fail before others take this replica for dead.
    this.#lease = new ReplicaLease({
      ...options,
      durationMs: options.replicaLeaseDurationMs,
      api: leases(options.replicaLeaseDurationMs / 2),
      renewed: (owner, resourceVersion) => {
        this.#reports.renewed(true);
        this.#doubt.answered(resourceVersion);
        this.#reports.ownedBy(owner);
      },
      failed: (error) => {
        this.#reports.renewed(false);
        if (wasRefused(error)) this.#doubt.answered(undefined);
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

  /** Returns whether this replica may write; by the clock, so that it is false before another one leads. */
  get leads(): boolean {
    return this.#election.leads;
  }

  get leader(): string | undefined {
    return this.#election.leader;
  }

  /** A candidate it becomes once it knows what all replicas reported. */
  start(): void {
    this.#reports.start();
    this.#lease.start();
    this.publish([]);
    this.#cleanup.start();
  }

  /** Publishes what is known of our own limiters. It reports `changed` at once. */
  publish(limiters: readonly LimiterReport[]): void {
    this.#reports.publish(boundedReport({ replica: this.#options.replica, limiters }));
  }

  /** Our own report first. */
  living(): ReplicaReport[] {
    return this.#reports.living();
  }

  /** Gives up the lead and takes back every sign of this replica; rejects when the API server does not let it. */
  async close(): Promise<void> {
    await Promise.all([this.#election.close(), this.#cleanup.close(), this.#reports.close()]);
    const outcomes = await Promise.allSettled([this.#lease.close(), this.#reports.takeBack()]);
    this.#doubt.close();
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  }
}

export interface WatchDoubtOptions extends Pick<ReplicasOptions, 'clock' | 'timers' | 'random' | 'cutOff'> {
  /** How long the watch of Leases may take to show a renewal. */
  patienceMs: number;
  /** Ends all connections. Watches begin anew, and what they missed is here a moment later. */
  reconnect(): void;
}

/**
 * Finds out whether watches are silent over dead connections. The watch of Leases has to say something after a renewal of our own:
 * where it does not, all connections are taken anew. A renewal that has no answer may mean the same, or that the API server is
 * slow: after it connections are taken anew as soon as there is an answer; when that was done a moment ago only if the renewal
 * is not shown, else later, for a slow server is not helped by it.
 */
export class WatchDoubt {
  readonly #options: WatchDoubtOptions;
  #state: 'sure' | 'unanswered' | 'doubt' = 'sure';
  /** Versions of our Lease: the last one that the watch showed, and the one that it is to show. */
  #shown: string | undefined;
  #awaited: string | undefined;
  #rareUntilMs = Number.NEGATIVE_INFINITY;
  /** The watch has shown something since connections were taken anew: it is known to work. */
  #hasShown = false;
  /** Ends the one timer: until the renewal is shown, or until connections may be replaced. */
  #callOff = (): void => {};
  /** Ends the wait for the watch to show anything, after a renewal that was answered at once. */
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

  /** `version`: the one that the renewal made; undefined: it was refused. */
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
    // Also of a renewal before: what comes late comes over a connection that lives.
    this.#expectNothing();
    this.#look();
  }

  close(): void {
    this.#callOff();
    this.#expectNothing();
  }

  /** Not of a watch that never worked, or does not since connections were last taken anew: that happens once in a while only. */
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

  /** The other watches may have had other connections, which died. */
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

/** Without a right, or too often: the API server is there all the same. */
function wasRefused(error: unknown): boolean {
  return error instanceof ApiError && error.status >= 400 && error.status < 500;
}

export interface ReplicaCleanupOptions extends Pick<Telemetry, 'log'> {
  reports: Pick<ReplicaReports, 'remains'>;
  leases: LeaseApi;
  configMaps: ConfigMapApi;
  /** How long a replica has to be dead. */
  afterMs: number;
  mayDelete(): boolean;
  clock: Clock;
  timers: Timers;
}

/** Deletes what dead replicas left. Only the leader does. */
export class ReplicaCleanup {
  readonly #options: ReplicaCleanupOptions;
  /** Keyed by replica: since when it has been seen to be dead. */
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

  /** Deletes by version, so that a replica that returns meanwhile keeps what it writes. */
  async #delete({ replica, leases, reports }: ReturnType<ReplicaReports['remains']>[number]): Promise<void> {
    const { leases: leaseApi, configMaps, log } = this.#options;
    try {
      for (const { name, record } of leases) await leaseApi.delete(name, record.resourceVersion);
      for (const { name, resourceVersion } of reports) await configMaps.delete(name, resourceVersion);
      lines.replicaCleanedUp(log, replica);
    } catch (error) {
      // At the next round it is tried again.
      lines.cleanupFailed(log, replica, error);
    }
  }
}
