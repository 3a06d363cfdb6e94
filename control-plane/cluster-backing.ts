import { packageVersion } from '../process/files/package-file.ts';
import { overrideKind } from '../rules/language/kinds.ts';
import type { Backing, OpenBackingOptions } from './backing.ts';
import { previewedFleet } from './fleets/fleet-readings.ts';
import { FleetStore } from './fleets/fleet-store.ts';
import type { Denial, KubernetesApi } from './kubernetes/api.ts';
import { KubernetesClient } from './kubernetes/client.ts';
import { loadKubernetesConfig } from './kubernetes/client-config.ts';
import { reviewToken } from './kubernetes/token-review.ts';
import { noPolicy, type Policy } from './reconcile/decide.ts';
import { AcceptedSpecStore } from './replicas/accepted-spec-store.ts';
import { DomainRecordStore } from './replicas/domain-records.ts';
import { EventRecorder } from './replicas/event-recorder.ts';
import { type Codec, gzipCodec } from './replicas/own-objects.ts';
import { RemovedObjectStore } from './replicas/removed-object-store.ts';
import { Replicas } from './replicas/replicas.ts';
import { StatusWriter } from './replicas/status-writer.ts';
import { KubernetesSource } from './source/kubernetes-source.ts';
import { SchemaStore } from './source/schema-store.ts';
import { lines } from './telemetry/log-lines.ts';
import type { StoredState, World } from './world.ts';

export interface ClusterBackingOptions extends OpenBackingOptions {
  client: KubernetesApi;
  /** The namespace of Leases and ConfigMaps. */
  namespace: string;
  codec: Codec;
}

/** A Kubernetes cluster. Its API stores the objects, their statuses, and the information that replicas share. */
export class ClusterBacking implements Backing {
  readonly source: KubernetesSource;
  readonly controllerName: string;
  readonly statusWriter: StatusWriter;
  readonly replicas: Replicas;
  readonly events: EventRecorder;
  readonly fleets: FleetStore;
  readonly schemas: SchemaStore;
  readonly #options: ClusterBackingOptions;
  readonly #acceptedSpecs: AcceptedSpecStore;
  /** Undefined if deletions are not reported. */
  readonly #removed: RemovedObjectStore | undefined;
  /** Undefined if every namespace may use a domain as soon as it becomes free. */
  readonly #domains: DomainRecordStore | undefined;

  constructor(options: ClusterBackingOptions) {
    const { settings, namespace, replica, learn } = options;
    this.#options = options;
    this.controllerName = `${namespace}/${settings.leaseName}`;
    const leads = () => this.replicas.leads;
    const policyChanged = () => learn({ policy: this.#policy, confirmed: this.schemas.confirmed });
    this.statusWriter = new StatusWriter(options);
    this.source = new KubernetesSource({
      ...options,
      namespaces: settings.watchNamespaces,
      className: settings.className,
      labelSelector: settings.labelSelector,
      controllerName: this.controllerName,
    });
    this.replicas = new Replicas({
      ...options,
      leaseName: settings.leaseName,
      leaseDurationMs: settings.leaseDurationMs,
      renewDeadlineMs: settings.leaseRenewDeadlineMs,
      retryPeriodMs: settings.leaseRetryPeriodMs,
      replicaLeaseDurationMs: settings.replicaLeaseDurationMs,
      startedLeading: () => {
        this.fleets.startedLeading();
        learn({ leads: true, fleets: this.fleets.followed });
      },
      stoppedLeading: () => {
        this.#domains?.stoppedLeading();
        this.events.clear();
        learn({ leads: false });
      },
      changed: () => learn({ reports: this.replicas.living() }),
      cutOff: (isLeaseCut) => learn({ isLeaseCut }),
    });
    this.fleets = new FleetStore({
      ...options,
      services: settings.fleetServices,
      mayWrite: leads,
      changed: () =>
        learn((world) => ({ expectations: this.fleets.expectations(), ...this.#followed(world) })),
      shown: () => learn((world) => this.#followed(world)),
      accessChanged: policyChanged,
    });
    this.#acceptedSpecs = new AcceptedSpecStore({
      ...options,
      leads,
      changed: (acceptedSpecs) => learn({ acceptedSpecs }),
    });
    this.schemas = new SchemaStore({ ...options, changed: policyChanged });
    if (settings.webhookUrls.length > 0)
      this.#removed = new RemovedObjectStore({
        ...options,
        mayWrite: leads,
        changed: (removed) => learn({ removed }),
      });
    const releaseMs = settings.domainReleaseDelayMs;
    if (releaseMs > 0)
      this.#domains = new DomainRecordStore({
        ...options,
        releaseMs,
        mayWrite: leads,
        changed: policyChanged,
      });
    this.events = new EventRecorder({ ...options, instance: replica });
  }

  readonly reviewToken: NonNullable<Backing['reviewToken']> = (token, audience) =>
    reviewToken(this.#options.client, { token, audience });

  readonly previewed: NonNullable<Backing['previewed']> = {
    config: (object) => this.source.previewed(object),
    override: (object) => this.source.previewed(object, overrideKind),
    fleet: (object) =>
      object.metadata.namespace === this.#options.namespace ? previewedFleet(object) : undefined,
  };

  #followed({ objectVersions }: World): Pick<World, 'fleets' | 'objectVersions'> {
    const { followed, versions } = this.fleets;
    return { fleets: followed, objectVersions: { ...objectVersions, ...versions } };
  }

  get #policy(): Policy | undefined {
    const { policy } = this.fleets;
    const records = this.#domains === undefined ? noPolicy.records : this.#domains.records;
    const { schemas } = this.schemas;
    return policy && records && schemas && { ...policy, records, schemas };
  }

  start(): void {
    this.replicas.start();
    void this.#acceptedSpecs.load();
    this.#removed?.start();
    this.#domains?.start();
    this.fleets.start();
    this.schemas.start();
  }

  share(parts: Partial<StoredState>): void {
    if (parts.acceptedSpecs !== undefined) this.#acceptedSpecs.sync(parts.acceptedSpecs);
    if ('decision' in parts) this.#domains?.decided(parts.decision);
    if (parts.removed !== undefined) this.#removed?.sync(parts.removed);
  }

  async close(): Promise<void> {
    this.schemas.close();
    await Promise.all([
      this.#acceptedSpecs.close(),
      this.#domains?.close(),
      this.#removed?.close(),
      this.fleets.close(),
      this.events.close(),
    ]);
    await this.replicas.close();
    this.#options.client.close();
  }
}

/** The namespace that applies if the environment does not name the namespace of this process. */
const defaultNamespace = 'weir-system';

/** Opens the backing: see `OpenBacking`. */
export function openClusterBacking(options: OpenBackingOptions): Backing {
  const { settings, env } = options;
  const config = loadKubernetesConfig({
    kubeconfig: settings.kubeconfig,
    serviceHost: env['KUBERNETES_SERVICE_HOST'],
    servicePort: env['KUBERNETES_SERVICE_PORT'],
    home: env['HOME'],
  });
  const { log, metrics } = options;
  const denied = (denial: Denial, isDenied: boolean): void => {
    metrics.accessDenied(denial, isDenied);
    if (isDenied) lines.accessDenied(log, denial);
  };
  const client = new KubernetesClient({
    config,
    userAgent: `weir-control-plane/${packageVersion()}`,
    denied,
  });
  const ofPod = settings.kubeconfig === '' ? client.namespace : undefined;
  return new ClusterBacking({
    ...options,
    client,
    codec: gzipCodec,
    namespace: settings.podNamespace || ofPod || defaultNamespace,
  });
}
