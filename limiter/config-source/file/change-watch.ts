import { lstatSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { DirectoryWatch } from '../../../process/files/directory-watch.ts';
import { entryIdentity, type FileIdentity } from '../../../process/files/watched-files.ts';
import { isSystemError, systemErrorCode, systemErrorReason } from '../../../process/log/error-text.ts';
import type { Timers } from '../../../process/time/clock.ts';
import { ConfigSourceError } from '../config-source.ts';
import { directoriesIn, type FileLayout } from './list-files.ts';

/** The RUNTIME_* settings. */
export interface RuntimePaths {
  root: string;
  subdirectory: string;
  appDirectory: string;
  ignoreDotFiles: boolean;
  watchRoot: boolean;
}

/**
 * With `watchRoot`, the limiter reads every file in ROOT/SUBDIRECTORY whose config name begins with `APPDIRECTORY.`. This includes
 * `config.yaml` beside the directory `config`. An empty SUBDIRECTORY means ROOT itself.
 */
export function fileLayout(paths: RuntimePaths): FileLayout {
  const root = resolve(paths.root);
  const { ignoreDotFiles } = paths;
  const parent = join(root, paths.subdirectory);
  if (!paths.watchRoot) {
    const readDirectory = join(parent, paths.appDirectory);
    const watch = { kind: 'directory', path: readDirectory } as const;
    return { readDirectory, namePrefix: '', ignoreDotFiles, mustExist: true, watch };
  }
  const segments = paths.appDirectory.split('/').filter((segment) => segment !== '' && segment !== '.');
  if (segments.includes('..')) {
    throw new ConfigSourceError(
      'app-directory-outside',
      `RUNTIME_APPDIRECTORY '${paths.appDirectory}' must not contain '..' while RUNTIME_WATCH_ROOT is true`,
    );
  }
  const namePrefix = segments.length === 0 ? '' : `${segments.join('.')}.`;
  const watch = { kind: 'root', path: root } as const;
  return { readDirectory: parent, namePrefix, ignoreDotFiles, mustExist: false, watch };
}

/** Returns the directory that must exist when the service starts. */
export function watchedDirectory(layout: FileLayout): string {
  return layout.watch.kind === 'root' ? dirname(layout.watch.path) : layout.watch.path;
}

export interface ChangeListener {
  /**
   * Rules may have changed at this path below the watched directory, or anywhere if the path is undefined.
   * Called for each file event, so several times for one change.
   */
  changed(entry: string | undefined): void;
  lost(reason: string): void;
  found(): void;
}

export interface ChangeWatchOptions {
  timers: Timers;
  /** The interval at which the watch checks that its path still leads to the same directory and retries folders it cannot watch. */
  checkIntervalMs: number;
  /** The maximum number of watched folders below the app directory. */
  maxFolders: number;
}

/**
 * Reports changes that need a reload. With RUNTIME_WATCH_ROOT=true, this is the replacement of ROOT, which is a symbolic link or a
 * directory. Changes inside ROOT, or its removal, do not count. With RUNTIME_WATCH_ROOT=false, it is any entry of the app
 * directory, or of a folder below it that is read, that was created, written, removed, moved in or out, or had its mode changed.
 */
export class ChangeWatch {
  readonly #layout: FileLayout;
  readonly #listener: ChangeListener;
  readonly #options: ChangeWatchOptions;
  readonly #watch: DirectoryWatch;
  /** Watches of folders, by path, without the app directory itself. */
  readonly #folders = new Map<string, DirectoryWatch>();
  #root: FileIdentity | undefined;
  #stopTrying: (() => void) | undefined;

  constructor(layout: FileLayout, listener: ChangeListener, options: ChangeWatchOptions) {
    this.#layout = layout;
    this.#listener = listener;
    this.#options = options;
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

  /** @throws ConfigSourceError if there is nothing to watch */
  start(): void {
    const path = watchedDirectory(this.#layout);
    try {
      this.#watch.start();
    } catch (error) {
      const message = `unable to watch file (${path}): ${systemErrorReason(error)}`;
      throw new ConfigSourceError('unwatchable', message, { cause: error });
    }
    this.#root = this.#rootIdentity();
    if (this.#layout.watch.kind === 'directory') this.#watchFoldersIn(path);
  }

  close(): void {
    this.#stopTrying?.();
    this.#watch.close();
    for (const folder of this.#folders.values()) folder.close();
    this.#folders.clear();
  }

  #onEvent(entry: string | undefined): void {
    const { watch } = this.#layout;
    if (watch.kind === 'directory') {
      this.#onFolderEvent(watch.path, entry);
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

  /** Watches new folders before the load reads them. If another directory replaced one, all folders below it are new. */
  #onFolderEvent(folder: string, entry: string | undefined): void {
    if (entry === undefined) {
      this.#forgetBelow(folder);
      this.#watchFoldersIn(folder);
    } else if (isDirectory(join(folder, entry)) && !this.#folders.has(join(folder, entry))) {
      this.#watchFoldersIn(folder);
    }
    const { path } = this.#layout.watch;
    this.#listener.changed(entry === undefined ? undefined : relative(path, join(folder, entry)));
  }

  #watchFoldersIn(folder: string): void {
    try {
      for (const path of directoriesIn(this.#layout, folder)) {
        if (!this.#folders.has(path)) this.#watchFolder(path);
      }
    } catch (error) {
      // The load reports a folder that cannot be read. The watch of the parent reports one that is gone.
      if (!isSystemError(error)) throw error;
    }
  }

  /** Watches a folder first and lists it afterward, so that no new folder is missed. */
  #watchFolder(path: string): void {
    if (this.#stopTrying !== undefined) return;
    const { timers, maxFolders } = this.#options;
    if (this.#folders.size >= maxFolders) {
      this.#tryAgain(`unable to watch file (${path}): there are more than ${maxFolders} folders`);
      return;
    }
    const watch = new DirectoryWatch({
      directory: path,
      timers,
      checkIntervalMs: undefined,
      listener: {
        changed: (entry) => this.#onFolderEvent(path, entry),
        lost: () => this.#forget(path),
        found: () => {},
      },
    });
    try {
      watch.start();
    } catch (error) {
      if (!isSystemError(error)) throw error;
      const code = systemErrorCode(error) ?? '';
      if (code === 'ENOSPC' || code === 'EMFILE' || code === 'ENOMEM')
        this.#tryAgain(`unable to watch file (${path}): ${systemErrorReason(error)}`);
      return;
    }
    this.#folders.set(path, watch);
    this.#watchFoldersIn(path);
  }

  /** There are more folders than can be watched. Changes in the others are not noticed until a watch is free. */
  #tryAgain(reason: string): void {
    this.#listener.lost(reason);
    this.#stopTrying = this.#options.timers.after(this.#options.checkIntervalMs, () => {
      this.#stopTrying = undefined;
      const { path } = this.#layout.watch;
      this.#forgetBelow(path);
      this.#watchFoldersIn(path);
      if (this.#stopTrying !== undefined) return;
      this.#listener.found();
      this.#listener.changed(undefined);
    });
  }

  #forget(path: string): void {
    this.#folders.get(path)?.close();
    this.#folders.delete(path);
    this.#forgetBelow(path);
  }

  #forgetBelow(path: string): void {
    for (const [folder, watch] of this.#folders) {
      if (!folder.startsWith(`${path}/`)) continue;
      watch.close();
      this.#folders.delete(folder);
    }
  }
}

/** Returns false if the path does not exist or cannot be read. */
function isDirectory(path: string): boolean {
  try {
    return lstatSync(path).isDirectory();
  } catch {
    return false;
  }
}
