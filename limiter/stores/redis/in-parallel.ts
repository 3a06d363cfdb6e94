/** Does `work` for each item, for at most `limit` of them at a time, in order. Rejects with the first error of `work`. */
export async function inParallel<T>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  if (items.length <= limit) {
    await Promise.all(items.map(work));
    return;
  }
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < items.length) await work(items[next++] as T);
  };
  await Promise.all(Array.from({ length: Math.max(1, limit) }, worker));
}
