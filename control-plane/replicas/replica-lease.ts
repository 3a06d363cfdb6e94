/** The Lease by which one replica says that it lives: applied again and again until the replica ends. */
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { Owner } from './config-maps.ts';
import type { LeaseApi } from './lease-api.ts';
import { managedLabels, replicaLeaseName } from './replica-name.ts';

export interface ReplicaLeaseOptions {
  replica: string;
  durationMs: number;
  api: LeaseApi;
  clock: Clock;
  timers: Timers;
  /** Another owner only after somebody deleted the Lease. */
  renewed(owner: Owner): void;
  failed(error: unknown): void;
}

/** Chosen: two renewals may be lost before the Lease runs out. */
const renewalsPerDuration = 10 / 3;
/** Chosen: after a failure, as a part of the time between renewals. */
const retryPart = 1 / 3;

export class ReplicaLease {
  readonly #options: ReplicaLeaseOptions;
  readonly #acquireTime: string;
  #request: Promise<void> | undefined;
  #callOff: (() => void) | undefined;
  #isClosed = false;

  constructor(options: ReplicaLeaseOptions) {
    this.#options = options;
    this.#acquireTime = new Date(options.clock.nowMs()).toISOString().replace('Z', '000Z');
  }

  start(): void {
    this.#renew();
  }

  /** Deletes the Lease: whoever watches knows at once that the replica is gone. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#callOff?.();
    await this.#request;
    await this.#options.api.delete(replicaLeaseName(this.#options.replica));
  }

  #renew(): void {
    const { clock, timers, durationMs } = this.#options;
    const everyMs = durationMs / renewalsPerDuration;
    const sentMs = clock.monotonicMs();
    this.#request = this.#apply().then((isRenewed) => {
      if (this.#isClosed) return;
      const passedMs = clock.monotonicMs() - sentMs;
      const delayMs = isRenewed ? Math.max(0, everyMs - passedMs) : everyMs * retryPart;
      this.#callOff = timers.after(delayMs, () => this.#renew());
    });
  }

  async #apply(): Promise<boolean> {
    const { replica, durationMs, api, renewed, failed } = this.#options;
    const name = replicaLeaseName(replica);
    const claim = { name, holder: replica, durationMs, transitions: 0, acquireTime: this.#acquireTime };
    try {
      const { metadata } = await api.apply(claim, managedLabels('replica'));
      renewed({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', name, uid: metadata.uid });
      return true;
    } catch (error) {
      failed(error);
      return false;
    }
  }
}
