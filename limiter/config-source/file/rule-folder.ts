import { statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { systemErrorReason } from '../../../process/log/error-text.ts';
import type { RuleError } from '../../../rules/rule-error.ts';
import { unplacedError } from '../config-source.ts';
import { defaultFileSourceLimits } from './file-source.ts';
import { type FileListing, listRuleFiles } from './list-files.ts';
import { passedOverRules, readFiles } from './load-rules.ts';

export interface RuleFolderReading {
  /** The files, in the order in which a limiter reads them. */
  files: { path: string; text: Uint8Array }[];
  errors: RuleError[];
  warnings: RuleError[];
}

/**
 * Reads the files of a folder, or one file of any kind (also a pipe), once. Errors name files by path instead of by config name.
 * `rejection` returns the reason why a file in the folder must not be read, which becomes an error of that file. Never throws.
 */
export function readRuleFolder(
  path: string,
  extensions: readonly string[],
  rejection: (file: string) => string | undefined = () => undefined,
): RuleFolderReading {
  const listing = withoutRejected(list(path, extensions), rejection);
  const files = listing.files.map((file) => ({ ...file, name: file.path }));
  const contents = readFiles(files, defaultFileSourceLimits.maxBytes);
  const gone = contents.gone.map((file) => unplacedError('unreadable', file, 'deleted before it was read'));
  return {
    files: contents.files.map(({ name, text }) => ({ path: name, text })),
    errors: [...withPaths(listing.errors, listing), ...contents.errors, ...gone],
    warnings: [
      ...withPaths(listing.warnings, listing),
      ...passedOverRules(byPath(listing), '*.yaml and *.yml'),
    ],
  };
}

const nothing = (): FileListing => ({
  files: [],
  others: new Map(),
  errors: [],
  warnings: [],
  reported: new Map(),
});

function withoutRejected(
  { files, others, errors, reported, ...rest }: FileListing,
  rejection: (file: string) => string | undefined,
): FileListing {
  const kept = files.filter(({ path }) => {
    const text = rejection(path);
    if (text !== undefined) errors.push(unplacedError('unreadable', path, text));
    return text === undefined;
  });
  const rightOthers = new Map([...others].filter(([, path]) => rejection(path) === undefined));
  return { ...rest, files: kept, others: rightOthers, errors, reported };
}

function byPath({ others }: FileListing): Map<string, string> {
  return new Map([...others.values()].map((path) => [path, path]));
}

function withPaths(errors: readonly RuleError[], { reported }: FileListing): RuleError[] {
  return errors.map((error) => ({ ...error, source: reported.get(error) ?? error.source }));
}

function list(path: string, extensions: readonly string[]): FileListing {
  try {
    const stats = statSync(path);
    if (!stats.isDirectory()) {
      return { ...nothing(), files: [{ name: path, path, bytes: stats.size }] };
    }
  } catch (error) {
    return { ...nothing(), errors: [unplacedError('unreadable', path, systemErrorReason(error))] };
  }
  const watch = { kind: 'directory', path: dirname(resolve(path)) } as const;
  const layout = { readDirectory: path, namePrefix: '', ignoreDotFiles: false, mustExist: true, watch };
  return listRuleFiles(layout, path, extensions);
}
