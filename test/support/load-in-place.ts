/**
 * What stands in for the thread of a load of rule files where limiters run in a test's own process: such a thread takes 100 ms of a
 * processor to start, and the load of a test's few rules one or two. The thread itself is what load-thread.test.ts is about, and
 * what each limiter has that runs as a program.
 */
import { EventEmitter } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import type { WorkerOptions } from 'node:worker_threads';
import type { LoadRequest } from '../../limiter/config-source/file/load-rules.ts';

/** What a limiter allows a load. Tests of the thread allow other sizes. */
const defaultHeapMiB = 4_096;

export function isDefaultLoad(program: URL, { resourceLimits }: WorkerOptions): boolean {
  return (
    /\/load-worker\.[jt]s$/.test(program.pathname) &&
    resourceLimits?.maxOldGenerationSizeMb === defaultHeapMiB
  );
}

/** A `Worker` that has run load-worker.ts as soon as others have had their turn. */
export class LoadInPlace extends EventEmitter {
  #hasEnded = false;

  constructor(workerData: unknown) {
    super();
    void this.#run(structuredClone(workerData) as LoadRequest);
  }

  async terminate(): Promise<number> {
    await turn();
    this.#end(1);
    return 1;
  }

  async #run(request: LoadRequest): Promise<void> {
    await turn();
    try {
      const { loadRules } = await import('../../limiter/config-source/file/load-rules.ts');
      const { reviewLoad } = await import('../../limiter/config-source/load-review.ts');
      if (this.#hasEnded) return;
      const { outcome, reviewed } = loadRules(request);
      this.#report({ outcome, goesOn: reviewed !== undefined });
      await turn();
      if (reviewed !== undefined) this.#report({ review: reviewLoad(reviewed(), request) });
      this.#end(0);
    } catch (error) {
      if (!this.#hasEnded) this.emit('error', error);
      this.#end(1);
    }
  }

  #report(message: unknown): void {
    if (!this.#hasEnded) this.emit('message', structuredClone(message));
  }

  #end(code: number): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.emit('exit', code);
  }
}
