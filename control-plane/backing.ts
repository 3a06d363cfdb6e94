import type { Environment } from '../process/settings/settings-reader.ts';
import type { Clock, Timers } from '../process/time/clock.ts';
import type { FleetStore } from './fleets/fleet-store.ts';
import type { ApiObject, Reading } from './kubernetes/reflector.ts';
import type { ConfigObject } from './model/config-object.ts';
import type { Decision, KeptSpec, StoredSpec } from './model/decision.ts';
import type { FleetObject } from './model/fleet-object.ts';
import type { LimiterReport, ReplicaReport } from './model/fleet-snapshot.ts';
import type { Policy } from './reconcile/decide.ts';
import type { RemovedObject } from './reconcile/removals.ts';
import type { RecordedEvent } from './replicas/event-recorder.ts';
import type { StatusWriter } from './replicas/status-pump.ts';
import type { ControlPlaneSettings } from './settings/table.ts';
import type { ObjectSource } from './source/kubernetes-source.ts';
import type { SchemaStore } from './source/schema-store.ts';
import type { Telemetry } from './telemetry/control-plane-metrics.ts';
import type { RemovedObjectStore } from './webhooks/removed-objects.ts';

/** What stands behind a replica: a cluster with other replicas and an API to write to, or this process alone. */
export interface Backing {
  readonly source: ObjectSource;
  /** What statuses bear as `controllerName`; undefined where no other control plane could read them. */
  readonly controllerName: string | undefined;
  /** Whether this replica may write statuses, events and webhooks now. */
  readonly leads: boolean;
  /** Undefined: nobody is known to lead. */
  readonly leader: string | undefined;
  /** Undefined: there are no RateLimitFleets. */
  readonly fleets?: FleetStore;
  /** Undefined: deleted objects do not outlive this process, or nobody is notified of them. */
  readonly removed?: RemovedObjectStore | undefined;
  readonly statusWriter: Pick<StatusWriter<ConfigObject>, 'write' | 'writes'>;
  /**
   * Whose token this is, by the API server, if it is made for this audience; or why it is nobody's. Rejects when it
   * cannot be asked. Undefined: there is no API server.
   */
  readonly reviewToken?: (
    token: string,
    audience: string,
  ) => Promise<{ user: string; podUid?: string } | { problem: string }>;
  /**
   * Objects that are not stored yet, as they would be read; undefined: this control plane would not look at them. The whole is
   * undefined where nobody is asked before they are stored.
   */
  readonly foreseen?: {
    config(object: ApiObject): Reading<ConfigObject> | undefined;
    override(object: ApiObject): Reading<ConfigObject> | undefined;
    fleet(object: ApiObject): Reading<FleetObject> | undefined;
  };
  /** Undefined: unknown fields are errors, as no API server has held specs to a schema. */
  readonly schemas?: SchemaStore;
  /** Who may use fleets, whose domains were last, and the schemas; undefined while one of them is not known. */
  readonly policy: Policy | undefined;
  /**
   * What of the first decision cannot be read, where no earlier spec is known: nothing is served before it is corrected. Missing:
   * last good specs outlive the process.
   */
  readonly unread?: (decision: Decision) => readonly string[];
  /** Begins to take part; what comes of it is reported to the listener. */
  start(): void;
  publish(limiters: readonly LimiterReport[]): void;
  /** Of all living replicas, this one's first. */
  reports(): readonly ReplicaReport[];
  recordEvent(event: RecordedEvent): void;
  /** By uid: the kept specs that have to outlive this process. Of another replica than the leader only newer ones are taken. */
  keep(specs: ReadonlyMap<string, StoredSpec>): void;
  /** The newest decision of a leader; undefined: it may be older than what the place has by now. */
  decided(decision: Decision | undefined): void;
  /** Gives up the lead and leaves nothing behind. Rejects when that could not be done. */
  close(): Promise<void>;
}

export interface BackingListener {
  startedLeading(): void;
  stoppedLeading(): void;
  /** `reports` may answer differently. */
  reportsChanged(): void;
  /** Objects may be older than what the API server has, although their watch is still open. */
  cutOff(isCutOff: boolean): void;
  /** Who is expected in which fleet has changed. */
  fleetsChanged(): void;
  /** A status of a RateLimitFleet was seen. */
  fleetsShown(): void;
  /** What is stored of deleted objects; returns what should be, if this replica leads. */
  removedShown(stored: readonly RemovedObject[]): readonly RemovedObject[];
  /** `policy` is another one. */
  policyChanged(): void;
  /** What outlived other processes, by uid. Comes at least once, before anything may be decided. */
  keptChanged(stored: ReadonlyMap<string, KeptSpec>): void;
}

export interface OpenBackingOptions extends Telemetry {
  settings: ControlPlaneSettings;
  env: Environment;
  replica: string;
  clock: Clock;
  timers: Timers;
  random(): number;
  listener: BackingListener;
}

/** Opens no connection yet. Throws a KubernetesConfigError when there is no way to an API server. */
export type OpenBacking = (options: OpenBackingOptions) => Backing;

/** Loads what this kind of source needs and nothing else: the library for Kubernetes alone takes 80 MB. */
export async function loadBacking({ source }: ControlPlaneSettings): Promise<OpenBacking> {
  if (source === 'KUBERNETES') return (await import('./cluster-backing.ts')).openClusterBacking;
  const { DirectoryBacking } = await import('./directory-backing.ts');
  return (options) => {
    const { manifestsDirectory: folder, className } = options.settings;
    return new DirectoryBacking({ ...options, folder, className });
  };
}
