/** Loads responses: small ones in place, large ones in a thread, so that callers of the limiter need not wait. */
import { errorText } from '../../../process/error-text.ts';
import type { Timers } from '../../../process/timers.ts';
import type { FailedLoad } from '../load-outcome.ts';
import { type LoadThread, type LoadThreadLimits, runLoadThread } from '../load-thread.ts';
import { type LoadedResources, loadResources, type ResourcesRequest } from './load-resources.ts';

export interface ResponseLoaderOptions extends LoadThreadLimits {
  /** Longer responses are loaded in a thread. */
  maxInPlaceBytes: number;
  timers: Timers;
}

export class ResponseLoader {
  readonly #options: ResponseLoaderOptions;
  #thread: LoadThread<LoadedResources> | undefined;

  constructor(options: ResponseLoaderOptions) {
    this.#options = options;
  }

  /** Never rejects. One load at a time. */
  async load(request: ResourcesRequest): Promise<LoadedResources | FailedLoad> {
    if (request.bytes.length <= this.#options.maxInPlaceBytes) return loadInPlace(request);
    // A copy, because the bytes may be part of a larger buffer that cannot move to the thread.
    const bytes = new Uint8Array(request.bytes);
    this.#thread = runLoadThread(
      {
        program: './load-resources-worker',
        base: import.meta.url,
        request: { ...request, bytes },
        transfer: [bytes.buffer],
        source: 'response',
      },
      this.#options,
    );
    const outcome = await this.#thread.outcome;
    this.#thread = undefined;
    return outcome;
  }

  /** Breaks off a load in a thread; resolves when the thread is gone. */
  async close(): Promise<void> {
    this.#thread?.stop();
    await this.#thread?.outcome;
  }
}

function loadInPlace(request: ResourcesRequest): LoadedResources | FailedLoad {
  try {
    return loadResources(request);
  } catch (error) {
    const text = `the load broke off: ${errorText(error)}`;
    const place = { path: [], line: undefined, column: undefined };
    return { ok: false, errors: [{ code: 'unreadable', source: 'response', text, ...place }], total: 1 };
  }
}
