/**
 * Threads of a limiter or a control plane that runs in a test's own process start from the bundle of this run, as those of the
 * released program do: from the sources, each would take 300 ms more of a processor. Loads of rule files take place at once.
 */
import { syncBuiltinESMExports } from 'node:module';
import threads, { type WorkerOptions } from 'node:worker_threads';
import { isDefaultLoad, LoadInPlace } from './load-in-place.ts';
import { threadProgram } from './weir-program.ts';

const wrapped = threads as typeof threads & { isBundled?: true };

if (wrapped.isBundled === undefined) {
  wrapped.isBundled = true;
  threads.Worker = new Proxy(threads.Worker, {
    construct: (Worker, [program, options]: [string | URL, WorkerOptions?]) => {
      if (!(program instanceof URL)) return new Worker(program, options);
      if (options !== undefined && isDefaultLoad(program, options))
        return new LoadInPlace(options.workerData);
      return new Worker(threadProgram(program), options);
    },
  });
  syncBuiltinESMExports();
}
