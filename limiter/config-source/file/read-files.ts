import { readFileSync } from 'node:fs';
import type { RuleError } from '../../../rules/rule-error.ts';
import { fileProblem } from './file-problem.ts';
import type { ListedFile } from './list-files.ts';
import { isSystemError, systemErrorCode, systemErrorReason } from './system-error.ts';

export interface FileContents {
  files: { name: string; text: Uint8Array }[];
  errors: RuleError[];
  warnings: RuleError[];
}

/** Reads at most `maxBytes` in all. A file that cannot be read is an error: its rules must not vanish silently. */
export function readFiles(listed: readonly ListedFile[], maxBytes: number): FileContents {
  const contents: FileContents = { files: [], errors: [], warnings: [] };
  let bytes = 0;
  for (const { name, path, bytes: size } of listed) {
    if (bytes + size > maxBytes) {
      const text = `the rule files up to this one hold ${bytes + size} bytes, the bound is ${maxBytes}`;
      contents.errors.push(fileProblem('too-large', name, text));
      return contents;
    }
    try {
      const text = readFileSync(path);
      bytes += text.length;
      contents.files.push({ name, text });
    } catch (error) {
      if (!isSystemError(error)) throw error;
      const isGone = systemErrorCode(error) === 'ENOENT';
      const problem = fileProblem('unreadable', name, isGone ? 'gone, skipped' : systemErrorReason(error));
      (isGone ? contents.warnings : contents.errors).push(problem);
    }
  }
  return contents;
}
