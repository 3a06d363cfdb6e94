import { retryDelayMs } from '../../../process/time/token-bucket.ts';
import { StoreError } from '../counter-store.ts';

export interface StartRetryOptions {
  /** One attempt. */
  attempt: () => Promise<void>;
  /** How errors name the server. */
  label: string;
  /** The first wait. Defaults to 1 s. */
  initialMs?: number;
  /** The waits double up to this. Defaults to 30 s. */
  maxMs?: number;
  /** Give up when an attempt fails after this. 0: never. Defaults to 0. */
  maxElapsedMs?: number;
  /** Whether to give up after a failed attempt, whatever the time. */
  stopped: () => boolean;
  monotonicMs: () => number;
  sleep: (ms: number) => Promise<void>;
  random: () => number;
  /** Before every wait. */
  onRetry?: (retry: { waitMs: number; elapsedMs: number; error: Error }) => void;
}

/** Resolves with the first attempt that succeeds; rejects only when `maxElapsedMs` is over or it was stopped. */
export async function startWithRetry(options: StartRetryOptions): Promise<void> {
  const { initialMs = 1000, maxMs = 30_000, maxElapsedMs = 0 } = options;
  const startedMs = options.monotonicMs();
  for (let failures = 1; ; failures += 1) {
    const error = await options.attempt().then(
      () => undefined,
      (reason: Error) => reason,
    );
    if (error === undefined) return;
    if (options.stopped()) throw error;
    const elapsedMs = options.monotonicMs() - startedMs;
    if (maxElapsedMs > 0 && elapsedMs >= maxElapsedMs) {
      const text = `timed out waiting for Redis connection to ${options.label} after ${Math.round(elapsedMs)} ms: ${error.message}`;
      throw new StoreError(text, { transient: true });
    }
    const waitMs = retryDelayMs({ failures, firstMs: initialMs, mostMs: maxMs, random: options.random });
    options.onRetry?.({ waitMs, elapsedMs, error });
    await options.sleep(waitMs);
  }
}
