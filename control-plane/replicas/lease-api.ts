/**
 * Lease objects of one namespace: the leader's, which candidates replace by version, and those of replicas, which are renewed regularly
 * as signs of life.
 */
import type { Clock, ProcessTime } from '../../process/time/clock.ts';
import { hasStatus, isRejection, type KubernetesApi, serverSideApply } from '../kubernetes/api.ts';
import { deleteObject, managedLabels, type Owner, replicaLeaseName } from './own-objects.ts';

export interface LeaseApiOptions {
  client: KubernetesApi;
  namespace: string;
  /** The timeout of one request. */
  timeoutMs: number;
  /** The clock for times in the Lease object that people read. */
  clock: Clock;
}

export interface LeaseClaim {
  name: string;
  holder: string;
  durationMs: number;
  transitions: number;
  /** Undefined for the current time. */
  acquireTime: string | undefined;
}

/** A Lease object of the API server, reduced to the fields that are used here. */
export interface LeaseObject {
  metadata: {
    name: string;
    uid: string;
    resourceVersion: string;
    labels?: Readonly<Record<string, string>>;
    annotations?: Readonly<Record<string, string>>;
  };
  spec?: {
    holderIdentity?: string | null;
    leaseDurationSeconds?: number | null;
    acquireTime?: string | null;
    renewTime?: string | null;
    leaseTransitions?: number | null;
  };
}

export class LeaseApi {
  readonly #options: LeaseApiOptions;

  constructor(options: LeaseApiOptions) {
    this.#options = options;
  }

  /** Returns undefined if there is no such object. */
  async read(name: string): Promise<LeaseRecord | undefined> {
    try {
      return leaseRecord(await this.#request<LeaseObject>({ path: this.#path(name) }));
    } catch (error) {
      if (hasStatus(error, 404)) return undefined;
      throw error;
    }
  }

  /** Creates the Lease object, or replaces the content in `over`. Returns undefined if its content is no longer `over`. */
  async claim(claim: LeaseClaim, over: LeaseRecord | undefined): Promise<LeaseRecord | undefined> {
    const version = over === undefined ? {} : { resourceVersion: over.resourceVersion };
    const body = { ...this.#head(claim.name, version, managedLabels()), spec: this.#spec(claim) };
    try {
      const written =
        over === undefined
          ? await this.#request<LeaseObject>({ method: 'POST', path: this.#path(), body })
          : await this.#request<LeaseObject>({ method: 'PUT', path: this.#path(claim.name), body });
      return leaseRecord(written);
    } catch (error) {
      // Not found: the object was deleted after it was read.
      if (hasStatus(error, 409) || (over !== undefined && hasStatus(error, 404))) return undefined;
      throw error;
    }
  }

  /** Renews a Lease object that no other process writes, and creates it if it is missing. */
  apply(
    claim: LeaseClaim,
    { labels, annotations }: Pick<LeaseObject['metadata'], 'labels' | 'annotations'>,
  ): Promise<LeaseObject> {
    return this.#request<LeaseObject>({
      ...serverSideApply,
      path: this.#path(claim.name),
      body: { ...this.#head(claim.name, { annotations }, labels), spec: this.#spec(claim) },
    });
  }

  /** Deletes a Lease object: see `deleteObject`. */
  delete(name: string, resourceVersion?: string): Promise<void> {
    const { client, timeoutMs } = this.#options;
    return deleteObject(client, { path: this.#path(name), timeoutMs, resourceVersion });
  }

  #head(name: string, more: object, labels: object | undefined): object {
    const { namespace } = this.#options;
    return {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name, namespace, labels, ...more },
    };
  }

  #spec({ holder, durationMs, transitions, acquireTime }: LeaseClaim): LeaseObject['spec'] {
    const now = microTime(this.#options.clock.nowMs());
    return {
      holderIdentity: holder,
      leaseDurationSeconds: Math.ceil(durationMs / 1000),
      acquireTime: acquireTime ?? now,
      renewTime: now,
      leaseTransitions: transitions,
    };
  }

  #path(name?: string): string {
    const leases = `/apis/coordination.k8s.io/v1/namespaces/${this.#options.namespace}/leases`;
    return name === undefined ? leases : `${leases}/${name}`;
  }

