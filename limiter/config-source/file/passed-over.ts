import { readFileSync, statSync } from 'node:fs';
import { looksLikeRules } from '../../../rules/reader/looks-like-rules.ts';
import type { RuleError } from '../../../rules/rule-error.ts';

/** We chose both: rule files by another name are few and small, and what stands beside rules may be anything. */
const maxBytes = 1024 * 1024;
const maxFiles = 1_000;

/** Warnings of files that nobody reads because of their names, and that hold rules: the Go service reads every file. */
export function passedOverRules(others: ReadonlyMap<string, string>, extensions: string): RuleError[] {
  return [...others].slice(0, maxFiles).flatMap(([name, path]): RuleError[] => {
    if (!holdsRules(path)) return [];
    const text = `holds rules and is not read: only ${extensions} are rule files`;
    return [{ code: 'passed-over', source: name, text, path: [], line: undefined, column: undefined }];
  });
}

/** False for what cannot be read: it is not ours. */
function holdsRules(path: string): boolean {
  try {
    return statSync(path).size <= maxBytes && looksLikeRules(readFileSync(path));
  } catch {
    return false;
  }
}
