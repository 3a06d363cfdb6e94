/** What was thrown, for people: an error's message without class and stack. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
