/** What the process asks of every thread that serves: plain data there and back. */
import type { Profile } from '../../rules/proxy/read-profiles.ts';

export type Order =
  /** Answer other proxies by these from now on; undefined: there is a file, and it could not be used. */
  | { readonly order: 'use-profiles'; readonly profiles: readonly Profile[] | undefined }
  /**
   * Forget what is remembered of these counters, which were reset: local cache, leases, hits that the store is owed. Nothing that was
   * asked of the store before is remembered afterwards. `keys` undefined: nobody knows which were, so all but what is owed goes.
   */
  | { readonly order: 'forget-counters'; readonly keys: readonly string[] | undefined }
  /** Report how long decisions took since the order before, over gRPC and over HTTP: how many fell into each bucket of `Latencies`. */
  | { readonly order: 'take-latencies' };

/** What becomes of each order in a thread; what a handler gives back, or its promise, is plain data. It throws for a fault of ours alone. */
export type OrderHandlers = {
  readonly [Kind in Order['order']]: (order: Extract<Order, { order: Kind }>) => unknown;
};
