/** Deletes what dead replicas left; only the leader does. */
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';
import type { ConfigMapApi } from './config-maps.ts';
import type { LeaseApi } from './leases.ts';
import type { ReplicaReports } from './replica-reports.ts';

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
