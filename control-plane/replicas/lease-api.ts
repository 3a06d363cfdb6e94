/** Leases of one namespace: the leader's, which candidates replace by version, and the replicas' own, which are applied. */
import type { Clock } from '../../process/time/clock.ts';
import { ApiError } from '../kubernetes/api-error.ts';
import type { KubernetesClient } from '../kubernetes/client.ts';
import { managedLabels, serverSideApply } from './replica-name.ts';

export interface LeaseApiOptions {
  client: KubernetesClient;
  namespace: string;
  /** Of one request. */
  timeoutMs: number;
  /** For people who read the Lease. */
  clock: Clock;
}

export interface LeaseClaim {
  name: string;
  holder: string;
  durationMs: number;
  transitions: number;
  /** Undefined: now. */
  acquireTime: string | undefined;
}

/** As the API server has it, as far as we read it. */
export interface LeaseObject {
  metadata: { name: string; uid: string; resourceVersion: string; labels?: Record<string, string> };
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

  /** Undefined: there is none. */
  async read(name: string): Promise<LeaseRecord | undefined> {
    try {
      return leaseRecord(await this.#request<LeaseObject>({ path: this.#path(name) }));
    } catch (error) {
      if (isStatus(error, 404)) return undefined;
      throw error;
    }
  }

  /** Creates the Lease, or replaces what `over` says it holds. Undefined: it is another one by now. */
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
      // Not found: somebody deleted it since it was read.
      if (isStatus(error, 409) || (over !== undefined && isStatus(error, 404))) return undefined;
      throw error;
    }
  }

  /** Renews a Lease that nobody else writes, and makes it where it is missing. */
  apply(claim: LeaseClaim, labels: Readonly<Record<string, string>>): Promise<LeaseObject> {
    return this.#request<LeaseObject>({
      ...serverSideApply,
      path: this.#path(claim.name),
      body: { ...this.#head(claim.name, {}, labels), spec: this.#spec(claim) },
    });
  }

  /** See `deleteObject`. */
  delete(name: string, resourceVersion?: string): Promise<void> {
    const { client, timeoutMs } = this.#options;
    return deleteObject(client, { path: this.#path(name), timeoutMs, resourceVersion });
  }

  #head(name: string, version: object, labels: object): object {
    const { namespace } = this.#options;
    return {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name, namespace, labels, ...version },
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

  #request<T>(request: Parameters<KubernetesClient['request']>[0]): Promise<T> {
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

/** RFC 3339 with the six digits that Kubernetes' MicroTime asks for. */
export function microTime(ms: number): string {
  return new Date(ms).toISOString().replace('Z', '000Z');
}

/** Succeeds when there is none; with `resourceVersion` leaves one alone that somebody has written since. */
export async function deleteObject(
  client: KubernetesClient,
  {
    path,
    timeoutMs,
    resourceVersion,
  }: { path: string; timeoutMs: number; resourceVersion?: string | undefined },
): Promise<void> {
  const body = resourceVersion === undefined ? {} : { preconditions: { resourceVersion } };
  try {
    await client.request({ method: 'DELETE', path, timeoutMs, body });
  } catch (error) {
    if (!isStatus(error, 404) && !isStatus(error, 409)) throw error;
  }
}

function isStatus(error: unknown, status: number): boolean {
  return error instanceof ApiError && error.status === status;
}

/** What a coordination.k8s.io/v1 Lease says, as far as an election or a sign of life needs it. */
export interface LeaseRecord {
  /** Changes with every write; a write that names another one than the server's is refused. */
  resourceVersion: string;
  /** Empty: nobody; its last holder has released it. */
  holder: string;
  /** How long the holder may go without renewing it; undefined where whoever wrote it said nothing. */
  durationMs: number | undefined;
  /** RFC 3339 with microseconds, as the holder's clock had it; for people. */
  acquireTime: string | undefined;
  /** How often the holder has changed. */
  transitions: number;
}
