/**
 * Interrupts a property that takes ten times the processor time that properties take, which is one that hangs. Processor
 * time, because a busy machine makes everything take longer, and properties are bounded by their cases. `npm test` runs
 * what was interrupted again, alone, when all else has run.
 */
import fc from 'fast-check';

/** The most that a property takes of a processor in the usual run; `npm run properties` multiplies cases. */
const defaultSeconds = 2;

/** Marks the error of a property that was interrupted before it failed. */
export interface Interrupted {
  interrupted?: unknown;
}

/** In tests of the guard itself, which cannot wait for so long. */
const limitOfTest = process.env['PROPERTY_CPU_SECONDS'];

function limitSeconds(times: number): number {
  return limitOfTest === undefined ? 10 * defaultSeconds * Math.max(1, times) : Number(limitOfTest);
}

/** Where files share a process, each of them sets up fast-check, and all have the same one. */
const guarded = globalThis as { propertiesAreGuarded?: boolean };

/** `times`: how many times the usual cases properties have. */
export function guardAgainstHangs(times: number): void {
  if (guarded.propertiesAreGuarded === true) return;
  guarded.propertiesAreGuarded = true;
  const limit = limitSeconds(times);
  fc.installGlobalPlugin(() => {
    const start = process.cpuUsage();
    let isInterrupted = false;
    return {
      decorateRun: (run) => (value) => {
        if (secondsSince(start) <= limit) return run(value);
        isInterrupted = true;
        return new fc.PreconditionFailure(true);
      },
      onAllRunsComplete: ({ counterexample, numRuns, seed }) => {
        if (isInterrupted && counterexample === null) throw interruption({ limit, numRuns, seed });
      },
    };
  });
}

function secondsSince(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1e6;
}

function interruption({ limit, numRuns, seed }: { limit: number; numRuns: number; seed: number }): Error {
  const error = new Error(
    `interrupted after ${numRuns} cases, which took more than ${limit} s of processor time, seed ${seed}`,
  );
  return Object.assign(error, { interrupted: true } satisfies Interrupted);
}
