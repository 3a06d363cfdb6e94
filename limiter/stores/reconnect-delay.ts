import { retryDelayMs } from '../../process/time/pacing.ts';

/**
 * Chosen: a store that restarts is used again within a second. ioredis waits up to 2 s and go-redis 1 s; Envoy tries with every request.
 * An attempt each second from every limiter is little work even for a server that restarts.
 */
const reconnecting = { firstMs: 125, maxMs: 1_000, spread: 0.25 };

/** The wait before the next attempt to connect to a store. */
export function storeReconnectDelayMs(failures: number, random: () => number): number {
  return retryDelayMs({ ...reconnecting, failures, random });
}
