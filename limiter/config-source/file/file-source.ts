import { ReloadSchedule } from '../../../process/files/reload-schedule.ts';
import { errorText } from '../../../process/log/error-text.ts';
import type { Clock, Timers } from '../../../process/time/clock.ts';
import type { SourceCheckOptions } from '../../../rules/validate-sources.ts';
import {
  type CompiledRules,
  type ConfigListener,
  type ConfigSource,
  type LoadedRules,
  type LoadOutcome,
  loadedRules,
  unplacedError,
} from '../config-source.ts';
import type { ReviewOptions } from '../load-review.ts';
import {
  type LoadThread,
  type LoadThreadLimits,
  type LoadThreadOptions,
  runLoadThread,
} from '../load-thread.ts';
import { ChangeWatch, fileLayout, type RuntimePaths } from './change-watch.ts';
import type { FileLayout } from './list-files.ts';
import type { LoadRequest } from './load-rules.ts';

/** Reads, checks and compiles rule files in a thread. */
export function startLoadThread(request: LoadRequest, options: LoadThreadOptions): LoadThread<CompiledRules> {
  const source = request.layout.readDirectory;
  return runLoadThread({ program: './load-worker', base: import.meta.url, request, source }, options);
}

export interface FileConfigSourceOptions {
  paths: RuntimePaths;
  /** The checks of rules: MERGE_DOMAIN_CONFIG, and what the store can count. */
  checks: SourceCheckOptions;
  /** How rules are reviewed once they are in force. */
  review: ReviewOptions;
  clock: Clock;
  timers: Timers;
  limits?: Partial<FileSourceLimits>;
}

/** Chosen: bounds and waits. */
export interface FileSourceLimits extends LoadThreadLimits {
  /** A burst of changes ends when nothing has changed for this time. */
  quietMs: number;
  /** A load starts at most this long after a change, even if the burst has not ended. */
  maxDelayMs: number;
  /** The interval at which the watch checks that its path still leads to the watched directory. */
  checkIntervalMs: number;
  /** The maximum size of all rule files together. */
  maxBytes: number;
  /** The maximum number of watched folders below the app directory, with RUNTIME_WATCH_ROOT=false. */
  maxFolders: number;
}

export const defaultFileSourceLimits: Readonly<FileSourceLimits> = {
  quietMs: 50,
  maxDelayMs: 500,
  checkIntervalMs: 1_000,
  maxBytes: 256 * 1024 * 1024,
  maxFolders: 10_000,
  maxHeapMiB: 4_096,
  timeoutMs: 300_000,
  reviewTimeoutMs: 30_000,
};

/** Loads rules from files, and again whenever they change. */
export class FileConfigSource implements ConfigSource {
  readonly #options: FileConfigSourceOptions;
  readonly #limits: FileSourceLimits;
  readonly #schedule: ReloadSchedule;
  #watch: ChangeWatch | undefined;
  #callOffLoad: (() => void) | undefined;
  #thread: LoadThread<CompiledRules> | undefined;
  #isClosed = false;
  #hasRules = false;

  constructor(options: FileConfigSourceOptions) {
    this.#options = options;
    this.#limits = { ...defaultFileSourceLimits, ...options.limits };
    this.#schedule = new ReloadSchedule(this.#limits);
  }

  /** Starts to watch before it loads, so that no change is missed. */
  async start(listener: ConfigListener): Promise<void> {
    const layout = fileLayout(this.#options.paths);
    this.#watch = new ChangeWatch(
      layout,
      {
        changed: () => {
          this.#schedule.changed(this.#options.clock.monotonicMs());
          this.#setTimer(layout, listener);
        },
        lost: (reason) => listener.unreachable(reason),
        found: () => listener.reachable(),
      },
      { ...this.#limits, timers: this.#options.timers },
    );
    this.#watch.start();
    void this.#load(layout, listener);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#watch?.close();
    this.#callOffLoad?.();
    await this.#endThread();
  }

  /** Stops the running thread. A thread that has returned its rules may still be reviewing them. */
  async #endThread(): Promise<void> {
    this.#thread?.stop();
    await this.#thread?.review;
    this.#thread = undefined;
  }

  #setTimer(layout: FileLayout, listener: ConfigListener): void {
    this.#callOffLoad?.();
    const { dueMs } = this.#schedule;
    if (dueMs === undefined || this.#isClosed) return;
    const waitMs = Math.max(0, dueMs - this.#options.clock.monotonicMs());
    this.#callOffLoad = this.#options.timers.after(waitMs, () => void this.#load(layout, listener));
  }

  async #load(layout: FileLayout, listener: ConfigListener): Promise<void> {
    const startMs = this.#options.clock.monotonicMs();
    this.#schedule.started();
    const { checks, review: reviewOptions, timers } = this.#options;
    // A root that is missing for a moment does not remove the rules in force.
    const mustExist = layout.mustExist || this.#hasRules;
    const request = {
      layout: { ...layout, mustExist },
      ...checks,
      ...reviewOptions,
      maxBytes: this.#limits.maxBytes,
    };
    await this.#endThread();
    if (this.#isClosed) return;
    this.#thread = startLoadThread(request, { ...this.#limits, timers });
    const { outcome, review } = this.#thread;
    await this.#deliver(await outcome, startMs, listener);
    if (this.#isClosed) return;
    void review.then((reviewed) => {
      if (reviewed !== undefined && !this.#isClosed) listener.reviewed(reviewed);
    });
    this.#schedule.ended();
    this.#setTimer(layout, listener);
  }

  #deliver(outcome: LoadOutcome, startMs: number, listener: ConfigListener): void | Promise<void> {
    if (this.#isClosed) return;
    if (!outcome.ok) return listener.failed(outcome.errors, outcome.total);
    let rules: LoadedRules;
    try {
      rules = loadedRules(outcome, this.#options.clock.monotonicMs() - startMs);
    } catch (error) {
      return listener.failed([unplacedError('unreadable', this.#options.paths.root, errorText(error))], 1);
    }
    this.#hasRules ||= rules.domains > 0;
    return listener.loaded(rules);
  }
}
