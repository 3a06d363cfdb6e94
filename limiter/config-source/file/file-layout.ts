import { dirname, join, resolve } from 'node:path';
import { ConfigSourceError } from '../config-source.ts';

/** The RUNTIME_* settings. */
export interface RuntimePaths {
  root: string;
  subdirectory: string;
  appDirectory: string;
  ignoreDotFiles: boolean;
  watchRoot: boolean;
}

/** What the settings mean: which files are rules, and which path is watched. */
export interface FileLayout {
  /** Read with its subdirectories; config names are relative to it. */
  readDirectory: string;
  /** Only config names that begin with it are read; empty: all. */
  namePrefix: string;
  ignoreDotFiles: boolean;
  /** False: a missing `readDirectory` means no rules. */
  mustExist: boolean;
  watch: { kind: 'root' | 'directory'; path: string };
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
