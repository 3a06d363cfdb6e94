/** A profile that is asked of a thread: what `/debug/pprof/` takes as parameters. */
export type ProfileQuestion = { of: 'cpu'; seconds: number } | { of: 'heap'; collect: boolean };

/** Profiles of other threads, which answer callers in the place of this one. */
export interface WorkerProfiles {
  /** They are numbered from 1 to here. */
  readonly count: number;
  /** Gzipped pprof; undefined when the thread cannot answer now. */
  profile(worker: number, question: ProfileQuestion): Promise<Uint8Array | undefined>;
}
