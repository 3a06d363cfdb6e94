import { readFileSync } from 'node:fs';
import { isSystemError, systemErrorCode, systemErrorReason } from '../../../process/log/error-text.ts';
import type { RuleError } from '../../../rules/rule-error.ts';
import { fileProblem } from './file-problem.ts';
import type { ListedFile } from './list-files.ts';

export interface FileContents {
  files: { name: string; text: Uint8Array }[];
  errors: RuleError[];
  /** Names of files that were listed and are not there any more. */
  gone: string[];
}

/** Reads at most `maxBytes` in all. A file that cannot be read is an error: its rules must not vanish silently. */
export function readFiles(listed: readonly ListedFile[], maxBytes: number): FileContents {
  const contents: FileContents = { files: [], errors: [], gone: [] };
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
      if (systemErrorCode(error) === 'ENOENT') contents.gone.push(name);
      else contents.errors.push(fileProblem('unreadable', name, systemErrorReason(error)));
    }
  }
  return contents;
}
