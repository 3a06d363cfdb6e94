/** Prints the results of commands: lines and tables for people, JSON or YAML for programs. */

import type { JsonObject } from '../../rules/model.ts';
import { orWords } from '../../rules/rule-error.ts';
import { activeCharacters } from './active-characters.ts';
import { escaped, type ParsedFlags, UsageError } from './flags.ts';
import { outputForms } from './help-flags.ts';
import { yamlText } from './yaml-text.ts';

/** `text` is for people: a table, if there is one. */
export type OutputFormat = 'text' | 'json' | 'yaml';

/** The flag of commands that print a table. */
export const outputHelp = `  -o, --output <form>         how to print the result: table (default), json or yaml
`;

/** Reads `-o table|json|yaml`; `table` is the format `text`. The message names `forms`. @throws UsageError */
export function outputFormat(flags: ParsedFlags, forms: readonly string[] = outputForms): OutputFormat {
  const output = flags.text('output') ?? 'text';
  if (output === 'table') return 'text';
  if (output === 'text' || output === 'json' || output === 'yaml') return output;
  throw new UsageError(`--output is ${orWords(forms)}, not "${output}"`);
}

const active = new RegExp(`[${activeCharacters}]`, 'g');

/** Returns JSON in the requested format. Characters that act on a terminal are escaped without changing the value. */
export function dataText(json: string, format: 'json' | 'yaml'): string {
  const text = format === 'json' ? json : yamlText(JSON.parse(json) as JsonObject);
  // In both formats, these characters are inside quotes.
  return text.replace(active, (one) => {
    return `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

/** Returns a value for programs, or `text` for people. */
export function printedText(value: unknown, format: OutputFormat, text: () => string): string {
  return format === 'text' ? text() : dataText(`${JSON.stringify(value, undefined, 2)}\n`, format);
}

/** A row of a table, with its columns in order. Empty and missing values are shown as `-`. */
export type Row = Record<string, string | number | undefined>;

/** Formats a table as kubectl does. Every text may be foreign, so all of them are escaped. */
export function table(rows: readonly Row[]): string {
  const columns = Object.keys(rows[0] ?? {});
  const lines = [columns, ...rows.map((row) => columns.map((name) => escaped(`${row[name] ?? ''}` || '-')))];
  const widths = columns.map((_, index) =>
    lines.reduce((widest, line) => Math.max(widest, line[index]!.length), 0),
  );
  const padded = lines.map((line) => line.map((cell, index) => cell.padEnd(widths[index]!)).join('   '));
  return padded.map((line) => `${line.trimEnd()}\n`).join('');
}

/** Returns RFC 3339 in UTC, without a fraction if the time is in whole seconds. */
export function timeText(ms: number): string {
  return new Date(ms).toISOString().replace('.000Z', 'Z');
}

/** Returns the two largest units, for example `45s`, `2m5s`, `1h58m`, `3d4h`. */
export function durationText(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const parts = [
    [Math.floor(whole / 86_400), 'd'],
    [Math.floor(whole / 3600) % 24, 'h'],
    [Math.floor(whole / 60) % 60, 'm'],
    [whole % 60, 's'],
  ] as const;
  const first = parts.findIndex(([count]) => count > 0);
  const shown = first === -1 ? parts.slice(3) : parts.slice(first, first + 2);
  const words = shown.filter(([count], index) => index === 0 || count > 0);
  return words.map(([count, unit]) => `${count}${unit}`).join('');
}

/** `1,234.5`: with a digit behind the point below 100. */
export function rateText(perSecond: number): string {
  return perSecond.toLocaleString('en-US', { maximumFractionDigits: perSecond < 100 ? 1 : 0 });
}
