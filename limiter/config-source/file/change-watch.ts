import { basename } from 'node:path';
import { DirectoryWatch } from '../../../process/files/directory-watch.ts';
import { entryIdentity, type FileIdentity } from '../../../process/files/file-identity.ts';
import { systemErrorReason } from '../../../process/system-error.ts';
import type { Timers } from '../../../process/timers.ts';
import { ConfigSourceError } from '../config-source.ts';
import { type FileLayout, watchedDirectory } from './file-layout.ts';

export interface ChangeListener {
  /**
   * Rules may have changed: at this entry of the watched directory, or undefined when it may be any.
   * Comes once a file event, so several times for one change.
   */
  changed(entry: string | undefined): void;
  lost(reason: string): void;
  found(): void;
}

/**
 * Tells what makes a reload. RUNTIME_WATCH_ROOT=true: ROOT was replaced, whether a symbolic link or a directory;
 * neither what happens inside it nor its removal. RUNTIME_WATCH_ROOT=false: anything directly inside the app
 * directory was created, written, removed, moved in or out, or had its mode changed.
 */
export class ChangeWatch {
  readonly #layout: FileLayout;
  readonly #listener: ChangeListener;
  readonly #watch: DirectoryWatch;
  #root: FileIdentity | undefined;

  constructor(
    layout: FileLayout,
    listener: ChangeListener,
    options: { timers: Timers; checkIntervalMs: number },
  ) {
    this.#layout = layout;
    this.#listener = listener;
    this.#watch = new DirectoryWatch({
      directory: watchedDirectory(layout),
      timers: options.timers,
      checkIntervalMs: options.checkIntervalMs,
      listener: {
        changed: (entry) => this.#onEvent(entry),
        lost: (reason) => listener.lost(reason),
        found: () => listener.found(),
      },
    });
  }

  /** Throws a ConfigSourceError when there is nothing to watch. */
  start(): void {
    try {
      this.#watch.start();
    } catch (error) {
      const reason = systemErrorReason(error);
      const message = `unable to watch file (${watchedDirectory(this.#layout)}): ${reason}`;
      throw new ConfigSourceError('unwatchable', message, { cause: error });
    }
    this.#root = this.#rootIdentity();
  }

  close(): void {
    this.#watch.close();
  }

  #onEvent(entry: string | undefined): void {
    const { watch } = this.#layout;
    if (watch.kind === 'directory') {
      this.#listener.changed(entry);
      return;
    }
    if (entry !== undefined && entry !== basename(watch.path)) return;
    const before = this.#root;
    this.#root = this.#rootIdentity();
    if (this.#root !== undefined && this.#root !== before) this.#listener.changed(entry);
  }

  #rootIdentity(): FileIdentity | undefined {
    const { kind, path } = this.#layout.watch;
    return kind === 'root' ? entryIdentity(path) : undefined;
  }
}