  #request<T>(request: Parameters<KubernetesApi['request']>[0]): Promise<T> {
    return this.#options.client.request<T>({ timeoutMs: this.#options.timeoutMs, ...request });
  }
}

/** A missing or damaged field counts as not given. */
export function leaseRecord({ metadata, spec = {} }: LeaseObject): LeaseRecord {
  const { holderIdentity, leaseDurationSeconds: seconds, acquireTime, leaseTransitions } = spec;
  return {
    resourceVersion: metadata.resourceVersion,
    holder: holderIdentity ?? '',
    durationMs: typeof seconds === 'number' && seconds > 0 ? seconds * 1000 : undefined,
    acquireTime: acquireTime ?? undefined,
    transitions: leaseTransitions ?? 0,
  };
}

/** Returns RFC 3339 with six decimal digits, as Kubernetes' MicroTime requires. */
export function microTime(ms: number): string {
  return new Date(ms).toISOString().replace('Z', '000Z');
}

/** The content of a coordination.k8s.io/v1 Lease, reduced to the fields that an election or a sign of life needs. */
export interface LeaseRecord {
  /** The version, which changes with every write. A write with a version other than the server's is rejected. */
  resourceVersion: string;
  /** The holder. Empty if the last holder has released it. */
  holder: string;
  /** The time after which the Lease object expires without a renewal. Undefined if its writer did not set it. */
  durationMs: number | undefined;
  /** The time in RFC 3339 with microseconds, by the holder's clock. It is for people. */
  acquireTime: string | undefined;
  /** The number of changes of the holder. */
  transitions: number;
}

export interface ReplicaLeaseOptions extends ProcessTime {
  replica: string;
  durationMs: number;
  api: LeaseApi;
  /** Returns the annotations of the next renewal. */
  annotations(): Readonly<Record<string, string>>;
  /** Called after a renewal. The owner changes only if the Lease object was deleted. */
  renewed(owner: Owner, resourceVersion: string): void;
  failed(error: unknown): void;
}

/** Chosen: two renewals may be lost before the Lease object expires. */
const renewalsPerDuration = 10 / 3;
/** Chosen: the wait after a failure, as a fraction of the time between renewals. */
const retryPart = 1 / 3;
/** Chosen: the minimum time between two requested renewals. */
const minBetweenMs = 200;

/** The Lease object that shows that a replica is alive. The replica renews it repeatedly until it ends. */
export class ReplicaLease {
  readonly #options: ReplicaLeaseOptions;
  readonly #acquireTime: string;
  #request: Promise<void> | undefined;
  /** Set while the next renewal waits. */
  #callOff: (() => void) | undefined;
  #begunMs = Number.NEGATIVE_INFINITY;
  /** The calls of `confirm` that the next renewal answers. */
  #asked: (() => void)[] = [];
  #isClosed = false;

  constructor(options: ReplicaLeaseOptions) {
    this.#options = options;
    this.#acquireTime = microTime(options.clock.nowMs());
  }

  start(): void {
    this.#renew();
  }

