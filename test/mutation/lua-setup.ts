/** Runs first in each process of tests: chooses the mutant of Lua (`withLuaMutants`). */
import { inject } from 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    /** -1: none. */
    luaMutant: number;
  }
}

(globalThis as { luaMutant?: number }).luaMutant = inject('luaMutant');
