/** Worker threads that answer callers in the place of the main thread: LIMITER_WORKERS. */
export { WorkerPool } from './worker-pool.ts';
export type { StartThread } from './worker-thread.ts';
