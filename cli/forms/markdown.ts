/**
 * Markdown for a comment of a pull request, as GitHub and GitLab read it (GFM). Texts of others stand in code, or with every
 * character spelled out that means something: they open no table cell, tag, link or mention.
 */
import { escaped } from '../shared/flags.ts';
import type { ReportedFinding } from './report.ts';

/** GitHub takes comments of 65,536 characters; bytes are at least as many. */
const mostBytes = 65_000;
/** Chosen: of one text in a table, in characters. */
const longest = 400;

/** Cuts what nobody reads to its end in a table. */
function clipped(text: string): string {
  const line = escaped(text.toWellFormed()).replace(/[\ufffe\uffff]/g, '\ufffd');
  if (line.length <= longest) return line;
  return `${line.slice(0, longest).replace(/[\ud800-\udbff]$/, '')}...`;
}

function entity(character: string): string {
  return `&#${character.codePointAt(0)};`;
}

/** A name or a value of others, as code. */
export function markdownCode(text: string): string {
  const line = clipped(text);
  if (line === '') return '`""`';
  if (!/[`|\\]/.test(line)) return `\`${line}\``;
  // A code span takes no backslash before a bar of a table, so the characters are spelled out.
  return `<code>${line.replace(/[^A-Za-z0-9 ]/gu, entity).replaceAll('&#64;', '&#64;&#8203;')}</code>`;
}

/** A sentence that quotes others. Behind @ and #, a space of no width keeps names and numbers from being mentioned. */
export function markdownText(text: string): string {
  return clipped(text)
    .replace(/[&<>`*[\]\\|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=\S)|(?<=www)\./gi, entity)
    .replaceAll('@', '&#64;&#8203;')
    .replace(/(?<!&)#/g, '&#35;&#8203;')
    .replace(/GH-(?=\d)/gi, (prefix) => `${prefix}&#8203;`);
}

export interface MarkdownReport {
  /** Names the comment for programs, so that a later one takes its place. */
  marker: string;
  /** In the words of this program, or escaped. */
  title: string;
  parts: readonly MarkdownPart[];
}

interface MarkdownPart {
  heading?: string;
  /** Escaped. */
  text?: string;
  table?: { head: readonly string[]; rows: readonly (readonly string[])[]; noun: string };
}

/** What does not fit is left out from the end of each table, which then says how much. */
export function markdownDocument({ marker, title, parts }: MarkdownReport): string {
  const begin = `<!-- ${marker} -->\n### ${title}\n`;
  const tables = parts.filter(({ table }) => table !== undefined).length;
  const fixed = parts.map(({ heading, text, table }) => {
    const lines = [
      ...(heading === undefined ? [] : [`#### ${heading}`, '']),
      ...(text === undefined ? [] : [text]),
    ];
    return { lines, table };
  });
  const used = Buffer.byteLength(begin + fixed.flatMap(({ lines }) => lines).join('\n')) + 400 * parts.length;
  // Each table has its share, and what those before it left.
  let room = mostBytes - used;
  let left = tables;
  const blocks = fixed.map(({ lines, table }) => {
    if (table === undefined) return lines;
    const rows = tableLines(table, Math.floor(room / left));
    room -= Buffer.byteLength(rows.join('\n'));
    left--;
    return [...lines, ...(lines.at(-1) ? [''] : []), ...rows];
  });
  return [begin, ...blocks.map((lines) => `${lines.join('\n')}\n`)].join('\n');
}

function tableLines({ head, rows, noun }: NonNullable<MarkdownPart['table']>, bytes: number): string[] {
  const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  const lines = [row(head), `|${' --- |'.repeat(head.length)}`];
  let room = bytes;
  for (const [index, cells] of rows.entries()) {
    const line = row(cells);
    room -= Buffer.byteLength(line) + 1;
    if (room < 0)
      return [...lines, '', `... and ${rows.length - index} more ${noun}, for which there is no room here.`];
    lines.push(line);
  }
  return lines;
}

/** The findings of a check, errors first. */
export function checkMarkdown(findings: readonly ReportedFinding[], summary: readonly string[]): string {
  const numbers = (['error', 'warning'] as const).flatMap((severity) => {
    const number = findings.filter((one) => one.severity === severity).length;
    return number === 0 ? [] : [`${number} ${severity}${number === 1 ? '' : 's'}`];
  });
  const rows = findings
    .toSorted((a, b) => a.severity.localeCompare(b.severity))
    .map(({ severity, code, file, line, column, message, hint }) => {
      const place = line === undefined ? file : `${file}:${line}:${column ?? 1}`;
      const words = [message, ...(hint === undefined ? [] : [`hint: ${hint}`])].map(markdownText);
      return [severity, markdownCode(place), markdownCode(code), words.join('<br>')];
    });
  const head = ['', 'where', 'kind', 'what'];
  return markdownDocument({
    marker: 'weir check',
    title: `Rate limits: ${numbers.length === 0 ? 'no mistakes' : numbers.join(', ')}`,
    parts: [
      ...(rows.length === 0 ? [] : [{ table: { head, rows, noun: 'of them' } }]),
      { text: summary.map((one) => markdownText(one)).join('<br>') },
    ],
  });
}
