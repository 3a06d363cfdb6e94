/**
 * The RateLimitFleets in the control plane's namespace, the endpoints of their Services, and the labels of namespaces if a fleet needs
 * them. The store watches them, and creates missing fleets.
 */

import { isDeepStrictEqual } from 'node:util';
import { type ThrottledLine, throttledLine } from '../../process/log/log-throttle.ts';
import { Pump } from '../../process/queues/pump.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { apiVersion, fleetKind, fleetPlural, group, version } from '../../rules/language/kinds.ts';
import { ApiError, isTransient, isWatchRejected, type KubernetesApi } from '../kubernetes/api.ts';
import { ResourceWatch, type WatchListener } from '../kubernetes/watch.ts';
import { apiObjectKey, resourcePath } from '../kubernetes/watch-protocol.ts';
import type {
  Endpoint,
  FleetExpectation,
  FleetObject,
  FleetProblem,
  FollowedFleet,
} from '../model/config-object.ts';
import { accessWatches, isReached, type ObjectVersions, shownVersions } from '../model/object-versions.ts';
import type { Policy } from '../reconcile/decide.ts';
import type { Labels } from '../source/label-selector.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import {
  type AccessReading,
  expectationOf,
  joinedEndpoints,
  readAccess,
  readFleet,
  readSlice,
  selectsNamespaces,
} from './fleet-readings.ts';

export interface FleetStoreOptions extends Pick<Telemetry, 'log'> {
  client: KubernetesApi;
  namespace: string;
  /** Services (`namespace/name`) by fleet. The store creates an object for each of these fleets that has none. */
  services: ReadonlyMap<string, readonly string[]>;
  /** Returns whether this process leads. */
  mayWrite(): boolean;
  /** Called when fleets expect other limiters. `followed` may have changed, too. */
  changed(): void;
  /** Called when `followed` may have changed. */
  shown(): void;
  /** Called when `policy` has changed. */
  accessChanged(): void;
  clock: Clock;
  timers: Timers;
  random(): number;
}

/** Access rules, and the versions of the API server that they follow from, by fleet. */
type FleetPolicy = Required<Pick<Policy, 'fleets' | 'accessVersions'>>;

interface NamespaceLabels {
  labels: Labels;
  version: string | undefined;
}

type SliceWatch = ResourceWatch<Endpoint[]>;

interface Outage {
  reason: string;
  status: number;
  /** Whether the API server rejects the request (401, 403 or 404), so that waiting does not help. */
  isRejection: boolean;
}

/** Returns whether slices are known. Kubernetes creates one even for a Service without pods, so without one, there is no such Service. */
function hasAny(watch: SliceWatch | undefined): watch is SliceWatch {
  return watch?.isListed === true && watch.items.size > 0;
}

/** Chosen: the wait before a rejected fleet is created again. */
const pauseAfterRejectionMs = 30_000;

export class FleetStore {
  readonly #options: FleetStoreOptions;
  readonly #fleets: ResourceWatch<FleetObject>;
  /** Watches by `namespace/name` of the Service. */
  readonly #slices = new Map<string, SliceWatch>();
  /** Reasons why slices cannot be watched, by `namespace/name` of the Service. */
  readonly #slicesRejected = new Map<string, string>();
  /** The watch of namespaces. Undefined while no fleet needs labels. */
  #namespaces: ResourceWatch<NamespaceLabels> | undefined;
  /** The version of the newest edit of a namespace that may have changed its labels. */
  #namespacesEdited: string | undefined;
  /** The reason why namespaces cannot be watched now. */
  #namespacesOutage: Outage | undefined;
  /** Accesses by fleet. */
  #accesses: ReadonlyMap<string, AccessReading> = new Map();
  #policy: FleetPolicy | undefined;
  /** The generations of the fleets whose expectations were reported last. */
  #reportedSpecs = '';
  readonly #path: string;
  /** Names of fleets to create. */
  readonly #missing = new Set<string>();
  readonly #notWritten: ThrottledLine<{ reason: string }>;
  readonly #pump: Pump<string, ApiError>;
  #isClosed = false;

