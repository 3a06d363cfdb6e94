import type { YamlCursor } from './cursor.ts';

const TAB = 9;
const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;
const SPACE = 32;

/** The style, then chomping and indentation in either order, then the end of the line or a comment. */
const header = /([|>])(?:([-+])([1-9])?|([1-9])([-+])?)?(?:[ \t]*|[ \t]+#[^\n]*)\r?(?:\n|$)/y;

/**
 * Reads the scalar whose `|` or `>` is at the cursor, in a map or list that begins at column `parent` (-1 for none). Leaves the
 * cursor at the content behind it.
 */
export function readBlockScalar(cursor: YamlCursor, parent: number): { end: number; text: string } {
  header.lastIndex = cursor.pos;
  const match = header.exec(cursor.text);
  if (match === null) return rejectHeader(cursor);
  const [, style, before, width, widthFirst, after] = match;
  const digit = Number(width ?? widthFirst ?? 0);
  const lines = new BlockLines(cursor, { parent, indent: digit === 0 ? -1 : parent + digit });
  lines.read(header.lastIndex, style === '>');
  cursor.startLine(lines.end);
  if (cursor.column >= 0 && cursor.atLineEnd()) cursor.toContent();
  return { end: lines.end, text: lines.chomped(before ?? after) };
}

function rejectHeader(cursor: YamlCursor): never {
  const indicators = /^[-+1-9]*/.exec(cursor.text.slice(cursor.pos + 1, cursor.pos + 3))?.[0] ?? '';
  cursor.pos += 1 + indicators.length;
  if (cursor.text[cursor.pos] === '0') cursor.fail('found an indentation indicator equal to 0');
  cursor.fail('did not find expected comment or line break');
}

class BlockLines {
  readonly #cursor: YamlCursor;
  readonly #parent: number;
  /** The indentation. -1 until the first line that is not empty has shown it. */
  #indent: number;
  #text = '';
  #hasContent = false;
  /** True if the last line of content ended in a line break. */
  #isEnded = false;
  /** The number of empty lines since. */
  #breaks = 0;
  end = 0;

  constructor(cursor: YamlCursor, { parent, indent }: { parent: number; indent: number }) {
    this.#cursor = cursor;
    this.#parent = parent;
    this.#indent = indent;
  }

  read(start: number, isFolded: boolean): void {
    const { text, end } = this.#cursor;
    let wasIndented = false;
    for (let at = this.#skipEmptyLines(start); at >= 0; at = this.#skipEmptyLines(this.end)) {
      const isIndented = text.charCodeAt(at) === SPACE || text.charCodeAt(at) === TAB;
      const isJoined = isFolded && !wasIndented && !isIndented;
      if (this.#hasContent && (!isJoined || this.#breaks === 0)) this.#text += isJoined ? ' ' : '\n';
      this.#text += '\n'.repeat(this.#breaks);
      this.#breaks = 0;
      wasIndented = isIndented;
      const lineFeed = text.indexOf('\n', at);
      const lineEnd = lineFeed < 0 ? end : lineFeed;
      const isWindows = text.charCodeAt(lineEnd - 1) === CARRIAGE_RETURN;
      this.#text += text.slice(at, isWindows ? lineEnd - 1 : lineEnd);
      this.#hasContent = true;
      this.#isEnded = lineFeed >= 0;
      this.end = lineFeed < 0 ? end : lineFeed + 1;
    }
  }

  chomped(chomping: string | undefined): string {
    if (chomping === '-') return this.#text;
    const text = this.#isEnded ? `${this.#text}\n` : this.#text;
    return chomping === '+' ? text + '\n'.repeat(this.#breaks) : text;
  }

  /** Returns the offset behind the indentation of the next line of content, or -1 if the scalar ends at `end`. */
  #skipEmptyLines(start: number): number {
    const cursor = this.#cursor;
    const { text } = cursor;
    let deepest = 0;
    this.end = start;
    for (;;) {
      let at = this.end;
      const limit = this.#indent < 0 ? cursor.end : at + this.#indent;
      while (at < limit && text.charCodeAt(at) === SPACE) at++;
      if (at >= cursor.end) return -1;
      const column = at - this.end;
      const char = text.charCodeAt(at);
      if (char !== LINE_FEED && (char !== CARRIAGE_RETURN || text.charCodeAt(at + 1) !== LINE_FEED)) {
        return this.#atContent(at, column, deepest);
      }
      deepest = Math.max(deepest, column);
      this.#breaks++;
      this.end = text.indexOf('\n', at) + 1;
    }
  }

  #atContent(at: number, column: number, deepest: number): number {
    const cursor = this.#cursor;
    if (column === 0 && cursor.isDocumentMarker(at)) return -1;
    if (this.#indent < 0) {
      if (cursor.text.charCodeAt(at) === TAB && column <= this.#parent) {
        cursor.fail('found a tab character that violates indentation', at);
      }
      if (column <= this.#parent) return -1;
      if (deepest > column) cursor.fail('did not find expected key', at);
      this.#indent = column;
    }
    return column < this.#indent ? -1 : at;
  }
}
