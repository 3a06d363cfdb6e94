/**
 * Markdown for a comment on a pull request, as GitHub and GitLab read it (GFM). Foreign texts are code, or every character with a
 * meaning is escaped, so that they open no table cell, tag, link or mention.
 */
import { count, escaped, placeText } from '../shared/text.ts';
import type { ReportedFinding } from './report.ts';

/** GitHub accepts comments of 65,536 characters, which are never more than their bytes. */
const maxBytes = 65_000;
/** Chosen: the length of one text in a table, in characters. */
const longest = 400;

/** Shortens a text that is too long for a table. */
function clipped(text: string): string {
  const line = escaped(text.toWellFormed()).replace(/[\ufffe\uffff]/g, '\ufffd');
  if (line.length <= longest) return line;
  return `${line.slice(0, longest).replace(/[\ud800-\udbff]$/, '')}...`;
}

function entity(character: string): string {
  return `&#${character.codePointAt(0)};`;
}

/** Returns a foreign name or value as code. Neither GitHub nor GitLab looks for references in it. */
export function markdownCode(text: string): string {
  const line = clipped(text);
  if (line === '') return '`""`';
  if (!/[`|\\]/.test(line)) return `\`${line}\``;
  // In a table, a backslash before a bar has no effect inside a code span, so the characters are entities.
  return `<code>${line.replace(/[^A-Za-z0-9 ]/gu, entity).replaceAll('&#64;', '&#64;&#8203;')}</code>`;
}

/** Characters with a meaning in Markdown, and those that begin a reference in GitLab before a name or number. */
const meaning =
  /[&<>`*[\]\\|~$]|[!%^](?=["\w])|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|(?<!\d):(?=\S)|:(?=[^\s\d])|(?<=www)\./gi;
/** After decoding entities, GitHub and GitLab still look for these: references, emoji, addresses. */
const referring = /[&~$!%^:.]/;

function inert(character: string, at: number, line: string): string {
  const isReference = referring.test(character) && /["\w/]/.test(line[at + 1] ?? '');
  return entity(character) + (isReference ? '&#8203;' : '');
}

/** Returns a sentence that quotes foreign texts. Zero-width spaces keep names and numbers from becoming mentions. */
export function markdownText(text: string): string {
  return clipped(text)
    .replace(meaning, inert)
    .replaceAll('@', '&#64;&#8203;')
    .replace(/(?<!&)#/g, '&#35;&#8203;')
    .replace(/GH-(?=\d)/gi, (prefix) => `${prefix}&#8203;`);
}

export interface MarkdownReport {
  /** Identifies the comment for programs, so that a later one replaces it. */
  marker: string;
  /** The title: own words, or escaped. */
  title: string;
  parts: readonly MarkdownPart[];
}

interface MarkdownPart {
  heading?: string;
  /** Text of the part, escaped. */
  text?: string;
  table?: MarkdownTable;
}

interface MarkdownTable {
  head: readonly string[];
  /** Rows of the table, escaped. */
  rows: readonly (readonly string[])[];
  /** The noun for a row, used to say how many rows were left out. */
  noun: string;
}

/** Writes the document. If it is too long, rows are left out from the end of a table, which then says how many. */
export function markdownDocument({ marker, title, parts }: MarkdownReport): string {
  const begin = `<!-- ${marker} -->\n### ${title}\n`;
  const heads = parts.map(({ heading, text }) => [
    ...(heading === undefined ? [] : [`#### ${heading}`, '']),
    ...(text === undefined ? [] : [text, '']),
  ]);
  // Leaves room for the lines that say how much is left out.
  const spare = 100 * parts.length;
  const room = maxBytes - spare - Buffer.byteLength(begin + heads.flat().join('\n'));
  const tables = parts.map(({ table }) => (table === undefined ? [] : tableLines(table)));
  const rooms = fairShares(
    tables.map((lines) => Buffer.byteLength(lines.join('\n'))),
    room,
  );
  const blocks = parts.map(({ table }, index) => {
    const fitting = fittingLines(tables[index]!, rooms[index]!, table?.noun ?? '');
    return [...heads[index]!, ...fitting].join('\n').trimEnd();
  });
  return `${[begin, ...blocks.map((block) => `${block}\n`)].join('\n')}`;
}

/** Divides the room: each part gets what it needs, or as much as any other part that needs more. */
function fairShares(needs: readonly number[], room: number): number[] {
  const shares = [...needs];
  let left = room;
  const byNeed = [...needs.keys()].sort((a, b) => needs[a]! - needs[b]!);
  for (const [index, one] of byNeed.entries()) {
    shares[one] = Math.min(needs[one]!, Math.floor(left / (needs.length - index)));
    left -= shares[one];
  }
  return shares;
}

function tableLines({ head, rows }: MarkdownTable): string[] {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), `|${' --- |'.repeat(head.length)}`, ...rows.map(line)];
}

function fittingLines(lines: readonly string[], bytes: number, noun: string): readonly string[] {
  let room = bytes + 1;
  const fitting = lines.findIndex((line) => {
    room -= Buffer.byteLength(line) + 1;
    return room < 0;
  });
  if (fitting === -1) return lines;
  const more = `... and ${lines.length - fitting} more ${noun}, which do not fit here.`;
  return [...lines.slice(0, fitting), '', more];
}

/** Lists errors first. */
export function findingsTable(findings: readonly ReportedFinding[]): MarkdownTable {
  const rows = findings
    .toSorted((a, b) => a.severity.localeCompare(b.severity))
    .map(({ severity, code, file, message, hint, ...place }) => {
      const words = [message, ...(hint === undefined ? [] : [`hint: ${hint}`])].map(markdownText);
      return [severity, markdownCode(placeText(file, place)), markdownCode(code), words.join('<br>')];
    });
  return { head: ['', 'where', 'kind', 'what'], rows, noun: 'of them' };
}

/** `errors` and `warnings` also count findings that are not listed. */
export function checkMarkdown(
  findings: readonly ReportedFinding[],
  { errors, warnings }: { errors: number; warnings: number },
  summary: readonly string[],
): string {
  const numbers = Object.entries({ error: errors, warning: warnings }).flatMap(([severity, number]) =>
    number === 0 ? [] : [count(number, severity)],
  );
  return markdownDocument({
    marker: 'weir check',
    title: `Rate limits: ${numbers.length === 0 ? 'no mistakes' : numbers.join(', ')}`,
    parts: [
      ...(findings.length === 0 ? [] : [{ table: findingsTable(findings) }]),
      { text: summary.map((one) => markdownText(one)).join('<br>') },
    ],
  });
}
