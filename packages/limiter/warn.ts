/** How middleware reports what lets clients avoid their limits. */
import type { Limiter } from './api.ts';

export const warn = Symbol('warn');

/** Once for each text. A limiter that is none of ours, in a test, is warned of on standard error. */
export function warnOnce(
  limiter: Limiter & { [warn]?: (message: string) => void },
): (message: string) => void {
  const told = new Set<string>();
  return (message) => {
    if (told.has(message)) return;
    told.add(message);
    if (limiter[warn] === undefined) process.emitWarning(message, 'WeirWarning');
    else limiter[warn](message);
  };
}
