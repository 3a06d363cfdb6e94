/** How middleware reports what lets clients avoid their limits. */
import type { Limiter } from './api.ts';

export const warn = Symbol('warn');

/** Reports each message once. For a limiter of another implementation, as in a test, it goes to standard error. */
export function warnOnce(
  limiter: Limiter & { [warn]?: (message: string) => void },
): (message: string) => void {
  const reported = new Set<string>();
  return (message) => {
    if (reported.has(message)) return;
    reported.add(message);
    if (limiter[warn] === undefined) process.emitWarning(message, 'WeirWarning');
    else limiter[warn](message);
  };
}
