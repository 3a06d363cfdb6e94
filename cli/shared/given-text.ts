/** Texts that a command line names: files and addresses. What is wrong with them is a UsageError. */
import { readFileSync } from 'node:fs';
import { systemErrorReason } from '../../process/log/error-text.ts';
import { UsageError } from './flags.ts';

/** `name` is what the message begins with; `path` may be the number of an open file. */
export function readGiven(name: string, path: string | number): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new UsageError(`${name}: ${systemErrorReason(error)}`, { cause: error });
  }
}

/** `hint` is what to add for a status. Redirections are not followed: a token must not go elsewhere. */
export async function fetchGiven<T>(
  url: URL,
  { timeoutMs, headers = {} }: { timeoutMs: number; headers?: Record<string, string> },
  read: (response: Response) => Promise<T>,
  hint: (status: number) => string = () => '',
): Promise<T> {
  try {
    const response = await fetch(url, { headers, redirect: 'error', signal: AbortSignal.timeout(timeoutMs) });
    if (response.ok) return await read(response);
    throw new UsageError(`${url.origin} answered ${response.status}${hint(response.status)}`);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    const first: unknown = cause instanceof AggregateError ? cause.errors[0] : cause;
    throw new UsageError(`${url.origin}: ${systemErrorReason(first)}`, { cause: error });
  }
}
