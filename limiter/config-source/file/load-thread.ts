import type { CompiledRules } from '../load-outcome.ts';
import { type LoadThread, type LoadThreadOptions, runLoadThread } from '../load-thread.ts';
import type { LoadRequest } from './load-rules.ts';

/** Reads, checks and compiles rule files in a thread of its own. */
export function startLoadThread(request: LoadRequest, options: LoadThreadOptions): LoadThread<CompiledRules> {
  const source = request.layout.readDirectory;
  return runLoadThread({ program: './load-worker', base: import.meta.url, request, source }, options);
}
