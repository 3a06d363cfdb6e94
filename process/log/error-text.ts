import { getSystemErrorMessage } from 'node:util';

/**
 * What was thrown, for people: an error's message without class and stack. Those of `fetch` say why in their cause alone:
 * `fetch failed (ECONNREFUSED)`.
 */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = error instanceof TypeError ? systemErrorCode(error.cause) : undefined;
  return code === undefined ? error.message : `${error.message} (${code})`;
}

/** At most so many characters and, where more were there, `...` behind them; without halves of a character. */
export function shortened(text: string, mostChars: number): string {
  return (text.length > mostChars ? `${text.slice(0, mostChars)}...` : text).toWellFormed();
}

/** As log lines and terminals may show what came from outside: nothing in it moves a cursor, fakes a line or turns text around. */
export function plainText(text: string, mostChars = Number.POSITIVE_INFINITY): string {
  return shortened(text, mostChars).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0)!.toString(16);
    return code.length <= 4 ? `\\u${code.padStart(4, '0')}` : `\\u{${code}}`;
  });
}

/** `ENOENT` and the like; undefined for what is not an error of a system call. */
export function systemErrorCode(error: unknown): string | undefined {
  return error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
}

/** Whether a system call failed, rather than our own code. */
export function isSystemError(error: unknown): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).errno !== undefined;
}

/** Why a system call failed, in the system's words without call and path: `no such file or directory`. */
export function systemErrorReason(error: unknown): string {
  if (!isSystemError(error)) return errorText(error);
  const { code, errno, syscall } = error as NodeJS.ErrnoException & { errno: number };
  if (syscall === 'watch' && code === 'ENOSPC') return 'the limit fs.inotify.max_user_watches is reached';
  if (syscall === 'watch' && code === 'EMFILE') return 'the limit fs.inotify.max_user_instances is reached';
  return getSystemErrorMessage(errno);
}

/**
 * Libraries print warnings to the console, past the log and its format. Hands them to `warn` instead, for the whole process.
 */
export function routeLibraryWarnings(warn: (text: string) => void): void {
  console.warn = (...parts: unknown[]) => warn(parts.map(String).join(' '));
}
