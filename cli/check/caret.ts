/** What stands at a place of a line of YAML, as far as one line reports: enough to mark it. */
import type { LineIndex, TextPlace } from '../../rules/yaml/places.ts';

/** Chosen: nobody reads on, and JSON may stand on one line of megabytes. */
const farthest = 200;

/** How many characters a key, a scalar or a bracket at a column (from 1) takes, at least 1. */
export function wordLength(line: string, column: number): number {
  const at = column - 1;
  const rest = line.slice(at, at + 10 * farthest);
  // Tabs, where they are what is wrong.
  const blank = /^\s+/.exec(rest)?.[0];
  if (blank !== undefined) return blank.length;
  const quoted = /^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')/.exec(rest)?.[0];
  if (quoted !== undefined) return quoted.length;
  if (/^[[{]/.test(rest)) return bracketLength(rest.slice(0, farthest));
  const isFlow = openBrackets(line.slice(Math.max(0, at - farthest), at)) > 0;
  const end = (isFlow ? /[,[\]{}]|:(?=[\s,[\]{}]|$)|\s#/ : /:(?=\s|$)|\s#/).exec(rest)?.index ?? rest.length;
  return Math.max(1, rest.slice(0, end).trimEnd().length);
}

/** Up to the bracket that closes the first one; the rest of the line where none does. */
function bracketLength(text: string): number {
  for (let end = 1; end <= text.length; end++)
    if (/[\]}]/.test(text[end - 1]!) && openBrackets(text.slice(0, end)) === 0) return end;
  return Math.max(1, text.replace(/\s+#.*$/, '').trimEnd().length);
}

/** How many brackets of a line are still open at its end, those in quotes aside. */
function openBrackets(text: string): number {
  const plain = text.replace(/"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'/g, '');
  return Math.max(0, (plain.match(/[[{]/g)?.length ?? 0) - (plain.match(/[\]}]/g)?.length ?? 0));
}

/** What `wordLength` measures. */
export function wordAt(lines: LineIndex, line: number, column: number): string {
  const text = lines.lineText(line) ?? '';
  return text.slice(column - 1, column - 1 + wordLength(text, column));
}

/** Chosen: keys that stand farther above what they lead to are not looked for. */
const farthestLines = 1_000;

/** The key by a name before a value, or where the value stands if there is none. */
export function keyPlace(lines: LineIndex, { line, column }: TextPlace, name: string): TextPlace {
  const written = lines.lineText(line) ?? '';
  if (wordAt(lines, line, column).replace(/^["']|["']$/g, '') === name) return { line, column };
  const key = `["']?${name.replace(/[^\w]/g, '\\$&')}["']?\\s*:`;
  const beside = new RegExp(`${key}\\s*$`).exec(
    written.slice(Math.max(0, column - 1 - farthest), column - 1),
  );
  if (beside !== null) return { line, column: Math.max(0, column - 1 - farthest) + beside.index + 1 };
  const above = new RegExp(`^[\\s-]*(?=${key})`);
  for (let at = line - 1; at >= Math.max(1, line - farthestLines); at--) {
    const before = above.exec(lines.lineText(at) ?? '');
    if (before !== null) return { line: at, column: before[0].length + 1 };
  }
  return { line, column };
}

/** The key of the block mapping that begins at a place; where that is an element of a list, or in brackets, the place itself. */
export function parentKeyPlace(lines: LineIndex, { line, column }: TextPlace): TextPlace {
  const written = lines.lineText(line) ?? '';
  if (/\S/.test(written.slice(0, column - 1)) || /^[[{]/.test(written.slice(column - 1)))
    return { line, column };
  for (let at = line - 1; at >= Math.max(1, line - farthestLines); at--) {
    const [, before, key] =
      /^(\s*(?:- +)*)(\S.*)$/.exec((lines.lineText(at) ?? '').slice(0, 10 * farthest)) ?? [];
    if (before === undefined || key!.startsWith('#') || before.length >= column - 1) continue;
    return /^\S.*:\s*(?:#.*)?$/.test(key!) ? { line: at, column: before.length + 1 } : { line, column };
  }
  return { line, column };
}
