/** What a command found, before it takes a form. */
import { escaped, type FlagTypes, type ParsedFlags, UsageError } from '../shared/flags.ts';

/** One thing that was found. */
export interface ReportedFinding {
  /** Only errors fail. */
  severity: 'error' | 'warning' | 'note';
  /** In one word, for programs. */
  code: string;
  file: string;
  /** From 1; undefined where a whole file is meant. Columns count UTF-16 code units. */
  line: number | undefined;
  column: number | undefined;
  /** Characters that are meant, from the column on; undefined: not known. */
  length?: number | undefined;
  message: string;
  hint?: string | undefined;
  /** Lines of more than one column; empty or undefined: none. Forms that people read show them. */
  explanation?: string | undefined;
}

/** One of several that pass or fail. */
export interface ReportedCase {
  name: string;
  file: string;
  line: number | undefined;
  findings: readonly ReportedFinding[];
}

export interface Report {
  command: 'check' | 'diff' | 'test';
  findings: readonly ReportedFinding[];
  /** All that were read, the good ones, too. */
  files: readonly string[];
  /** What JUnit and TAP count; undefined: each good file, and each finding. */
  cases?: readonly ReportedCase[];
  /** Of the process. */
  exitStatus: number;
  /** Whether annotations say errors alone. */
  isQuiet: boolean;
  /** As `findings`, for a person who reviews; made only where it is asked for. */
  markdown(): string;
}

const reportForms = ['sarif', 'junit', 'tap', 'github', 'markdown'] as const;
export type ReportForm = (typeof reportForms)[number];

export const reportFlag = {
  output: { type: 'string', short: 'o', values: ['text', 'json', 'yaml', ...reportForms] },
  quiet: { type: 'boolean', short: 'q' },
} as const satisfies FlagTypes;

/** `table` is `text`. @throws UsageError */
export function reportForm(flags: ParsedFlags): (typeof reportFlag.output.values)[number] {
  const given = flags.text('output') ?? 'text';
  const form = reportFlag.output.values.find((known) => known === (given === 'table' ? 'text' : given));
  if (form !== undefined) return form;
  throw new UsageError(`--output is one of ${reportFlag.output.values.join(', ')}, not "${given}"`);
}

/** Whether only what fails is said. */
export function isQuietReport(flags: ParsedFlags): boolean {
  return flags.on('quiet');
}

/** The message, what to do, and why, in lines. */
export function messageLines({ message, hint, explanation = '' }: ReportedFinding): string {
  const lines = [escaped(message), ...(hint === undefined ? [] : [`hint: ${escaped(hint)}`])];
  return [...lines, ...explanation.trimEnd().split('\n').filter(Boolean).map(escaped)].join('\n');
}
