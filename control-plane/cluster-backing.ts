import { errorText } from '../process/log/error-text.ts';
import type { Logger } from '../process/log/logger.ts';
import { packageVersion } from '../process/log/process-lines.ts';
import { Seldom } from '../process/log/seldom.ts';
import type { Clock, Timers } from '../process/time/clock.ts';
import type { Backing, BackingListener, OpenBackingOptions } from './backing.ts';
import { KubernetesClient } from './kubernetes/client.ts';
import { loadKubernetesConfig } from './kubernetes/client-config.ts';
import { reviewToken } from './kubernetes/token-review.ts';
import type { LimiterReport, ReplicaReport } from './model/fleet-snapshot.ts';
import { EventRecorder, type RecordedEvent } from './replicas/event-recorder.ts';
import type { StoredSpec } from './replicas/kept-spec-collection.ts';
import { type KeptSpecListener, KeptSpecStore } from './replicas/kept-spec-store.ts';
import { Replicas, type ReplicasListener } from './replicas/replicas.ts';
import { StatusWriter } from './replicas/status-pump.ts';
import type { ControlPlaneSettings } from './settings/table.ts';
import { KubernetesSource } from './source/kubernetes-source.ts';
import type { ControlPlaneMetrics } from './telemetry/control-plane-metrics.ts';
import * as lines from './telemetry/log-lines.ts';

export interface ClusterBackingOptions {
  settings: ControlPlaneSettings;
  client: KubernetesClient;
  /** Of Leases and ConfigMaps. */
  namespace: string;
  replica: string;
  clock: Clock;
  timers: Timers;
  random(): number;
  log: Logger;
  metrics: ControlPlaneMetrics;
  listener: BackingListener;
}

const seldomMs = 60_000;

/** A Kubernetes cluster, whose API holds the objects, their statuses, and what the replicas know of each other. */
export class ClusterBacking implements Backing {
  readonly source: KubernetesSource;
  readonly statusWriter: StatusWriter;
  readonly #options: ClusterBackingOptions;
  readonly #replicas: Replicas;
  readonly #kept: KeptSpecStore;
  readonly #events: EventRecorder;

  constructor(options: ClusterBackingOptions) {
    const { settings, client, namespace, replica } = options;
    this.#options = options;
    const common = { ...options, client, namespace };
    this.source = new KubernetesSource({
      ...common,
      namespaces: settings.watchNamespaces,
      labelSelector: settings.labelSelector,
    });
    this.statusWriter = new StatusWriter({ client, writing: (object) => this.source.writing(object) });
    this.#replicas = new Replicas({
      ...common,
      leaseName: settings.leaseName,
      leaseDurationMs: settings.leaseDurationMs,
      renewDeadlineMs: settings.leaseRenewDeadlineMs,
      retryPeriodMs: settings.leaseRetryPeriodMs,
      replicaLeaseDurationMs: settings.replicaLeaseDurationMs,
      listener: this.#replicasListener(),
    });
    this.#kept = new KeptSpecStore({
      ...common,
      mayWrite: () => this.leads,
      listener: this.#keptListener(),
    });
    this.#events = new EventRecorder({ ...common, instance: replica, listener: this.#eventsListener() });
  }

  get leads(): boolean {
    return this.#replicas.leads;
  }

  get leader(): string | undefined {
    const { leader, leads } = this.#replicas;
    return leader === this.#options.replica && !leads ? undefined : leader;
  }

  readonly reviewToken: NonNullable<Backing['reviewToken']> = (token, audience) =>
    reviewToken(this.#options.client, { token, audience });

  start(): void {
    this.#replicas.start();
    void this.#kept.load();
  }

  publish(limiters: readonly LimiterReport[]): void {
    this.#replicas.publish(limiters);
  }

  reports(): readonly ReplicaReport[] {
    return this.#replicas.living();
  }

  recordEvent(event: RecordedEvent): void {
    this.#options.metrics.eventRecorded();
    this.#events.record(event);
  }

  keep(specs: ReadonlyMap<string, StoredSpec>): void {
    this.#kept.sync(specs);
  }

  async close(): Promise<void> {
    await Promise.all([this.#kept.close(), this.#events.close()]);
    await this.#replicas.close();
    this.#options.client.close();
  }

  #replicasListener(): ReplicasListener {
    const { log, metrics, replica, listener } = this.#options;
    const failures = new Seldom<string>(this.#options.clock, seldomMs, (reason, times) => {
      lines.leaseFailed(log, { reason, times });
    });
    const leaseFailed = (error: unknown): void => {
      metrics.leaseRenewalFailed();
      failures.note(errorText(error));
    };
    return {
      startedLeading: () => {
        metrics.leading(true);
        lines.startedLeading(log, replica);
        listener.startedLeading();
      },
      stoppedLeading: () => {
        metrics.leading(false);
        lines.stoppedLeading(log, replica);
        this.#events.clear();
        listener.stoppedLeading();
      },
      leaderChanged: (leader) => {
        if (leader !== replica) lines.leaderChanged(log, leader);
      },
      attemptFailed: leaseFailed,
      renewalFailed: leaseFailed,
      published: () => {},
      publishFailed: (error) => {
        metrics.reportNotPublished();
        lines.reportNotPublished(log, error);
      },
      cleanedUp: (dead) => lines.replicaCleanedUp(log, dead),
      cleanupFailed: (dead, error) => lines.cleanupFailed(log, dead, error),
      changed: () => listener.reportsChanged(),
      unreachable: (reason) => lines.reportsUnreachable(log, reason),
      reachable: () => lines.reportsReachable(log),
      skipped: (name, reason) => lines.reportSkipped(log, name, reason),
    };
  }

  #keptListener(): KeptSpecListener {
    const { log, listener } = this.#options;
    return {
      changed: (stored: ReadonlyMap<string, StoredSpec>) => listener.keptChanged(stored),
      tooLarge: (object, bytes, mostBytes) => lines.keptSpecTooLarge(log, { object, bytes, mostBytes }),
      writeFailed: (object, error) => lines.keptSpecNotStored(log, object, error),
      unreachable: (reason) => lines.keptSpecsUnreachable(log, reason),
      reachable: () => lines.keptSpecsReachable(log),
      skipped: (name, reason) => lines.keptSpecSkipped(log, name, reason),
    };
  }

  #eventsListener(): ConstructorParameters<typeof EventRecorder>[0]['listener'] {
    const { log, metrics } = this.#options;
    return {
      dropped: () => metrics.eventsDropped(1),
      writeFailed: (error) => lines.eventNotRecorded(log, error),
    };
  }
}

/** Where nothing says which namespace this process lives in. */
const defaultNamespace = 'weir-system';

/** See `OpenBacking`. */
export function openClusterBacking(options: OpenBackingOptions): Backing {
  const { settings, env } = options;
  const config = loadKubernetesConfig({
    kubeconfig: settings.kubeconfig,
    serviceHost: env['KUBERNETES_SERVICE_HOST'],
    servicePort: env['KUBERNETES_SERVICE_PORT'],
    home: env['HOME'],
  });
  const client = new KubernetesClient({ config, userAgent: `weir-control-plane/${packageVersion()}` });
  const ofPod = settings.kubeconfig === '' ? client.namespace : undefined;
  return new ClusterBacking({
    ...options,
    client,
    namespace: settings.podNamespace || ofPod || defaultNamespace,
  });
}
