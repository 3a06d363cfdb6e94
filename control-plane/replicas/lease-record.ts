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
