import { outOfTime } from './second-tries.ts';

/** Repeats an assertion until it holds; rejects with its last error when time is up. */
export async function eventually(
  assertion: () => Promise<void> | void,
  { timeoutMs = 10_000, intervalMs = 50 } = {},
): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  for (;;) {
    try {
      return await assertion();
    } catch (error) {
      if (performance.now() > deadlineMs) throw outOfTime(error);
      await new Promise((resolve) => setTimeout(resolve, intervalMs));
    }
  }
}
