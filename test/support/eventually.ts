import { LoadedDeadline } from './machine-load.ts';
import { outOfTime } from './second-tries.ts';

/** Repeats an assertion until it holds; rejects with its last error when time is up, multiplied by the machine's load. */
export async function eventually(
  assertion: () => Promise<void> | void,
  { timeoutMs = 10_000, intervalMs = 50 } = {},
): Promise<void> {
  const deadline = new LoadedDeadline(timeoutMs);
  for (;;) {
    try {
      return await assertion();
    } catch (error) {
      if (deadline.isOver) throw outOfTime(error);
      await new Promise((resolve) => setTimeout(resolve, intervalMs));
    }
  }
}
