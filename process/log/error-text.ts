import { getSystemErrorMessage } from 'node:util';
import { errorText } from './process-error-text.ts';

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
