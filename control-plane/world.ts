import type { ConfigObject, FleetExpectation, FollowedFleet, StatusObject } from './model/config-object.ts';
import type { ClusterDecision, LastAcceptedSpec, RemovedObject, StoredSpec } from './model/decision.ts';
import type { ReplicaReport } from './model/fleet-snapshot.ts';
import { noVersions, type ObjectVersions } from './model/object-versions.ts';
import { WriteLedger } from './model/write-ledger.ts';
import { sameStatus } from './reconcile/conditions.ts';
import type { Policy } from './reconcile/decide.ts';

/**
 * The information of a replica that it does not decide itself. It is immutable: news creates another world, which shares all unchanged
 * values. A reader stores a world, and compares its parts with those of the next world. A part is undefined before it is known.
 */
export interface World {
  /** The objects of this control plane, by uid. */
  readonly objects: ReadonlyMap<string, ConfigObject> | undefined;
  /** The versions of the API server that `objects` shows, and `policy` for the access to fleets. */
  readonly objectVersions: ObjectVersions;
  /** Objects that no longer belong to this control plane, while their statuses still name it. */
  readonly left: readonly ConfigObject[];
  /** Access to fleets, the last owners of domains, and the schemas. */
  readonly policy: Policy | undefined;
  /** Specs that outlived other processes, by uid. */
  readonly acceptedSpecs: ReadonlyMap<string, LastAcceptedSpec> | undefined;
  /** Deleted objects that are stored for the next leader. */
  readonly removed: readonly RemovedObject[] | undefined;
  /** Uids of deleted objects whose webhooks were delivered a moment ago. */
  readonly notified: ReadonlySet<string>;
  /** The reports of all living replicas, beginning with the report of this one. */
  readonly reports: readonly ReplicaReport[];
  /** The limiters that are expected in each fleet. */
  readonly expectations: ReadonlyMap<string, FleetExpectation> | undefined;
  /** Undefined if there are no RateLimitFleets. */
  readonly fleets: readonly FollowedFleet[] | undefined;
  /** Unknown fields that no newer schema explains: see `SchemaStore.confirmed`. Undefined if no schemas are known. */
  readonly confirmed: ReadonlySet<string> | undefined;
  /** Fleets whose snapshot is longer than the default limit of a gRPC client. */
  readonly oversize: ReadonlySet<string>;
  /** The status writes of this process. A round removes what it has found in them. */
  readonly writes: WriteLedger<StatusObject>;
  /** Counts ends of status writes, and of pauses after rejections: another status of their objects may be due. */
  readonly endedWrites: number;
  /** Whether this replica has started to lead. Before each write, `Backing.leads` checks this by the clock. */
  readonly leads: boolean;
  /** Whether the watch of objects has failed. */
  readonly isWatchCut: boolean;
  /** Whether renewals of the replica's Lease object get no answer. A watch over a dead connection reports nothing for minutes. */
  readonly isLeaseCut: boolean;
}

export const unknownWorld: World = {
  objects: undefined,
  objectVersions: noVersions,
  left: [],
  policy: undefined,
  acceptedSpecs: undefined,
  removed: undefined,
  notified: new Set(),
  reports: [],
  expectations: undefined,
  fleets: undefined,
  confirmed: undefined,
  oversize: new Set(),
  writes: WriteLedger.empty(sameStatus),
  endedWrites: 0,
  leads: false,
  isWatchCut: false,
  isLeaseCut: false,
};

/** Adopts the parts that are new, which may depend on the current world. */
export type UpdateWorld = (news: Partial<World> | ((world: World) => Partial<World>)) => void;

/** The values of a replica that must outlive its process. */
export interface StoredState {
  /** Specs that stay in force, by uid. Replicas other than the leader store only newer specs. */
  readonly acceptedSpecs: ReadonlyMap<string, StoredSpec>;
  /** The newest decision of a leader. Undefined if it may be older than the objects of the API server. */
  readonly decision: ClusterDecision | undefined;
  /** Deleted objects whose webhooks are not delivered yet. */
  readonly removed: readonly RemovedObject[];
}
