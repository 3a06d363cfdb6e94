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
 * With `watchRoot` everything in ROOT/SUBDIRECTORY whose config name begins with `APPDIRECTORY.` is read, so also
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

/** The directory that has to be there when the service starts. */
export function watchedDirectory(layout: FileLayout): string {
  return layout.watch.kind === 'root' ? dirname(layout.watch.path) : layout.watch.path;
}

export interface ChangeListener {
  /**
   * Rules may have changed: at this path below the watched directory, or undefined when it may be any.
   * Comes once a file event, so several times for one change.
   */
  changed(entry: string | undefined): void;
  lost(reason: string): void;
  found(): void;
}

export interface ChangeWatchOptions {
  timers: Timers;
  /** How often the watched path is checked to lead where it led, and a folder that could not be watched is tried again. */
  checkIntervalMs: number;
  /** Folders below the app directory that are watched at most. */
  maxFolders: number;
}

/**
 * Says what makes a reload. RUNTIME_WATCH_ROOT=true: ROOT was replaced, whether a symbolic link or a directory;
 * neither what happens inside it nor its removal. RUNTIME_WATCH_ROOT=false: anything in the app directory or in a folder
 * below it that is read was created, written, removed, moved in or out, or had its mode changed.
 */
export class ChangeWatch {
  readonly #layout: FileLayout;
  readonly #listener: ChangeListener;
  readonly #options: ChangeWatchOptions;
  readonly #watch: DirectoryWatch;
  /** By path, without the app directory itself. */
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

  /** Throws a ConfigSourceError when there is nothing to watch. */
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

  /** What is new is watched before anybody reads it. Where another directory took the place, all below it is new. */
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
      // What cannot be read is for the load to say; what is gone is reported by its parent.
      if (!isSystemError(error)) throw error;
    }
  }

  /** Watched first, then looked into, so that no folder falls between. */
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

  /** There are more folders than can be watched: what changes in the others goes unnoticed until there is room. */
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

/** False for what is gone or cannot be seen. */
function isDirectory(path: string): boolean {
  try {
    return lstatSync(path).isDirectory();
  } catch {
    return false;
  }
}
