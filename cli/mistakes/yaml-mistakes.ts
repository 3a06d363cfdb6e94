/** Guesses the mistake in text that is not valid YAML from the lines around the error, which the parser does not examine. */

import { fieldName, fields } from '../../rules/language/tables.ts';
import type { LineIndex, TextPlace } from '../../rules/yaml/places.ts';

export interface YamlMistake extends TextPlace {
  text: string;
  hint: string;
  /** The number of characters to mark. */
  length?: number;
}

/** A template that helm or another program should have filled in; the mistake is at the first one of the file. */
const template = /\{\{-?\s*(?:\.|-|\/\*|[a-z]+[\s.])/;

export const chartHint = 'check the rendered chart: helm template <chart> | weir check -';

/** Chosen: a template or an open bracket farther away is not searched for. */
const farthestLines = 2_000;

/** Chosen: the number of characters of a line that a hint repeats, or examines before the place. */
const shownText = 200;

/** `text`: the message of the parser, in libyaml's words. */
export function yamlMistake(text: string, lines: LineIndex, place: TextPlace): YamlMistake {
  const words = text.replace(/^(?:error loading config file: )?yaml: (?:line \d+: )?/, '');
  const found =
    templateMistake(lines, { from: 1, to: place.line + 1 }) ??
    conflictMistake(lines, place) ??
    tabMistake(lines, place) ??
    spaceMistake(lines, place) ??
    characterMistake(words, lines, place) ??
    mappingMistake(words, lines, place) ??
    dashMistake(words, lines, place) ??
    bracketMistake(words, lines, place);
  if (found !== undefined) return found;
  return {
    ...place,
    text: words,
    hint: hintsByWords.find(([known]) => known.test(words))?.[1] ?? defaultHint,
  };
}

const defaultHint = 'check the indentation, the quotes and the colons of this line and of the one above';

const hintsByWords: readonly (readonly [RegExp, string])[] = [
  [/could not find expected ':'/, 'write "name: value", with a colon and a space'],
  [
    /unexpected end of stream/,
    'the quote that begins here is not closed: write the closing quote at the end of the text',
  ],
  [/duplicated mapping key/, 'remove one of the two'],
  [/expected key/, 'all fields of a mapping begin in the same column: indent this line like its neighbors'],
  [/escape/, 'in double quotes \\ begins an escape: write \\\\, or use single quotes'],
  [/control characters|UTF-8|octet/, 'save the file as UTF-8'],
  [/map merge requires/, '<< takes the alias of a mapping, or a list of such aliases: "<<: *name"'],
  [/aliases make the document|excessive aliasing/, 'write out what the aliases repeat, or split the file'],
  [/contains itself/, 'an alias cannot be inside the value of its anchor: use it after that value'],
  [/exceeded max depth/, 'a document cannot nest deeper: check the indentation of this line'],
  [/separated by a line/, 'write --- on a line of its own between two objects'],
];

/** Returns the first template within these lines. */
export function templateMistake(
  lines: LineIndex,
  { from, to }: { from: number; to: number },
): YamlMistake | undefined {
  for (let line = Math.max(from, to - farthestLines); line <= to; line++) {
    const at = lines.lineText(line)?.search(template) ?? -1;
    if (at === -1) continue;
    return { line, column: at + 1, text: 'this is a template that is not rendered', hint: chartHint };
  }
  return undefined;
}

/** Finds conflict markers that git left after a merge. */
function conflictMistake(lines: LineIndex, { line }: TextPlace): YamlMistake | undefined {
  const isMarker = (near: number): boolean => /^(?:<{7}|={7}|>{7})(?: |$)/.test(lines.lineText(near) ?? '');
  const marked = [line, line - 1, line + 1].find(isMarker);
  if (marked === undefined) return undefined;
  return {
    line: marked,
    column: 1,
    text: 'a merge conflict is not resolved',
    hint: 'keep one of the two sides, and remove the lines <<<<<<<, ======= and >>>>>>>',
  };
}

function tabMistake(lines: LineIndex, { line }: TextPlace): YamlMistake | undefined {
  const at = /^\s*/.exec(lines.lineText(line) ?? '')![0].indexOf('\t');
  if (at === -1) return undefined;
  return {
    line,
    column: at + 1,
    text: 'a tab indents the line',
    hint: 'YAML allows only spaces for indentation: replace the tabs by spaces',
  };
}

/** Finds `key:plan` and `-key: plan` on this line or the one above, which YAML reads as a text that continues. */
function spaceMistake(lines: LineIndex, place: TextPlace): YamlMistake | undefined {
  for (const line of [place.line, lineAbove(lines, place.line)]) {
    const written = lines.lineText(line) ?? '';
    const [, before, dash, name, value] = /^(\s*(?:-\s+)?)(-?)([A-Za-z_]+):(\S*)/.exec(written) ?? [];
    if (name === undefined || !isField(name)) continue;
    const column = before!.length + 1;
    if (dash === '-')
      return { line, column, text: 'a space is missing after the dash', hint: `write "- ${name}:"` };
    if (value !== '')
      return { line, column, text: 'a space is missing after the colon', hint: `write "${name}: ${value}"` };
  }
  return undefined;
}

const knownNames = new Set([...fields.keys()].flatMap((name) => [name, fieldName(name)]));

function isField(name: string): boolean {
  return knownNames.has(name);
}

/** Finds characters that cannot begin a text. */
function characterMistake(
  words: string,
  lines: LineIndex,
  { line, column }: TextPlace,
): YamlMistake | undefined {
  const written = lines.lineText(line) ?? '';
  const isAlias = /expected alphabetic or numeric|unknown anchor/.test(words);
  if (!isAlias && !/cannot start any token|expected node content|expected URI|expected tag/.test(words))
    return undefined;
  const at = isAlias
    ? Math.max(written.lastIndexOf('*', column - 1), written.lastIndexOf('&', column - 1))
    : column - 1;
  const char = written[at];
  if (char === undefined) return undefined;
  const value = written
    .slice(at, at + shownText)
    .replace(/\s+#.*$/, '')
    .trimEnd();
  const before = written.slice(Math.max(0, at - shownText), at);
  const bare = /[{[]/.test(before) ? (/^[^,}\]]+/.exec(value)?.[0] ?? value) : value;
  const name = /([A-Za-z_]+):\s*$/.exec(before)?.[1];
  const meaning =
    char === '*'
      ? ' begins an alias in YAML'
      : char === '&'
        ? ' begins an anchor in YAML'
        : ' cannot begin a text in YAML';
  const quoted = JSON.stringify(bare.trimEnd());
  return {
    line,
    column: at + 1,
    text: `${char}${meaning}`,
    hint: `put it into quotes: ${name === undefined ? '' : `${name}: `}${quoted}`,
  };
}

/** Finds a second colon on a line, or a line that is indented more than its parent allows. */
function mappingMistake(
  words: string,
  lines: LineIndex,
  { line, column }: TextPlace,
): YamlMistake | undefined {
  if (!/mapping values are not allowed/.test(words)) return undefined;
  const written = lines.lineText(line) ?? '';
  const [, before, name, value] =
    /^(\s*(?:- +)?([A-Za-z_]+): +)(.*)$/.exec(written.slice(0, shownText)) ?? [];
  if (before !== undefined && before.length < column) {
    const bare = value!.replace(/\s+#.*$/, '').trimEnd();
    return {
      line,
      column: before.length + 1,
      length: bare.length,
      text: 'a text with a colon and a space in it',
      hint: `put it into quotes: ${name}: ${JSON.stringify(bare)}`,
    };
  }
  return {
    line,
    column: indentOf(written) + 1,
    text: 'the line is indented deeper than the complete line above it',
    hint: 'all fields of a mapping begin in the same column: indent this line like its neighbors',
  };
}

function dashMistake(words: string, lines: LineIndex, place: TextPlace): YamlMistake | undefined {
  if (!/expected '-' indicator/.test(words)) return undefined;
  const name = /^\s*([A-Za-z_]+)/.exec(lines.lineText(place.line) ?? '')?.[1];
  if (name === 'key')
    return { ...place, text: 'a rule without its dash', hint: 'each rule begins with a dash: "- key:"' };
  return {
    ...place,
    text: `${name === undefined ? 'the line' : `'${name}'`} is in the column of the list's dashes, but has no dash`,
    hint: 'indent it like the first field of its rule, after the dash',
  };
}

/** Finds the bracket that is not closed. */
function bracketMistake(words: string, lines: LineIndex, place: TextPlace): YamlMistake | undefined {
  const close = /did not find expected ',' or '([}\]])'/.exec(words)?.[1];
  if (close === undefined) return undefined;
  const open = close === '}' ? '{' : '[';
  const hint = `write ${close} at its end, or the missing comma`;
  for (let line = place.line; line >= Math.max(1, place.line - 20); line--) {
    const written = lines.lineText(line) ?? '';
    const until = line === place.line ? place.column - 1 : written.length;
    let depth = 0;
    for (let at = Math.min(until, 10_000) - 1; at >= 0; at--) {
      if (written[at] === close) depth++;
      else if (written[at] === open && --depth < 0)
        return { line, column: at + 1, text: `${open} is not closed, or has a missing comma`, hint };
    }
  }
  return { ...place, text: `${open} is not closed, or has a missing comma`, hint };
}

function indentOf(line: string): number {
  return /^\s*/.exec(line)![0].length;
}

/** Returns the nearest line above that is not empty and not only a comment. */
function lineAbove(lines: LineIndex, line: number): number {
  let above = line - 1;
  while (above > 1 && /^\s*(?:#|$)/.test(lines.lineText(above) ?? '')) above--;
  return above;
}