  /** Deletes the Lease object, so that watchers notice at once that the replica is gone. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#callOff?.();
    await this.#request;
    await this.#options.api.delete(replicaLeaseName(this.#options.replica));
  }

  /**
   * Calls `then` once the API server has answered a renewal that begins after this call, which is soon. Before that, the information of
   * this process may be older than that of other replicas, because a dead connection shows nothing.
   */
  confirm(then: () => void): void {
    this.#asked.push(then);
    if (this.#callOff === undefined || this.#isClosed) return;
    this.#callOff();
    this.#wait(0);
  }

  #renew(): void {
    this.#callOff = undefined;
    this.#begunMs = this.#options.clock.monotonicMs();
    const asked = this.#asked;
    this.#asked = [];
    this.#request = this.#apply().then(({ delayMs, isAnswered }) => {
      if (this.#isClosed) return;
      if (isAnswered) for (const then of asked) then();
      else this.#asked.unshift(...asked);
      this.#wait(isAnswered && this.#asked.length > 0 ? 0 : delayMs);
    });
  }

  #wait(delayMs: number): void {
    const { clock, timers } = this.#options;
    const minMs = this.#begunMs + minBetweenMs - clock.monotonicMs();
    this.#callOff = timers.after(Math.max(delayMs, minMs), () => this.#renew());
  }

  /** Returns whether the API server answered, and how long to wait before the next renewal. */
  async #apply(): Promise<{ delayMs: number; isAnswered: boolean }> {
    const { replica, durationMs, api, clock, annotations, renewed, failed } = this.#options;
    const everyMs = durationMs / renewalsPerDuration;
    const nextMs = clock.monotonicMs() + everyMs;
    const name = replicaLeaseName(replica);
    const claim = { name, holder: replica, durationMs, transitions: 0, acquireTime: this.#acquireTime };
    try {
      const { metadata } = await api.apply(claim, {
        labels: managedLabels('replica'),
        annotations: annotations(),
      });
      const owner = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', name, uid: metadata.uid };
      renewed(owner, metadata.resourceVersion);
      return { delayMs: Math.max(0, nextMs - clock.monotonicMs()), isAnswered: true };
    } catch (error) {
      failed(error);
      return { delayMs: everyMs * retryPart, isAnswered: isRejection(error) };
    }
  }
}

export interface LeaseObservation {
  name: string;
  /** The version of the Lease object. The same version again is not a sign of life. */
  resourceVersion: string;
  durationMs: number;
}

interface Life extends LeaseObservation {
  untilMs: number;
}

/**
 * Determines which replicas are alive: those whose Lease object changed within its duration, by our own clock since we saw it. Pure.
 *
 *            seen                    duration passed
 *   (none) ───────> alive ─────────────────────────────> dead ──┐
 *                   ^   ^ │ seen again                    │      │ removed: forgotten
 *                   └───┼─┘                               │      v
 *                       └──────── seen with a change ─────┘   (none)
 *
 * While this process receives no news, no replica counts as dead, because silence then means nothing. Afterward, each replica that was
 * alive has a whole duration to be seen.
 */
export class ReplicaLiveness {
  readonly #lives = new Map<string, Life>();
  #deafSinceMs: number | undefined;

  /** Returns whether the replica became alive because of this. */
  see(lease: LeaseObservation, nowMs: number): boolean {
    const { name, resourceVersion, durationMs } = lease;
    if (this.#lives.get(name)?.resourceVersion === resourceVersion) return false;
    const wasAlive = this.isAlive(name, nowMs);
    this.#lives.set(name, { ...lease, untilMs: nowMs + durationMs });
    return !wasAlive;
  }

  /** Removes a replica without a Lease object. Returns whether it was alive. */
  remove(name: string, nowMs: number): boolean {
    const wasAlive = this.isAlive(name, nowMs);
    this.#lives.delete(name);
    return wasAlive;
  }

  isAlive(name: string, nowMs: number): boolean {
    const life = this.#lives.get(name);
    return life !== undefined && (this.#deafSinceMs ?? nowMs) < life.untilMs;
  }

  /**
   * Returns when the next replica counts as dead unless it is seen before. Infinite if none is alive, or while this process receives no
   * news.
   */
  nextDeathMs(nowMs: number): number {
    if (this.#deafSinceMs !== undefined) return Number.POSITIVE_INFINITY;
    const alive = [...this.#lives.values()].flatMap(({ untilMs }) => (untilMs > nowMs ? untilMs : []));
    return Math.min(Number.POSITIVE_INFINITY, ...alive);
  }

  /** Called when this process receives no news from now on. */
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
