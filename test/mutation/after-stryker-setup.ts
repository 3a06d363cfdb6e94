/** Runs in each test file after Stryker's own setup. */
import { Worker } from 'node:worker_threads';
import { beforeEach, inject } from 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    /** What Stryker runs the tests for. */
    mode: 'dry-run' | 'mutant';
  }
}

/** What Stryker and the changed sources share. */
interface Shared {
  mutantCoverage?: { static: object; perTest: object };
  /** How often a file may reach the mutant. Undefined: any number of times. */
  hitLimit?: number;
}
const { __stryker__: shared = {} } = globalThis as { __stryker__?: Shared };
/** Test files share the process. */
const ofProcess = globalThis as { turns?: Int32Array };

// Where test files share a process, Stryker reports with each file what all files before it reached, too, and adds up the files itself.
// The changed sources hold on to the object.
if (shared.mutantCoverage !== undefined) Object.assign(shared.mutantCoverage, { static: {}, perTest: {} });

// Stryker allows a file 100 times what all files together reach without a mutant, so that most endless loops end by the timeout, which
// costs a new process.
if (shared.hitLimit !== undefined) shared.hitLimit /= 10;

if (inject('mode') === 'mutant') {
  ofProcess.turns ??= watched();
  const { turns } = ofProcess;
  beforeEach(() => {
    Atomics.add(turns, 0, 1);
  });
}

/** What counts the turns of the event loop. Its thread ends the process if it stands still while the process computes. */
function watched(): Int32Array {
  const counted = new Int32Array(new SharedArrayBuffer(4));
  setInterval(() => Atomics.add(counted, 0, 1), 100).unref();
  new Worker(new URL('./busy-watch.js', import.meta.url), { workerData: counted }).unref();
  return counted;
}
