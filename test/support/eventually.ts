import { LoadedDeadline } from './machine-load.ts';
import { outOfTime } from './second-tries.ts';

/**
 * Repeats an assertion until it holds; rejects with its last error when time is up, multiplied by the machine's load. It waits
 * between two attempts, and at least as long as an attempt took: one that starts programs would else keep a core busy.
 */
export async function eventually(
  assertion: () => Promise<void> | void,
  { timeoutMs = 10_000, intervalMs = 50 } = {},
): Promise<void> {
  const deadline = new LoadedDeadline(timeoutMs);
  for (;;) {
    const startMs = performance.now();
    try {
      return await assertion();
    } catch (error) {
      if (deadline.isOver) throw outOfTime(error);
      const pauseMs = Math.max(intervalMs, performance.now() - startMs);
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}
