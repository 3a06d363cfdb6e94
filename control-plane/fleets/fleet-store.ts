/**
 * The RateLimitFleets in the control plane's namespace, the endpoints of their Services, and the labels of namespaces if a fleet needs
 * them. The store watches them, creates missing fleets and writes statuses.
 */

import { type ThrottledLine, throttledLine } from '../../process/log/log-throttle.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { apiVersion, fleetKind, fleetPlural, group, version } from '../../rules/language/kinds.ts';
import { ApiError, hasStatus, isTransient, isWatchRejected, type KubernetesApi } from '../kubernetes/api.ts';
import { ResourceWatch, type WatchListener } from '../kubernetes/watch.ts';
import { resourcePath } from '../kubernetes/watch-protocol.ts';
import type {
  Endpoint,
  FleetExpectation,
  FleetObject,
  FleetProblem,
  FleetStatus,
  FollowedFleet,
} from '../model/config-object.ts';
import type { FleetAccesses } from '../model/domain-owners.ts';
import { type StatusWrite, WriteLedger } from '../model/write-ledger.ts';
import { Pump } from '../replicas/pump.ts';
import { StatusWriter } from '../replicas/status-pump.ts';
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
import { sameFleetStatus } from './fleet-status.ts';

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
  /** Called when `accesses` has changed. */
  accessChanged(): void;
  clock: Clock;
  timers: Timers;
  random(): number;
}

type SliceWatch = ResourceWatch<Endpoint[]>;

interface Outage {
  reason: string;
  status: number;
  /** Whether the API server rejects the request (401, 403 or 404), so that waiting does not help. */
  isRejection: boolean;
}

/** Chosen: the wait before a rejected write is tried again. */
const pauseAfterRejectionMs = 30_000;

