import type { Timers } from './clock.ts';

/** What `work` settles with, or `late` when that takes longer than `timeoutMs`. */
export async function inTime<T, L>(
  timers: Timers,
  timeoutMs: number,
  work: Promise<T>,
  late: L,
): Promise<T | L> {
  let callOff = (): void => {};
  const timeIsUp = new Promise<L>((resolve) => {
    callOff = timers.after(timeoutMs, () => resolve(late));
  });
  try {
    return await Promise.race([work, timeIsUp]);
  } finally {
    callOff();
  }
}
