/** The findings of a command, independent of the output format. */
import { escaped } from '../shared/text.ts';

/** One finding. */
export interface ReportedFinding {
  /** Only errors make the command fail. */
  severity: 'error' | 'warning' | 'note';
  /** The kind of the finding in one word, for programs. */
  code: string;
  file: string;
  /** The line, from 1; undefined if the finding is about a whole file. Columns count UTF-16 code units. */
  line?: number | undefined;
  column?: number | undefined;
  /** The number of characters to mark, from the column on; undefined if not known. */
  length?: number | undefined;
  message: string;
  hint?: string | undefined;
  /** Lines that may have several columns; empty or undefined for none. Formats for people show them. */
  explanation?: string | undefined;
}

/** A case that passes or fails. */
export interface ReportedCase {
  name: string;
  file: string;
  line?: number | undefined;
  findings: readonly ReportedFinding[];
}

export interface Report {
  command: 'check' | 'diff' | 'test';
  findings: readonly ReportedFinding[];
  /** All files that were read, including those without findings. */
  files: readonly string[];
  /** The cases that JUnit and TAP count; undefined: each file without findings, and each finding. */
  cases?: readonly ReportedCase[];
  /** The exit status of the process. */
  exitStatus: number;
  /** Whether annotations show only errors. */
  isQuiet: boolean;
  /** The findings as Markdown for a reviewer; called only if that format is requested. */
  markdown(): string;
}

/** Values of `--output`. */
export const findingForms = ['text', 'json', 'yaml', 'sarif', 'junit', 'tap', 'github', 'markdown'] as const;

/** Returns the message, what to do, and the explanation, in lines. */
export function messageLines({ message, hint, explanation = '' }: ReportedFinding): string {
  const lines = [escaped(message), ...(hint === undefined ? [] : [`hint: ${escaped(hint)}`])];
  return [...lines, ...explanation.trimEnd().split('\n').filter(Boolean).map(escaped)].join('\n');
}
