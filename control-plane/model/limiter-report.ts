/** What is known of one limiter: one stream to one replica of the control plane. */
export interface LimiterReport {
  /** Different for every stream of every replica. */
  id: string;
  /** Different for every process of Weir's limiter, the same over its streams; undefined for other limiters. */
  instance: string | undefined;
  /** For people: the pod's name, else node id and address. */
  name: string;
  fleet: string;
  /** Whether it knows Weir's own fields. */
  isWeir: boolean;
  /** Whether its counters have the Go service's keys, in which two of them could meet. */
  countsCompatibly: boolean;
  /** Milliseconds since 1970. */
  connectedMs: number;
  /** Version of the snapshot that it has in force, as far as it said so. */
  acceptedVersion: string | undefined;
  /** The newest snapshot it refused, while it has accepted none since. */
  refusal: { version: string; message: string } | undefined;
}

/** What one replica of the control plane knows of its limiters. */
export interface ReplicaReport {
  /** Name of the replica: its pod. */
  replica: string;
  limiters: readonly LimiterReport[];
}
