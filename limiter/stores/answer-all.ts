/** Calls `answer` for each item, even if it throws for one of them. The first error is thrown at the end. */
export function answerAll<T>(items: readonly T[], answer: (item: T) => void): void {
  let thrown: { error: unknown } | undefined;
  for (const item of items) {
    try {
      answer(item);
    } catch (error) {
      thrown ??= { error };
    }
  }
  if (thrown !== undefined) throw thrown.error;
}
