/** The Leases by which replicas say that they live: how one is kept, and what those of all say. */
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { Owner } from './config-maps.ts';
import { type LeaseApi, microTime } from './lease-api.ts';
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

/** The Lease by which one replica says that it lives: applied again and again until the replica ends. */
export class ReplicaLease {
  readonly #options: ReplicaLeaseOptions;
  readonly #acquireTime: string;
  #request: Promise<void> | undefined;
  #callOff: (() => void) | undefined;
  #isClosed = false;

  constructor(options: ReplicaLeaseOptions) {
    this.#options = options;
    this.#acquireTime = microTime(options.clock.nowMs());
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
    this.#request = this.#apply().then((delayMs) => {
      if (!this.#isClosed) this.#callOff = this.#options.timers.after(delayMs, () => this.#renew());
    });
  }

  /** Returns how long to wait for the next time. */
  async #apply(): Promise<number> {
    const { replica, durationMs, api, clock, renewed, failed } = this.#options;
    const everyMs = durationMs / renewalsPerDuration;
    const nextMs = clock.monotonicMs() + everyMs;
    const name = replicaLeaseName(replica);
    const claim = { name, holder: replica, durationMs, transitions: 0, acquireTime: this.#acquireTime };
    try {
      const { metadata } = await api.apply(claim, managedLabels('replica'));
      renewed({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', name, uid: metadata.uid });
      return Math.max(0, nextMs - clock.monotonicMs());
    } catch (error) {
      failed(error);
      return everyMs * retryPart;
    }
  }
}

export interface SignOfLife {
  name: string;
  /** Of the Lease; the same one again is no sign. */
  resourceVersion: string;
  durationMs: number;
}

interface Life extends SignOfLife {
  untilMs: number;
}

/**
 * Which replicas are alive: those whose Lease changed within its duration, by our own clock since we saw it. Pure.
 *
 *            seen                    duration passed
 *   (none) ───────> alive ─────────────────────────────> dead ──┐
 *                   ^   ^ │ seen again                    │      │ removed: forgotten
 *                   └───┼─┘                               │      v
 *                       └──────── seen with a change ─────┘   (none)
 *
 * While we hear nothing ourselves, nobody dies: silence is then no sign of anything. Afterwards everybody who was
 * alive has a whole duration to be seen.
 */
export class SignsOfLife {
  readonly #lives = new Map<string, Life>();
  #deafSinceMs: number | undefined;

  /** Whether the replica came to life by it. */
  see(sign: SignOfLife, nowMs: number): boolean {
    const { name, resourceVersion, durationMs } = sign;
    if (this.#lives.get(name)?.resourceVersion === resourceVersion) return false;
    const wasAlive = this.isAlive(name, nowMs);
    this.#lives.set(name, { ...sign, untilMs: nowMs + durationMs });
    return !wasAlive;
  }

  /** Its Lease is gone. Whether the replica was alive. */
  remove(name: string, nowMs: number): boolean {
    const wasAlive = this.isAlive(name, nowMs);
    this.#lives.delete(name);
    return wasAlive;
  }

  isAlive(name: string, nowMs: number): boolean {
    const life = this.#lives.get(name);
    return life !== undefined && (this.#deafSinceMs ?? nowMs) < life.untilMs;
  }

  /** When the next one dies unless it is seen before; infinite when none is alive, or while we hear nothing. */
  nextDeathMs(nowMs: number): number {
    if (this.#deafSinceMs !== undefined) return Number.POSITIVE_INFINITY;
    const alive = [...this.#lives.values()].flatMap(({ untilMs }) => (untilMs > nowMs ? untilMs : []));
    return Math.min(Number.POSITIVE_INFINITY, ...alive);
  }

  /** From now on we hear nothing. */
  becomeDeaf(nowMs: number): void {
    this.#deafSinceMs ??= nowMs;
  }

  hearAgain(nowMs: number): void {
    const deafSinceMs = this.#deafSinceMs;
    if (deafSinceMs === undefined) return;
    this.#deafSinceMs = undefined;
    for (const life of this.#lives.values()) {
      if (life.untilMs > deafSinceMs) life.untilMs = nowMs + life.durationMs;
    }
  }
}