export class FleetStore {
  readonly #options: FleetStoreOptions;
  readonly #fleets: ResourceWatch<FleetObject>;
  /** Watches by `namespace/name` of the Service. */
  readonly #slices = new Map<string, SliceWatch>();
  /** Reasons why slices cannot be watched, by `namespace/name` of the Service. */
  readonly #slicesRejected = new Map<string, string>();
  /** The watch of namespaces. Undefined while no fleet needs labels. */
  #namespaces: ResourceWatch<Labels> | undefined;
  /** The reason why namespaces cannot be watched now. */
  #namespacesOutage: Outage | undefined;
  /** Accesses by fleet. */
  #accesses: ReadonlyMap<string, AccessReading> = new Map();
  #reported: { accesses: FleetAccesses | undefined; specs: string } = { accesses: undefined, specs: '' };
  readonly #path: string;
  /** Names of fleets with pending writes. */
  readonly #due = new Set<string>();
  /** Statuses to write, by fleet. */
  readonly #statuses = new Map<string, StatusWrite<FleetObject>>();
  readonly #writer: StatusWriter<FleetObject>;
  #writes = WriteLedger.empty<FleetObject>(sameFleetStatus);
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
      read: readFleet,
      listener: this.#listener(
        fleetPlural,
        () => this.#fleetsChanged(),
        (failure) => this.#fleetsFailed(failure),
      ),
    });
    this.#writer = new StatusWriter({
      ...options,
      record: (change) => {
        this.#writes = change(this.#writes);
      },
      addressOf: ({ name }) => ({ kind: fleetKind, plural: fleetPlural, namespace, name }),
    });
    this.#notWritten = throttledLine(options, lines.fleetNotWritten);
    this.#pump = new Pump({
      ...options,
      queue: { next: () => this.#next(), nextDueMs: () => undefined },
      concurrency: 1,
      mayRun: () => !this.#isClosed && options.mayWrite(),
      attempt: (name) => this.#write(name),
      failed: (_, error) => this.#notWritten({ reason: error.message }),
      firstRetryMs: 500,
      maxRetryMs: 30_000,
    });
  }

  start(): void {
    this.#fleets.start();
  }

  /** Forgets what this process knew and wrote in an earlier lead, because others may have written since. */
  startedLeading(): void {
    this.#statuses.clear();
    this.#due.clear();
    this.#writes = WriteLedger.empty(sameFleetStatus);
    this.#pump.endWaits();
    this.#createMissing();
  }

  /** The fleets, each with its newest status: as the watch shows it, or as this process has written it since. */
  get fleets(): readonly FleetObject[] {
    return [...this.#fleets.items.values()].map((fleet) => this.#look(fleet));
  }

  #look(fleet: FleetObject): FleetObject {
    const { known, writes } = this.#writes.look(fleet, this.#options.clock.nowMs());
    this.#writes = writes;
    return known;
  }

  get followed(): readonly FollowedFleet[] {
    return this.fleets.map((object) => {
      const due = this.#statuses.get(object.name);
      const isDue = due !== undefined && due.object.resourceVersion === object.resourceVersion;
      return { object, written: isDue ? due.status : object.status, problem: this.#problemOf(object) };
    });
  }

  /** The access rules of all fleets. Undefined while they are unknown. The value is replaced with each change. */
  get accesses(): FleetAccesses | undefined {
    return this.#reported.accesses;
  }

  #problemOf({ name, spec: { service } }: FleetObject): FleetProblem | undefined {
    const { problem } = this.#accesses.get(name) ?? {};
    if (problem !== undefined || service === undefined) return problem;
    const key = `${service.namespace}/${service.name}`;
    const rejection = this.#slicesRejected.get(key);
    if (rejection === undefined) return undefined;
    const message = `spec.service: the control plane cannot watch the endpoints of ${key}: ${rejection}`;
    const meanwhile = this.#slices.get(key)?.isListed
      ? 'the last known endpoints are still expected'
      : 'limiters that were connected within the grace are expected';
    return { reason: 'EndpointsUnknown', message, meanwhile };
  }

  /** Returns expectations by fleet. */
  expectations(): ReadonlyMap<string, FleetExpectation> {
    return new Map(this.fleets.map((fleet) => [fleet.name, expectationOf(fleet, this.#endpointsOf(fleet))]));
  }

  /**
   * Writes a status soon, and again after failures, unless a newer status replaces it, or another writer has changed the object since
   * `fleet`. In the latter case, the watch shows the change, and new writes follow from it.
   */
  writeStatus(fleet: FleetObject, status: FleetStatus): void {
    if (!this.#writes.mayWrite(fleet, this.#options.clock.nowMs())) return;
    this.#statuses.set(fleet.name, { object: fleet, status });
    this.#options.shown();
    this.#ask(fleet.name);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const watches = [this.#fleets, this.#namespaces, ...this.#slices.values()];
    await Promise.all([this.#pump.close(), ...watches.map((watch) => watch?.close())]);
  }

  #endpointsOf({ spec: { service } }: FleetObject): Endpoint[] | undefined {
    const watch = service && this.#slices.get(`${service.namespace}/${service.name}`);
    return watch?.isListed ? joinedEndpoints(watch.items.values()) : undefined;
  }

  #fleetsChanged(): void {
    const { fleets } = this;
    this.#writes = this.#writes.retaining(fleets);
    const services = new Map<string, { namespace: string; name: string }>(
      fleets.flatMap(({ spec: { service } }) =>
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
    const isReported = specs === this.#reported.specs;
    this.#reported.specs = specs;
    if (isReported) this.#options.shown();
    else this.#options.changed();
  }

  /** Without the definition, there are no fleets. Without the right to read fleets, they are unknown, and decisions wait. */
  #fleetsFailed(failure: Outage | undefined): void {
    if (failure?.status === 404 && this.#reported.accesses === undefined) this.#reportAccesses(new Map());
  }

  #followNamespaces(): void {
    const isAsked = this.fleets.some(selectsNamespaces);
    if (isAsked === (this.#namespaces !== undefined)) return;
    void this.#namespaces?.close();
    this.#namespaces = isAsked ? this.#watchNamespaces() : undefined;
    this.#namespacesOutage = undefined;
    this.#namespaces?.start();
  }

  #watchNamespaces(): ResourceWatch<Labels> {
    const watch: ResourceWatch<Labels> = new ResourceWatch({
      ...this.#options,
      resource: { group: '', version: 'v1', plural: 'namespaces', namespace: undefined },
      read: ({ metadata: { labels = {} } }) => ({ item: labels }),
      listener: this.#listener(
        'namespaces',
        () => this.#namespacesChanged(watch),
        (failure) => this.#namespacesChanged(watch, failure),
      ),
    });
    return watch;
  }

  #namespacesChanged(watch: ResourceWatch<Labels>, outage?: Outage): void {
    if (watch !== this.#namespaces) return;
    this.#namespacesOutage = outage;
    this.#readAccesses();
    this.#options.shown();
  }

  #readAccesses(): void {
    const { isListed = false, items } = this.#namespaces ?? {};
    const outage = this.#namespacesOutage;
    const namespaces = { labels: isListed ? items : undefined, outage: outage?.reason };
    const before = this.#accesses;
    this.#accesses = new Map(
      this.fleets.map((fleet) => [fleet.name, readAccess(fleet, namespaces, before.get(fleet.name))]),
    );
    for (const [name, { problem }] of this.#accesses) {
      if (problem === undefined || problem.message === before.get(name)?.problem?.message) continue;
      lines.fleetNotObeyed(this.#options.log, { fleet: name, ...problem });
    }
    const isAwaited = this.#namespaces !== undefined && !isListed && outage?.isRejection !== true;
    const { accesses } = this.#reported;
    if (accesses === undefined && isAwaited) return;
    const isSame =
      accesses instanceof Map &&
      accesses.size === this.#accesses.size &&
      [...this.#accesses].every(([name, { access }]) => accesses.get(name) === access);
    if (!isSame)
      this.#reportAccesses(new Map([...this.#accesses].map(([name, { access }]) => [name, access])));
  }

  #reportAccesses(accesses: FleetAccesses): void {
    this.#reported.accesses = accesses;
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
    const reported = () => {
      if (!this.#isClosed) changed();
    };
    return {
      listed: reported,
      changed: reported,
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
    if (this.#isClosed || !this.#options.mayWrite()) return;
    this.#due.add(name);
    this.#pump.wake();
  }

  #next(): string | undefined {
    const [name] = this.#due;
    if (name !== undefined) this.#due.delete(name);
    return name;
  }

  /** Returns undefined if the write is done, or no longer needed. */
  async #write(name: string): Promise<ApiError | undefined> {
    try {
      if (this.#has(name)) await this.#writeStatus(name);
      else await this.#create(name);
      return undefined;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (isTransient(error)) return error;
      // The other writes continue.
      this.#notWritten({ reason: error.message });
      this.#pump.later(pauseAfterRejectionMs, () => this.#ask(name));
      return undefined;
    }
  }

  async #writeStatus(name: string): Promise<void> {
    const due = this.#statuses.get(name);
    if (due === undefined) return;
    const outcome = await this.#writer.write(due.object, due.status);
    if ('error' in outcome) throw outcome.error;
    const next = this.#statuses.get(name);
    if (next === due) this.#statuses.delete(name);
    else if (next !== undefined && next.object.resourceVersion === due.object.resourceVersion)
      next.object = this.#look(next.object);
    this.#options.shown();
  }

  /** Another writer may have created the object first. It then stays unchanged. */
  async #create(name: string): Promise<void> {
    const [service] = this.#options.services.get(name) ?? [];
    if (service === undefined) return;
    const [namespace, serviceName] = service.split('/');
    const spec = { service: { namespace, name: serviceName } };
    const { client, log } = this.#options;
    try {
      const body = { apiVersion, kind: fleetKind, metadata: { name }, spec };
      await client.request({ method: 'POST', path: this.#path, timeoutMs: 10_000, body });
      lines.fleetCreated(log, { fleet: name, service });
    } catch (error) {
      if (!hasStatus(error, 409)) throw error;
    }
  }
}
