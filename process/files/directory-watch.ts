import { type FSWatcher, watch } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { systemErrorReason } from '../log/error-text.ts';
import type { Timers } from '../time/clock.ts';
import { type FileIdentity, identity, targetIdentity } from './watched-files.ts';

export interface DirectoryWatchListener {
  /** Called when an entry directly inside appeared, vanished or changed; undefined: possibly any. */
  changed(entry: string | undefined): void;
  lost(reason: string): void;
  found(): void;
}

export interface DirectoryWatchOptions {
  directory: string;
  listener: DirectoryWatchListener;
  timers: Timers;
  /**
   * The interval at which the watch checks that the path still leads to the watched directory; undefined: never, if the parent is
   * watched.
   */
  checkIntervalMs: number | undefined;
  /** Makes `start` not throw if the directory does not exist: a later check finds it. */
  mayBeMissing?: boolean;
}

/**
 * Watches one directory (inotify), not its subdirectories, and continues if another directory replaces it. inotify follows the inode:
 * there is no event if a symbolic link in the path changes, and none about the successor of a removed directory. So the path is looked
 * up again at every event that may concern the directory itself, and periodically.
 */
export class DirectoryWatch {
  readonly #options: DirectoryWatchOptions;
  readonly #directory: string;
  readonly #listener: DirectoryWatchListener;
  #watcher: FSWatcher | undefined;
  #identity: FileIdentity | undefined;
  #endChecks: (() => void) | undefined;

  constructor(options: DirectoryWatchOptions) {
    this.#options = options;
    this.#directory = options.directory;
    this.#listener = options.listener;
  }

  /** @throws the system's error if the directory cannot be watched, unless it may be missing */
  start(): void {
    const { timers, checkIntervalMs, mayBeMissing = false } = this.#options;
    try {
      this.#arm();
    } catch (error) {
      if (!mayBeMissing) throw error;
    }
    if (checkIntervalMs !== undefined) {
      this.#endChecks = timers.every(checkIntervalMs, () => void this.#check());
    }
  }

  close(): void {
    this.#endChecks?.();
    this.#endChecks = undefined;
    this.#disarm();
  }

  /** Reads the identity first: if the directory is replaced in between, the next check finds a difference. */
  #arm(): void {
    const armedIdentity = targetIdentity(this.#directory);
    const watcher = watch(this.#directory, { persistent: false });
    watcher.on('change', (kind, entry) => this.#onEvent(kind, entry?.toString()));
    watcher.on('error', (error) => {
      if (watcher === this.#watcher) this.#lose(error);
    });
    this.#disarm();
    this.#watcher = watcher;
    this.#identity = armedIdentity;
  }

  #disarm(): void {
    this.#watcher?.removeAllListeners('change');
    this.#watcher?.close();
    this.#watcher = undefined;
    this.#identity = undefined;
  }

  /** Handles an event. The directory's own removal and move have its own name, like those of an entry with the same name. */
  #onEvent(kind: string, entry: string | undefined): void {
    if (kind === 'rename' && entry === basename(this.#directory)) this.#rearm();
    else this.#listener.changed(entry);
  }

  async #check(): Promise<void> {
    const armed = this.#watcher;
    const found = await stat(this.#directory, { bigint: true }).then(identity, () => undefined);
    // The watch was closed or replaced meanwhile, so the result is outdated.
    if (this.#endChecks === undefined || this.#watcher !== armed) return;
    if (armed === undefined ? found !== undefined : found !== this.#identity) this.#rearm();
  }

  #rearm(): void {
    const wasLost = this.#watcher === undefined;
    try {
      this.#arm();
    } catch (error) {
      if (!wasLost) this.#lose(error);
      return;
    }
    if (wasLost) this.#listener.found();
    this.#listener.changed(undefined);
  }

  #lose(error: unknown): void {
    this.#disarm();
    this.#listener.lost(`unable to watch file (${this.#directory}): ${systemErrorReason(error)}`);
  }
}
