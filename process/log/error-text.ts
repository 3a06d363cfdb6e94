import { getSystemErrorMessage } from 'node:util';

/**
 * Returns the text of a thrown error for people: its message without class and stack. For errors of `fetch`, only the cause has the
 * reason: `fetch failed (ECONNREFUSED)`.
 */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = error instanceof TypeError ? systemErrorCode(error.cause) : undefined;
  return code === undefined ? error.message : `${error.message} (${code})`;
}

/** Returns at most this number of characters. If the text is longer, `...` follows. Characters are never split. */
export function shortened(text: string, maxChars: number): string {
  return (text.length > maxChars ? `${text.slice(0, maxChars)}...` : text).toWellFormed();
}

/** Makes external text safe for log lines and terminals: nothing in it moves a cursor, fakes a line or changes the direction of text. */
export function plainText(text: string, maxChars = Number.POSITIVE_INFINITY): string {
  return shortened(text, maxChars).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0)!.toString(16);
    return code.length <= 4 ? `\\u${code.padStart(4, '0')}` : `\\u{${code}}`;
  });
}

/** Returns `ENOENT` and similar codes; undefined if it is not an error of a system call. */
export function systemErrorCode(error: unknown): string | undefined {
  return error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
}

/** Whether a system call failed, rather than our own code. */
export function isSystemError(error: unknown): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).errno !== undefined;
}

/** Returns why a system call failed, with the system's text but without call and path: `no such file or directory`. */
export function systemErrorReason(error: unknown): string {
  if (!isSystemError(error)) return errorText(error);
  const { code, errno, syscall } = error as NodeJS.ErrnoException & { errno: number };
  if (syscall === 'watch' && code === 'ENOSPC') return 'the limit fs.inotify.max_user_watches is reached';
  if (syscall === 'watch' && code === 'EMFILE') return 'the limit fs.inotify.max_user_instances is reached';
  return getSystemErrorMessage(errno);
}

/** Passes warnings to `warn`, for the whole process. Libraries would print them to the console, outside of the log and its format. */
export function routeLibraryWarnings(warn: (text: string) => void): void {
  console.warn = (...parts: unknown[]) => warn(parts.map(String).join(' '));
}
