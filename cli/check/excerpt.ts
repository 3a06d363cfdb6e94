import type { LineIndex } from '../../rules/yaml/line-index.ts';

/** The line of a text that something is about, and where in it. */
export interface Excerpt {
  line: number;
  /** As written, cut where it is long. */
  text: string;
  /** Where the caret stands below it, from 0. */
  caret: number;
}

/** We chose it: what fits beside a line number on most terminals. */
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
