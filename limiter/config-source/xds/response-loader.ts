/** Loads responses: small ones in place, large ones in a thread, so that callers of the limiter need not wait. */
import { errorText } from '../../../process/error-text.ts';
import type { Timers } from '../../../process/timers.ts';
import type { RuleSource } from '../../../rules/model.ts';
import type { MeetingsSummary } from '../../../rules/review/index.ts';
import type { FailedLoad, MadeLoad } from '../load-outcome.ts';
import { type LoadThread, type LoadThreadLimits, runLoadThread } from '../load-thread.ts';
import { type LoadedResources, loadResources, type ResourcesRequest } from './load-resources.ts';

export interface ResponseLoaderOptions extends LoadThreadLimits {
  /** Longer responses are loaded in a thread. */
  maxInPlaceBytes: number;
  /** Rules that change by the second are looked at for counters that could meet when they have settled for so long. */
  reviewDelayMs: number;
  timers: Timers;
}

export class ResponseLoader {
  readonly #options: ResponseLoaderOptions;
  #thread: LoadThread<LoadedResources> | undefined;
  /** Of the last load, where it was made in place and its counters could meet. */
  #unreviewed: readonly RuleSource[] | undefined;
  #callOffReview = (): void => {};
  #isClosed = false;

  constructor(options: ResponseLoaderOptions) {
    this.#options = options;
  }

  /** Never rejects. One load at a time. */
  async load(request: ResourcesRequest): Promise<LoadedResources | FailedLoad> {
    if (this.#thread !== undefined) await this.#breakOff();
    if (this.#isClosed) return broken('the load ended without a result').outcome;
    this.#callOffReview();
    if (request.bytes.length <= this.#options.maxInPlaceBytes) {
      const { outcome, sources } = loadInPlace(request);
      const mayMeet = request.counterKeys === 'compatible' && sources.length > 0;
      this.#unreviewed = mayMeet ? sources : undefined;
      return outcome;
    }
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
    return this.#thread.outcome;
  }

  /**
   * Call when the rules of the last load are in force. Tells of rules whose counters could meet, with compatible keys; never on
   * this thread is it looked for them, and not to the end when another load comes before.
   */
  review(tell: (found: MeetingsSummary | undefined) => void): void {
    if (this.#unreviewed === undefined) {
      this.#follow(tell);
      return;
    }
    const { timers, reviewDelayMs } = this.#options;
    this.#callOffReview = timers.after(reviewDelayMs, () => {
      const load = { program: '../meetings-worker', base: import.meta.url, source: 'response' };
      this.#thread = runLoadThread({ ...load, request: this.#unreviewed }, this.#options);
      this.#unreviewed = undefined;
      this.#follow(tell);
    });
  }

  /** Breaks off a load in a thread; resolves when the thread is gone. */
  close(): Promise<void> {
    this.#isClosed = true;
    return this.#breakOff();
  }

  #follow(tell: (found: MeetingsSummary | undefined) => void): void {
    void this.#thread?.meetings.then((found) => {
      if (found !== undefined) tell(found.summary);
    });
  }

  async #breakOff(): Promise<void> {
    this.#callOffReview();
    this.#unreviewed = undefined;
    this.#thread?.stop();
    await this.#thread?.meetings;
    this.#thread = undefined;
  }
}

function loadInPlace(request: ResourcesRequest): MadeLoad<LoadedResources | FailedLoad> {
  try {
    return loadResources(request);
  } catch (error) {
    return broken(`the load broke off: ${errorText(error)}`);
  }
}

function broken(text: string): MadeLoad<FailedLoad> {
  const place = { path: [], line: undefined, column: undefined };
  const errors: FailedLoad['errors'] = [{ code: 'unreadable', source: 'response', text, ...place }];
  return { outcome: { ok: false, errors, total: 1 }, sources: [] };
}
