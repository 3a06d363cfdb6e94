import { statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { systemErrorReason } from '../../../process/system-error.ts';
import { readRuleFiles } from '../../../rules/reader/read-rule-files.ts';
import type { RuleError } from '../../../rules/rule-error.ts';
import { fileProblem } from './file-problem.ts';
import { defaultFileSourceLimits } from './file-source.ts';
import { type FileListing, listRuleFiles } from './list-files.ts';
import { readFiles } from './read-files.ts';

export interface RuleFolderReading {
  /** Paths of the rule files, in the order in which they are read. */
  files: string[];
  domains: number;
  errors: RuleError[];
  /** Errors, those beyond the listed ones too. */
  errorCount: number;
  warnings: RuleError[];
}

/**
 * Reads the rules of a folder, or of one file, once, as a limiter would, and says what is wrong with them. Files go by
 * their path instead of their config name. Nothing of it throws.
 */
export function readRuleFolder(path: string, options: { mergeDomains: boolean }): RuleFolderReading {
  const listing = list(path);
  const files = listing.files.map((file) => ({ ...file, name: file.path }));
  const contents = readFiles(files, defaultFileSourceLimits.maxBytes);
  const rules = readRuleFiles(contents.files, options);
  const gone = contents.gone.map((file) => fileProblem('unreadable', file, 'gone while it was to be read'));
  const errors = [...listing.errors, ...contents.errors, ...gone, ...rules.errors];
  return {
    files: files.map((file) => file.path),
    domains: new Set(rules.sources.map(({ domain }) => domain)).size,
    errors,
    errorCount: errors.length + rules.errorCount - rules.errors.length,
    warnings: [...listing.warnings, ...rules.warnings],
  };
}

function list(path: string): FileListing {
  try {
    const stats = statSync(path);
    if (stats.isFile()) return { files: [{ name: path, path, bytes: stats.size }], errors: [], warnings: [] };
  } catch (error) {
    return { files: [], errors: [fileProblem('unreadable', path, systemErrorReason(error))], warnings: [] };
  }
  const watch = { kind: 'directory', path: dirname(resolve(path)) } as const;
  return listRuleFiles({
    readDirectory: path,
    namePrefix: '',
    ignoreDotFiles: false,
    mustExist: true,
    watch,
  });
}
