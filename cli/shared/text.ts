/** Formats texts for people and programs: escaped, in color, as table, JSON or YAML, and with units. */
import type { Writable } from 'node:stream';
import { styleText } from 'node:util';
import type { JsonObject } from '../../rules/model.ts';
import { yamlText } from './yaml-text.ts';

/**
 * Characters beyond the ASCII control characters that act on a terminal or page, are invisible or change the direction of text: C1
 * controls, direction marks and isolates, line separators, and zero-width spaces. Written for a class of a regular expression.
 */
export const activeCharacters = '\\u007f-\\u009f\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff';

/** Colors a text for a stream. Returns it unchanged if the stream is not a terminal, or with NO_COLOR. */
export type TextStyler = (
  style: 'red' | 'yellow' | 'green' | 'cyan' | 'bold' | 'dim',
  text: string,
) => string;

export function paintFor(stream: Writable): TextStyler {
  return (style, text) => styleText(style, text, { stream, validateStream: true });
}

const active = new RegExp(`[${activeCharacters}]`, 'g');

function withoutActive(text: string): string {
  return text.replace(active, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Puts a foreign text on one line and escapes characters that act on a terminal, or on a CI runner (`##[...]`). */
export function escaped(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  const line = text.replace(/[\u0000-\u001f]/g, (one) => JSON.stringify(one).slice(1, -1));
  return withoutActive(line).replace(/##(?=\w*\[)/g, '#\\u0023');
}

/** Returns JSON as JSON or YAML. Characters that act on a terminal are escaped without changing the value. */
export function dataText(json: string, form: string): string {
  // In both forms, these characters are inside quotes.
  return withoutActive(form === 'yaml' ? yamlText(JSON.parse(json) as JsonObject) : json);
}

/** Returns a value as indented JSON, or as YAML. */
export function valueText(value: unknown, form: string): string {
  return dataText(`${JSON.stringify(value, undefined, 2)}\n`, form);
}

/** A row of a table, with its columns in order. Empty and missing values are shown as `-`. */
export type Row = Record<string, string | number | undefined>;

/** Formats a table as kubectl does. Every text may be foreign, so all of them are escaped. */
export function table(rows: readonly Row[]): string {
  const columns = Object.keys(rows[0] ?? {});
  const cells = [columns, ...rows.map((row) => columns.map((name) => escaped(`${row[name] ?? ''}` || '-')))];
  return columnLines(cells, '   ')
    .map((line) => `${line}\n`)
    .join('');
}

/** Formats columns as wide as their widest cell. The columns in `right` are numbers. */
export function columnLines(
  rows: readonly (readonly string[])[],
  gap: string,
  right: ReadonlySet<number> = new Set(),
): string[] {
  const widths: number[] = [];
  for (const row of rows)
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length);
  return rows.map((row) => {
    const cells = row.map((cell, column) =>
      right.has(column) ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!),
    );
    return cells.join(gap).trimEnd();
  });
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

/** Returns for example `12,345`. */
export function numberText(number: number): string {
  return number.toLocaleString('en-US');
}

/** `1,234.5`: with a digit behind the point below 100. */
export function rateText(perSecond: number): string {
  return perSecond.toLocaleString('en-US', { maximumFractionDigits: perSecond < 100 ? 1 : 0 });
}

/** Returns for example `per minute`, for a unit in upper or lower case. */
export function perUnit(unit: string): string {
  return `per ${unit.toLowerCase()}`;
}

/** Returns for example `rules.yaml:12:9`, or the file alone if no line is known. */
export function placeText(file: string, { line, column }: PartialPlace = {}): string {
  return line === undefined ? file : `${file}:${line}:${column ?? 1}`;
}

type PartialPlace = { line?: number | undefined; column?: number | undefined };

/** Returns for example `1 rule`, `1000 rules`. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}