  constructor(options: FleetStoreOptions) {
    this.#options = options;
    const { namespace } = options;
    const resource = { group, version, plural: fleetPlural, namespace };
    this.#path = resourcePath(resource);
    this.#fleets = new ResourceWatch({
      ...options,
      resource,
      read: (object) => readFleet(object, this.#fleets.items.get(apiObjectKey(object))),
      listener: this.#listener(
        fleetPlural,
        () => this.#fleetsChanged(),
        (failure) => this.#fleetsFailed(failure),
      ),
    });
    this.#notWritten = throttledLine(options, lines.fleetNotWritten);
    this.#pump = new Pump({
      ...options,
      queue: { next: () => this.#next(), nextDueMs: () => undefined },
      concurrency: 1,
      mayRun: () => !this.#isClosed && options.mayWrite(),
      attempt: (name) => this.#create(name),
      failed: (_, error) => this.#notWritten({ reason: error.message }),
      firstRetryMs: 500,
      maxRetryMs: 30_000,
    });
  }

  start(): void {
    this.#fleets.start();
  }

  startedLeading(): void {
    this.#pump.endWaits();
    this.#createMissing();
  }

  get fleets(): readonly FleetObject[] {
    return [...this.#fleets.items.values()];
  }

  get followed(): readonly FollowedFleet[] {
    return this.fleets.map((object) => ({ object, problem: this.#problemOf(object) }));
  }

  /** The access rules of all fleets. Undefined while they are unknown. The value is replaced with each edit. */
  get policy(): FleetPolicy | undefined {
    return this.#policy;
  }

  /** The versions up to which `policy` is known. */
  get versions(): ObjectVersions {
    return shownVersions([
      [accessWatches.fleets, this.#fleets],
      [accessWatches.namespaces, this.#namespaces],
    ]);
  }

  #problemOf({ name, spec: { service } }: FleetObject): FleetProblem | undefined {
    const { problem } = this.#accesses.get(name) ?? {};
    if (problem !== undefined || service === undefined) return problem;
    const key = `${service.namespace}/${service.name}`;
    const rejection = this.#slicesRejected.get(key);
    const watch = this.#slices.get(key);
    const hasSlices = hasAny(watch);
    const message =
      rejection !== undefined
        ? `spec.service: the control plane cannot watch the endpoints of ${key}: ${rejection}`
        : watch?.isListed && !hasSlices
          ? `spec.service: ${key} has no EndpointSlices: check that there is a Service with this name`
          : undefined;
    if (message === undefined) return undefined;
    const meanwhile = hasSlices
      ? 'the last known endpoints are still expected'
      : 'limiters that were connected within the grace are expected';
    return { reason: 'EndpointsUnknown', message, meanwhile };
  }

  /** Returns expectations by fleet. */
  expectations(): ReadonlyMap<string, FleetExpectation> {
    return new Map(this.fleets.map((fleet) => [fleet.name, expectationOf(fleet, this.#endpointsOf(fleet))]));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const watches = [this.#fleets, this.#namespaces, ...this.#slices.values()];
    await Promise.all([this.#pump.close(), ...watches.map((watch) => watch?.close())]);
  }

  #endpointsOf({ spec: { service } }: FleetObject): Endpoint[] | undefined {
    const watch = service && this.#slices.get(`${service.namespace}/${service.name}`);
    return hasAny(watch) ? joinedEndpoints(watch.items.values()) : undefined;
  }

  #fleetsChanged(): void {
    const services = new Map<string, { namespace: string; name: string }>(
      this.fleets.flatMap(({ spec: { service } }) =>
        service === undefined ? [] : [[`${service.namespace}/${service.name}`, service] as const],
      ),
    );
    for (const [key, watch] of this.#slices) {
      if (services.has(key)) continue;
      this.#slices.delete(key);
      this.#slicesRejected.delete(key);
      void watch.close();
    }
    for (const [key, service] of services) if (!this.#slices.has(key)) this.#watchSlices(key, service);
    this.#createMissing();
    this.#followNamespaces();
    this.#readAccesses();
    const specs = JSON.stringify(this.fleets.map(({ uid, generation }) => [uid, generation]));
    const isReported = specs === this.#reportedSpecs;
    this.#reportedSpecs = specs;
    if (isReported) this.#options.shown();
    else this.#options.changed();
  }

  /** Without the definition, there are no fleets. Without the right to read fleets, they are unknown, and decisions wait. */
  #fleetsFailed(failure: Outage | undefined): void {
    if (failure?.status === 404 && this.#policy === undefined) this.#reportAccesses();
  }

  #followNamespaces(): void {
    const isAsked = this.fleets.some(selectsNamespaces);
    if (isAsked === (this.#namespaces !== undefined)) return;
    void this.#namespaces?.close();
    this.#namespaces = isAsked ? this.#watchNamespaces() : undefined;
    this.#namespacesOutage = undefined;
    this.#namespaces?.start();
  }

  #watchNamespaces(): ResourceWatch<NamespaceLabels> {
    const watch: ResourceWatch<NamespaceLabels> = new ResourceWatch({
      ...this.#options,
      resource: { group: '', version: 'v1', plural: 'namespaces', namespace: undefined },
      read: ({ metadata: { labels = {}, resourceVersion } }) => ({
        item: { labels, version: resourceVersion },
      }),
      itemShown: (now, before, isListed) => {
        const isEdit = isListed
          ? now?.version !== before?.version
          : !isDeepStrictEqual(now?.labels, before?.labels);
        const { version = '' } = now ?? {};
        if (isEdit && !isReached(this.#namespacesEdited, version)) this.#namespacesEdited = version;
        return true;
      },
      listener: this.#listener(
        'namespaces',
        () => this.#namespacesChanged(watch),
        (failure) => this.#namespacesChanged(watch, failure),
      ),
    });
    return watch;
  }

  #namespacesChanged(watch: ResourceWatch<NamespaceLabels>, outage?: Outage): void {
    if (watch !== this.#namespaces) return;
    this.#namespacesOutage = outage;
    this.#readAccesses();
    this.#options.shown();
  }

  #readAccesses(): void {
    const { isListed = false, items } = this.#namespaces ?? {};
    const outage = this.#namespacesOutage;
    const namespaces = {
      all: isListed ? items : undefined,
      edited: this.#namespacesEdited,
      outage: outage?.reason,
    };
    const before = this.#accesses;
    this.#accesses = new Map(
      this.fleets.map((fleet) => [fleet.name, readAccess(fleet, namespaces, before.get(fleet.name))]),
    );
    for (const [name, { problem }] of this.#accesses) {
      if (problem === undefined || problem.message === before.get(name)?.problem?.message) continue;
      lines.fleetNotObeyed(this.#options.log, { fleet: name, ...problem });
    }
    const isAwaited = this.#namespaces !== undefined && !isListed && outage?.isRejection !== true;
    if (this.#policy === undefined ? !isAwaited : !this.#isReported(this.#policy)) this.#reportAccesses();
  }

  #isReported({ fleets, accessVersions }: FleetPolicy): boolean {
    const accesses = [...this.#accesses];
    return (
      accessVersions.size === accesses.length &&
      accesses.every(
        ([name, { access, versions }]) =>
          fleets.get(name) === access && accessVersions.get(name) === versions,
      )
    );
  }

  #reportAccesses(): void {
    const accesses = [...this.#accesses];
    this.#policy = {
      fleets: new Map(accesses.map(([name, { access }]) => [name, access])),
      accessVersions: new Map(accesses.map(([name, { versions }]) => [name, versions])),
    };
    this.#options.accessChanged();
  }

  #watchSlices(key: string, { namespace, name }: { namespace: string; name: string }): void {
    const watch: SliceWatch = new ResourceWatch({
      ...this.#options,
      resource: { group: 'discovery.k8s.io', version: 'v1', plural: 'endpointslices', namespace },
      labelSelector: `kubernetes.io/service-name=${name}`,
      // Endpoints do not affect whether objects are accepted.
      limits: { deniedPatienceMs: 0 },
      read: readSlice,
      listener: this.#listener(
        `endpoints of ${key}`,
        () => this.#options.changed(),
        (failure) => this.#slicesFailed(key, watch, failure),
      ),
    });
    this.#slices.set(key, watch);
    watch.start();
  }

  #slicesFailed(key: string, watch: SliceWatch, failure: Outage | undefined): void {
    if (watch !== this.#slices.get(key)) return;
    if (failure?.isRejection) this.#slicesRejected.set(key, failure.reason);
    else this.#slicesRejected.delete(key);
    this.#options.shown();
  }

  #listener(
    what: string,
    changed: () => void,
    turned: (outage: Outage | undefined) => void = () => {},
  ): WatchListener {
    const { log } = this.#options;
    return {
      changed: () => {
        if (!this.#isClosed) changed();
      },
      unreachable: (reason, status) => {
        lines.fleetsUnreachable(log, { what, reason });
        if (!this.#isClosed) turned({ reason, status, isRejection: isWatchRejected({ status }) });
      },
      reachable: () => {
        lines.fleetsReachable(log, { what });
        if (!this.#isClosed) turned(undefined);
      },
      skipped: (name, reason) => lines.fleetSkipped(log, { name, reason }),
    };
  }

  #createMissing(): void {
    if (!this.#fleets.isListed) return;
    for (const name of this.#options.services.keys()) if (!this.#has(name)) this.#ask(name);
  }

  #has(name: string): boolean {
    return this.fleets.some((fleet) => fleet.name === name);
  }

  #ask(name: string): void {
    this.#missing.add(name);
    this.#pump.wake();
  }

  #next(): string | undefined {
    const [name] = this.#missing;
    if (name !== undefined) this.#missing.delete(name);
    return name;
  }

  /** Returns the error if another attempt is due soon. */
  async #create(name: string): Promise<ApiError | undefined> {
    const [service] = this.#options.services.get(name) ?? [];
    if (service === undefined || this.#has(name)) return undefined;
    const [namespace, serviceName] = service.split('/');
    const spec = { service: { namespace, name: serviceName } };
    const { client, log } = this.#options;
    try {
      const body = { apiVersion, kind: fleetKind, metadata: { name }, spec };
      await client.request({ method: 'POST', path: this.#path, timeoutMs: 10_000, body });
      lines.fleetCreated(log, { fleet: name, service });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (isTransient(error)) return error;
      // Another writer may have created the object first. It then stays unchanged.
      if (error.status === 409) return undefined;
      this.#notWritten({ reason: error.message });
      // The other fleets continue.
      this.#pump.later(pauseAfterRejectionMs, () => this.#ask(name));
    }
    return undefined;
  }
}
