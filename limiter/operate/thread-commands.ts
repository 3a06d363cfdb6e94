/** The orders of the process to every serving thread. Orders and their results are plain data. */
import type { Profile } from '../../rules/proxy/read-profiles.ts';

export type ThreadCommand =
  /** Answer other proxies according to these profiles from now on; undefined: there is a file that cannot be used. */
  | { readonly order: 'use-profiles'; readonly profiles: readonly Profile[] | undefined }
  /**
   * Forget everything that is remembered of these counters, which were reset: local cache, leases, and hits that are not stored yet.
   * This includes the results of commands that the store received before. If `keys` is undefined, the counters are unknown, so
   * everything except hits that are not stored yet is forgotten.
   */
  | { readonly order: 'forget-counters'; readonly keys: readonly string[] | undefined }
  /** Report the durations of decisions since the order before, over gRPC and over HTTP, as counts of the buckets of `Latencies`. */
  | { readonly order: 'take-latencies' };

/**
 * The handlers of orders in a thread. The return value of a handler, or of its promise, is plain data. A handler throws only for a
 * defect.
 */
export type ThreadCommandHandlers = {
  readonly [Kind in ThreadCommand['order']]: (order: Extract<ThreadCommand, { order: Kind }>) => unknown;
};
