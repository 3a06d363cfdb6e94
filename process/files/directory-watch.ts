import { type FSWatcher, watch } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { systemErrorReason } from '../log/error-text.ts';
import type { Timers } from '../time/clock.ts';
import { type FileIdentity, identity, targetIdentity } from './watched-files.ts';

export interface DirectoryWatchListener {
  /** An entry directly inside appeared, vanished or changed; undefined: any may have. */
  changed(entry: string | undefined): void;
  lost(reason: string): void;
  found(): void;
}

export interface DirectoryWatchOptions {
  directory: string;
  listener: DirectoryWatchListener;
  timers: Timers;
  /** How often the path is checked to lead to the directory watched; undefined: never, for who watches its parent. */
  checkIntervalMs: number | undefined;
  /** `start` does not throw: a directory that is not there yet is found by a check. */
  mayBeMissing?: boolean;
}

/**
 * Watches one directory (inotify), not its subdirectories, and goes on when another directory takes its place.
 * inotify follows the inode: nothing says when a symbolic link on the way is turned elsewhere, and after a removal
 * nothing reports the successor. So the path is looked up again at every event that may be about the directory
 * itself, and once in a while.
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

  /** Throws the system's error when the directory cannot be watched, unless it may be missing. */
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

  /** The identity is read first: if the directory is exchanged in between, the next check finds a difference. */
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

  /** The directory's own removal and move come under its own name, as those of an entry of this name would. */
  #onEvent(kind: string, entry: string | undefined): void {
    if (kind === 'rename' && entry === basename(this.#directory)) this.#rearm();
    else this.#listener.changed(entry);
  }

  async #check(): Promise<void> {
    const armed = this.#watcher;
    const found = await stat(this.#directory, { bigint: true }).then(identity, () => undefined);
    // Closed or armed anew while waiting: what was found is old.
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
