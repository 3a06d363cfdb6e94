import type { RuleError } from '../../rules/rule-error.ts';
import type { LineIndex } from '../../rules/yaml/places.ts';
import { type Paint, UsageError } from '../shared/flags.ts';
import type { CheckedInput } from './check-input.ts';

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
  'burst-of-zero',
  'never-tighter',
  'never-leased',
  'taken-as-written',
  'dotted-metric',
  'shared-metric',
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

/** The line of a text that something is about, and where in it. */
export interface Excerpt {
  line: number;
  /** As written, cut where it is long. */
  text: string;
  /** Where the caret stands below it, from 0. */
  caret: number;
}

/** Chosen: what fits beside a line number on most terminals. */
const longest = 100;

/** Undefined for a line that the text does not have. Both numbers count from 1. */
export function excerptAt(lines: LineIndex, line: number, column: number): Excerpt | undefined {
  const whole = lines.lineText(line);
  if (whole === undefined) return undefined;
  const at = Math.min(Math.max(column - 1, 0), whole.length);
  if (whole.length <= longest) return { line, text: whole, caret: at };
  const from = Math.max(0, Math.min(at - longest / 2, whole.length - longest));
  const before = from > 0 ? '...' : '';
  const after = from + longest < whole.length ? '...' : '';
  return {
    line,
    text: before + whole.slice(from, from + longest) + after,
    caret: at - from + before.length,
  };
}

/** The lines that are shown: the text, and the caret below, which keeps to tabs and to wide characters. */
export function excerptLines({ line, text, caret }: Excerpt): string[] {
  const number = String(line);
  const gap = ' '.repeat(number.length);
  const indent = text.slice(0, caret).replace(/[^\t]/g, ' ');
  return [`  ${number} | ${printable(text)}`, `  ${gap} | ${indent}^`];
}

/** A control character would move the cursor, or worse. */
function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '\ufffd');
}

/** A finding with its line and what to do, for a person. */
export function findingText(finding: Finding, paint: Paint): string {
  const { severity, file, line, column, message, hint, excerpt } = finding;
  const place = line === undefined ? file : `${file}:${line}:${column ?? 1}`;
  const label =
    severity === 'error'
      ? paint('red', `error loading ${finding.code === 'callers' ? 'callers' : 'rate limit configs'}:`)
      : paint('yellow', `warning (${finding.code}):`);
  const lines = [`${label} ${place}: ${message}`];
  if (excerpt !== undefined) lines.push(...excerptLines(excerpt));
  if (hint !== undefined) lines.push(`  ${paint('cyan', 'hint:')} ${hint}`);
  return `${lines.join('\n')}\n`;
}

/** Chosen: warnings of one kind that a person looks at. */
const mostOfKind = 50;

/** The first warnings of each kind, and how many there are beyond. */
export function shownWarnings(warnings: readonly Finding[]): {
  shown: Finding[];
  unshown: ReadonlyMap<string, number>;
} {
  const numbers = new Map<string, number>();
  const unshown = new Map<string, number>();
  const shown = warnings.filter(({ code }) => {
    const number = (numbers.get(code) ?? 0) + 1;
    numbers.set(code, number);
    if (number > mostOfKind) unshown.set(code, number - mostOfKind);
    return number <= mostOfKind;
  });
  return { shown, unshown };
}

/** `2 files, 3 domains, 9 rules; callers file, 3 callers ok; 4 other objects passed over (v1 ConfigMap ...)`. */
export function summaryText(input: CheckedInput): string {
  const { files, domains, rules, callersFiles, skipped, otherFiles } = input;
  const parts: string[] = [];
  const ofRules = files.length - callersFiles.length;
  if (ofRules > 0 || callersFiles.length === 0)
    parts.push(`${count(ofRules, 'file')}, ${count(domains, 'domain')}, ${count(rules, 'rule')}`);
  if (callersFiles.length > 0) {
    const callers = callersFiles.reduce((sum, one) => sum + one.callers, 0);
    const what = callersFiles.length === 1 ? 'callers file' : `${callersFiles.length} callers files`;
    parts.push(`${what}, ${count(callers, 'caller')} ok`);
  }
  const objects = skipped.filter(({ type }) => type !== 'file');
  if (objects.length > 0) {
    const types = [...new Set(objects.map(({ type }) => type))];
    const shown = types.slice(0, 3).join(', ') + (types.length > 3 ? ' ...' : '');
    parts.push(`${count(objects.length, 'other object')} passed over (${shown})`);
  }
  const json = otherFiles.length;
  if (json > 0) parts.push(`${count(json, 'other JSON file')} passed over`);
  const named = skipped.length - objects.length - json;
  if (named > 0) parts.push(`${count(named, 'file')} of other names passed over`);
  return parts.join('; ');
}

/** One object for programs, whatever the number of arguments. */
export function checkJson(inputs: readonly CheckedInput[]): string {
  const sum = (pick: (input: CheckedInput) => number) => inputs.reduce((total, one) => total + pick(one), 0);
  const report = {
    errorCount: sum(({ errorCount }) => errorCount),
    warningCount: sum(({ warnings }) => warnings.length),
    allowedCount: sum(({ allowed }) => allowed),
    files: inputs.flatMap(({ files }) => files),
    domains: sum(({ domains }) => domains),
    rules: sum(({ rules }) => rules),
    callersFiles: inputs.flatMap(({ callersFiles }) => callersFiles),
    skipped: inputs.flatMap(({ skipped }) => skipped),
    findings: inputs.flatMap(({ errors, warnings }) => [...errors, ...warnings]).map(findingJson),
  };
  return `${JSON.stringify(report, undefined, 2)}\n`;
}

function findingJson({ excerpt, ...finding }: Finding): object {
  return { ...finding, excerpt: excerpt?.text };
}

export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}
