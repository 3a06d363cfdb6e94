/** Measures the key, scalar or bracket at a place of a YAML line, as far as the line alone shows, so that a caret can mark it. */
import type { LineIndex, TextPlace } from '../../rules/yaml/places.ts';

/** Chosen: longer carets do not help, and one line of JSON may have megabytes. */
const farthest = 200;

/** Returns the number of characters of the key, scalar or bracket at a column (from 1), at least 1. */
export function wordLength(line: string, column: number): number {
  const at = column - 1;
  const rest = line.slice(at, at + 10 * farthest);
  // Tabs are marked if they are the mistake.
  const blank = /^\s+/.exec(rest)?.[0];
  if (blank !== undefined) return blank.length;
  const quoted = /^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')/.exec(rest)?.[0];
  if (quoted !== undefined) return quoted.length;
  if (/^[[{]/.test(rest)) return bracketLength(rest.slice(0, farthest));
  const isFlow = openBrackets(line.slice(Math.max(0, at - farthest), at)) > 0;
  const end = (isFlow ? /[,[\]{}]|:(?=[\s,[\]{}]|$)|\s#/ : /:(?=\s|$)|\s#/).exec(rest)?.index ?? rest.length;
  return Math.max(1, rest.slice(0, end).trimEnd().length);
}

/** Returns the length up to the bracket that closes the first one, or of the whole rest of the line. */
function bracketLength(text: string): number {
  for (let end = 1; end <= text.length; end++)
    if (/[\]}]/.test(text[end - 1]!) && openBrackets(text.slice(0, end)) === 0) return end;
  return Math.max(1, text.replace(/\s+#.*$/, '').trimEnd().length);
}

/** Counts the brackets of a line that are still open at its end, without those in quotes. */
function openBrackets(text: string): number {
  const plain = text.replace(/"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'/g, '');
  return Math.max(0, (plain.match(/[[{]/g)?.length ?? 0) - (plain.match(/[\]}]/g)?.length ?? 0));
}

/** Returns the text that `wordLength` measures. */
export function wordAt(lines: LineIndex, line: number, column: number): string {
  const text = lines.lineText(line) ?? '';
  return text.slice(column - 1, column - 1 + wordLength(text, column));
}

/** Chosen: a key that is farther above its value is not searched for. */
const farthestLines = 1_000;

/** Returns the place of the key with this name before a value, or the place of the value if there is no key. */
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

/** Returns the key of the block mapping that begins at a place. In a list or in brackets, returns the place itself. */
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
