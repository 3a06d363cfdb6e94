/** Notices a thread that does not answer any more. */
import type { Timers } from '../../process/time/clock.ts';

/** We chose both: far above the pauses of a thread that works. */
const intervalMs = 5_000;
const mostMisses = 6;

export const silenceSeconds = (intervalMs * mostMisses) / 1_000;

/**
 * Asks again and again, never twice at once. Counts intervals and not time, so that a machine that was asleep blames
 * nobody. Returns what ends it.
 */
export function watchHeartbeat(
  timers: Timers,
  ask: () => Promise<unknown>,
  onSilence: () => void,
): () => void {
  let isWaiting = false;
  let misses = 0;
  const answered = (): void => {
    isWaiting = false;
    misses = 0;
  };
  const callOff = timers.every(intervalMs, () => {
    if (isWaiting) {
      misses += 1;
      if (misses === mostMisses) {
        callOff();
        onSilence();
      }
      return;
    }
    isWaiting = true;
    ask().then(answered, answered);
  });
  return callOff;
}
