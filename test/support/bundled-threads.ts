/**
 * Threads of a limiter or a control plane that runs in a test's own process start from the bundle of this run, as those of the
 * released program do: from the sources, each would take 300 ms more of a processor.
 */
import { syncBuiltinESMExports } from 'node:module';
import threads from 'node:worker_threads';
import { threadProgram } from './weir-program.ts';

const { Worker } = threads;

threads.Worker = class extends Worker {
  constructor(program: string | URL, options?: threads.WorkerOptions) {
    super(program instanceof URL ? threadProgram(program) : program, options);
  }
};
syncBuiltinESMExports();
