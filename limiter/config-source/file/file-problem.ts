import type { RuleError } from '../../../rules/rule-error.ts';

/** An error about a whole file or load, without a place in a document. */
export function fileProblem(code: 'unreadable' | 'too-large', source: string, text: string): RuleError {
  return { code, source, text, path: [], line: undefined, column: undefined };
}
