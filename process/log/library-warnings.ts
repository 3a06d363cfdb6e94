/**
 * Libraries print warnings to the console, past the log and its format (ioredis does, of a password that the server
 * does not ask for). Hands them to `warn` instead, for the whole process.
 */
export function routeLibraryWarnings(warn: (text: string) => void): void {
  console.warn = (...parts: unknown[]) => warn(parts.map(String).join(' '));
}
