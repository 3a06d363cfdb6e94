import type { Environment } from '../process/settings/settings-reader.ts';
import type { ProcessTime } from '../process/time/clock.ts';
import type { ApiObject, Reading } from './kubernetes/watch-protocol.ts';
import type { ConfigObject, FleetObject } from './model/config-object.ts';
import type { LimiterReport } from './model/fleet-snapshot.ts';
import type { ObjectVersions } from './model/object-versions.ts';
import type { EventRecorder } from './replicas/event-recorder.ts';
import type { StatusWriter } from './replicas/status-writer.ts';
import type { ControlPlaneSettings } from './settings/table.ts';
import type { ObjectSource } from './source/kubernetes-source.ts';
import type { SchemaStore } from './source/schema-store.ts';
import type { Telemetry } from './telemetry/control-plane-metrics.ts';
import type { StoredState, UpdateWorld } from './world.ts';

/** The environment of a replica: either a cluster with other replicas and an API, or only this process. */
export interface Backing {
  readonly source: ObjectSource;
  /** The `controllerName` in statuses. Undefined if no other control plane can read the statuses. */
  readonly controllerName: string | undefined;
  readonly replicas: ReplicaPlace;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly statusWriter: Pick<StatusWriter, 'write'>;
  /**
   * Asks the API server for the user of a token, if the token was issued for this audience, or for the reason why it has no user. Rejects
   * if the server cannot be asked. Undefined if there is no API server.
   */
  readonly reviewToken?: (
    token: string,
    audience: string,
  ) => Promise<{ user: string; podUid?: string } | { problem: string }>;
  /**
   * Reads objects that are not stored yet. The methods return undefined if this control plane would ignore the objects. The property is
   * undefined if there is no review before objects are stored.
   */
  readonly previewed?: {
    config(object: ApiObject): Reading<ConfigObject> | undefined;
    override(object: ApiObject): Reading<ConfigObject> | undefined;
    fleet(object: ApiObject): Reading<FleetObject> | undefined;
  };
  /** Undefined if unknown fields are errors, because no API server has checked the specs against a schema. */
  readonly schemas?: SchemaStore;
  /**
   * Returns the place of an object's manifest: `limits.yaml:12`. If the method exists, last good specs are lost when the process ends.
   * For this reason, nothing is served before a first decision that can read all manifests. See `unreadSpecs`.
   */
  placeOf?(object: ConfigObject): string | undefined;
  /** Starts to take part, and reports news to `learn`. */
  start(): void;
  /** Stores these parts, and retries after failures, if this replica may write. */
  share(parts: Partial<StoredState>): void;
  /** Gives up the lead and removes everything that the replica published. Rejects if that fails. */
  close(): Promise<void>;
}

/** The place of this replica among others. */
export interface ReplicaPlace {
  /** Whether this replica may write statuses, events and webhooks now. */
  readonly leads: boolean;
  /** Undefined if no leader is known. */
  readonly leader: string | undefined;
  /** Publishes the state of the limiters. `decided`: see `ReplicaReport`. */
  publish(limiters: readonly LimiterReport[], decided: ObjectVersions): void;
  /** See `ReplicaLease.confirm`. */
  confirm(then: () => void): void;
}

export interface OpenBackingOptions extends Telemetry, ProcessTime {
  settings: ControlPlaneSettings;
  env: Environment;
  /** See `replicaName`. */
  replica: string;
  random(): number;
  /** Called with all news, except for objects. */
  learn: UpdateWorld;
}

/** Creates the backing without opening a connection. Throws a KubernetesConfigError if no API server is configured. */
export type OpenBacking = (options: OpenBackingOptions) => Backing;
