import type { RuleError } from '../../rules/rule-error.ts';
import type { LineIndex } from '../../rules/yaml/places.ts';
import { UsageError } from '../shared/flags.ts';
import { type Excerpt, excerptAt } from './check-report.ts';

/** One error or warning as it is shown. */
export interface Finding {
  severity: 'error' | 'warning';
  /** In one word, for programs. */
  code: string;
  file: string;
  /** From 1; undefined where a whole file is meant. */
  line: number | undefined;
  column: number | undefined;
  message: string;
  hint: string | undefined;
  excerpt: Excerpt | undefined;
}

/** The lines of a file by its path; undefined for what has none, such as a folder. */
export type LinesOf = (file: string) => LineIndex | undefined;

/** An error of a reader, or a warning in its form. */
export type Found = Pick<RuleError, 'source' | 'text' | 'line' | 'column'> & { code: string };

export function findingOf(
  severity: Finding['severity'],
  { code, source, text, line, column }: Found,
  hint: string | undefined,
  linesOf: LinesOf,
): Finding {
  const content = line === undefined ? undefined : linesOf(source);
  const excerpt = content === undefined ? undefined : excerptAt(content, line ?? 1, column ?? 1);
  return { severity, code, file: source, line, column, message: text, hint, excerpt };
}

/** Every kind of warning that a check knows. */
export const warningKinds = [
  'never-matches',
  'shadowed-wildcard',
  'no-effect',
  'no-rules',
  'replaces-nothing',
  'replaces-unlimited',
  'replaces-each-other',
  'limit-of-zero',
  'taken-as-written',
  'dotted-metric',
  'meeting-counters',
  'duplicate-domain',
  'duplicate-object',
  'unread-document',
  'passed-over',
  'misplaced-key',
  'duplicate-key',
  'unreadable',
] as const;

/** The kinds that `--allow` names, separated by commas. @throws UsageError */
export function allowedKinds(values: readonly string[]): ReadonlySet<string> {
  const names = values.flatMap((value) => value.split(',')).map((name) => name.trim());
  for (const name of names) {
    if (warningKinds.some((kind) => kind === name)) continue;
    throw new UsageError(`--allow: there is no warning "${name}"; there are ${warningKinds.join(', ')}`);
  }
  return new Set(names);
}
