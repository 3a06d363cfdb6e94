import { readEscape, YamlSyntaxError } from './text.ts';

/**
 * Walks over YAML text line by line and reads its scalars. Line breaks are LF and CR LF. Throws `YamlSyntaxError`.
 *
 * Long because every method moves the same position in the same text, at a few nanoseconds a character: parts would hand
 * that position to and fro.
 */

/** A plain scalar of a block: its first line, where what it stands in begins, and what must follow it. */
interface PlainLines {
  start: number;
  firstEnd: number;
  column: number;
  expected: string;
}

const TAB = 9;
const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;
const SPACE = 32;
const DOUBLE_QUOTE = 34;
const HASH = 35;
const AMPERSAND = 38;
const SINGLE_QUOTE = 39;
const ASTERISK = 42;
const EXCLAMATION = 33;
const MINUS = 45;
const DOT = 46;
const COLON = 58;
const QUESTION = 63;
const BACKSLASH = 92;

export const noToken = 'found character that cannot start any token';

/** 1 for ASCII characters that never begin a plain scalar: indicators and blanks. */
const startsOther = new Uint8Array(128);
for (const char of ' \t\r\n#&*!|>\'"%@`,[]{}') startsOther[char.charCodeAt(0)] = 1;

/** A tag: `!<uri>`, or `!`, `!!` or `!handle!` with a name, or the first of these alone. */
const tagForm = /!(?:<[\w%#;/?:@&=+$,.!~*'()[\]-]+>|(?:[\w-]*!)?(?:%[\da-fA-F]{2}|[\w#;/?:@&=+$.~*'()-])+|)/y;

export class YamlCursor {
  readonly text: string;
  readonly end: number;
  pos = 0;
  /** The column of the content at `pos` if a line has just begun. -1 at the end of the document. */
  column = 0;
  lineStart = 0;
  /** The first tab before the content of this line or behind an indicator on it; -1 for none. */
  tabAt = -1;
  /** The decoded text of the quoted scalar just read, when it is not simply a slice. */
  decoded: string | undefined;

  constructor(text: string) {
    this.text = text;
    this.end = text.length;
  }

  fail(text: string, offset = this.pos): never {
    throw new YamlSyntaxError({ text, offset });
  }

  failWithoutLine(text: string, offset: number): never {
    throw new YamlSyntaxError({ text, offset, hasLine: false });
  }

  /** Throws because something other than a comma or the end follows, in brackets that opened at `opened`. */
  rejectOpenBracket(opened: number, offset: number): never {
    const closing = this.text[opened] === '{' ? '}' : ']';
    this.fail(`did not find expected ',' or '${closing}'`, offset);
  }

  /** The character at `pos`; NaN at the end. */
  peek(): number {
    return this.text.charCodeAt(this.pos);
  }

  skipBlanks(): void {
    const { text } = this;
    let char = text.charCodeAt(this.pos);
    while (char === SPACE || char === TAB) {
      if (char === TAB && this.tabAt < 0) this.tabAt = this.pos;
      char = text.charCodeAt(++this.pos);
    }
  }

  /** Throws if a list or map begins or continues on a line that has a tab before its content. */
  rejectTab(): void {
    if (this.tabAt >= 0) this.fail('found a tab character that violates indentation', this.tabAt);
  }

  /** Returns whether nothing but a comment is left of this line. `pos` must be behind a space or at a line's start. */
  atLineEnd(): boolean {
    const char = this.text.charCodeAt(this.pos);
    return char === LINE_FEED || char === CARRIAGE_RETURN || char === HASH || this.pos >= this.end;
  }

  /** Returns whether a space, a tab or the end of the line is at `offset`. */
  isBlank(offset: number): boolean {
    const char = this.text.charCodeAt(offset);
    if (char === SPACE || char === LINE_FEED || char === CARRIAGE_RETURN || char === TAB) return true;
    return offset >= this.end;
  }

  /** Returns whether `pos` is at an indicator (`-`, `?`, `:`), which a blank follows. */
  atIndicator(indicator: number): boolean {
    return this.text.charCodeAt(this.pos) === indicator && this.isBlank(this.pos + 1);
  }

  /** Ends the line, which must have no more content, and goes to the next content. */
  endLine(expected: string): void {
    this.skipBlanks();
    if (!this.atLineEnd() || (this.peek() === HASH && !this.isCommentHere())) this.rejectContent(expected);
    this.toContent();
  }

  /** Throws because there is content instead of what was expected. */
  rejectContent(expected: string): never {
    const char = this.peek();
    if (char === 37 || char === 64 || char === 96) this.fail(noToken); // % @ `
    this.fail(this.atIndicator(COLON) ? 'mapping values are not allowed in this context' : expected);
  }

  /** Returns whether a `#` at `pos` has the space before it that makes it a comment. */
  isCommentHere(): boolean {
    return this.pos === this.lineStart || isSpaceOrTab(this.text.charCodeAt(this.pos - 1));
  }

  /** Goes from the rest of a line, a comment or nothing, to the next line with content. */
  toContent(): void {
    const { end } = this;
    for (;;) {
      if (this.peek() === HASH) this.pos = this.#lineFeedFrom(this.pos);
      if (this.peek() === CARRIAGE_RETURN) this.pos++;
      if (this.pos >= end) {
        this.column = -1;
        return;
      }
      this.startLine(this.pos + 1);
      if (this.column < 0 || !this.atLineEnd()) return;
    }
  }

  /** Reads the indentation of the line at `offset`. */
  startLine(offset: number): void {
    this.lineStart = offset;
    this.pos = offset;
    while (this.peek() === SPACE) this.pos++;
    const char = this.peek();
    this.column = this.pos - offset;
    this.tabAt = -1;
    if (char === TAB) this.skipBlanks();
    if (this.column === 0 && (char === MINUS || char === DOT) && this.isDocumentMarker(offset))
      this.column = -1;
  }

  /** Returns whether `---` or `...` is at `offset`, alone or with a blank behind it. */
  isDocumentMarker(offset: number): boolean {
    const { text } = this;
    if (!text.startsWith('---', offset) && !text.startsWith('...', offset)) return false;
    return this.isBlank(offset + 3);
  }

  /** Returns whether a plain scalar starts at `pos`. */
  atPlain(isFlow = false): boolean {
    const char = this.peek();
    if (char < 128 ? startsOther[char] === 1 : Number.isNaN(char)) return false;
    if (char !== MINUS && char !== QUESTION && char !== COLON) return true;
    return !this.isBlank(this.pos + 1) && !(isFlow && isBracketOrComma(this.text.charCodeAt(this.pos + 1)));
  }

  /** Reads a line of a plain scalar, which brackets and commas end inside brackets; returns where it ends. Stops before `: `. */
  readPlain(isFlow = false): number {
    const { text, end } = this;
    let pos = this.pos + 1;
    let last = pos;
    for (; pos < end; pos++) {
      const char = text.charCodeAt(pos);
      if (char === SPACE || char === TAB) continue;
      if (char === LINE_FEED || char === CARRIAGE_RETURN) break;
      if (char === HASH && last !== pos) break;
      if (char === COLON && this.isBlank(pos + 1)) break;
      if (isFlow && this.#endsFlowPlain(pos)) break;
      last = pos + 1;
    }
    this.pos = last;
    return last;
  }

  /** Returns whether a colon ends a plain scalar. Inside brackets it needs no blank behind it if a bracket or a comma follows. */
  #endsFlowPlain(offset: number): boolean {
    const char = this.text.charCodeAt(offset);
    return isBracketOrComma(char) || (char === COLON && isBracketOrComma(this.text.charCodeAt(offset + 1)));
  }

  /**
   * Continues a plain scalar of a block, on lines that are indented more than `column`. The cursor is at the first of these
   * lines. Leaves it at the content behind the scalar.
   */
  readPlainLines({ start, firstEnd, column, expected }: PlainLines): { end: number; text: string } {
    let end = firstEnd;
    let folded = this.text.slice(start, end);
    while (this.column > column) {
      const gap = this.text.slice(end, this.lineStart);
      if (gap.includes('#')) break;
      if (this.atIndicator(COLON)) break;
      const from = this.pos;
      end = this.readPlain();
      folded += foldedBreaks(lineFeedsIn(gap)) + this.text.slice(from, end);
      this.endPlain(expected);
    }
    return { end, text: folded };
  }

  /** Ends the line of a plain scalar that is not a key. */
  endPlain(expected: string): void {
    this.skipBlanks();
    if (this.peek() === COLON) this.fail('mapping values are not allowed in this context');
    this.endLine(expected);
  }

  /** Continues a plain scalar inside brackets from the end of its first line. Undefined if it has no other line. */
  readFlowPlainLines(start: number, firstEnd: number): { end: number; text: string } | undefined {
    let end = firstEnd;
    let folded: string | undefined;
    for (;;) {
      this.skipBlanks();
      const breaks = this.#skipBlankLines();
      if (breaks === 0 || this.column < 0 || !this.#continuesFlowPlain()) break;
      const from = this.pos;
      folded ??= this.text.slice(start, end);
      end = this.readPlain(true);
      folded += foldedBreaks(breaks) + this.text.slice(from, end);
    }
    return folded === undefined ? undefined : { end, text: folded };
  }

  /** Goes from the end of a line to the next line that is not empty; returns the number of line breaks between. */
  #skipBlankLines(): number {
    let breaks = 0;
    for (;;) {
      if (this.peek() === CARRIAGE_RETURN) this.pos++;
      if (this.peek() !== LINE_FEED) return breaks;
      breaks++;
      this.startLine(this.pos + 1);
      if (this.column < 0) return breaks;
    }
  }

  /**
   * Returns whether a plain scalar continues, which it does with any character except these. In its middle, `- ` and `? ` have no
   * meaning.
   */
  #continuesFlowPlain(): boolean {
    const isOver = this.peek() === HASH || this.atIndicator(COLON) || this.pos >= this.end;
    return !isOver && !this.#endsFlowPlain(this.pos);
  }

  /** Returns whether the characters at `pos` are surely a key and its `:`. Cheap, and no for unusual keys. */
  #atSimpleKey(): boolean {
    const { text } = this;
    let pos = this.pos;
    let char = text.charCodeAt(pos);
    while ((char >= 97 && char <= 122) || char === 95) char = text.charCodeAt(++pos);
    return char === COLON && pos > this.pos && this.isBlank(pos + 1);
  }

  /** Returns whether an entry of a block map begins at `pos`; no where its key is in brackets. Does not move. */
  atEntry(): boolean {
    if (this.#atSimpleKey() || this.atIndicator(QUESTION)) return true;
    const { pos, lineStart, tabAt } = this;
    for (let char = this.peek(); char === AMPERSAND || char === EXCLAMATION; char = this.peek()) {
      while (!this.isBlank(this.pos)) this.pos++;
      this.skipBlanks();
    }
    const char = this.peek();
    if (char === DOUBLE_QUOTE || char === SINGLE_QUOTE) this.readQuoted(char);
    else if (char === ASTERISK) this.readAnchorName();
    else if (this.atPlain()) this.readPlain();
    const isOneLine = this.lineStart === lineStart;
    this.skipBlanks();
    const isKey = isOneLine && this.atIndicator(COLON);
    this.pos = pos;
    this.lineStart = lineStart;
    this.tabAt = tabAt;
    return isKey;
  }

  /** Reads a quoted scalar. Leaves `pos` behind it and its text, if that is not a slice, in `decoded`. */
  readQuoted(quote: number): void {
    const { text, end } = this;
    const start = this.pos + 1;
    let decoded = '';
    let from = start;
    for (let pos = start; pos < end; pos++) {
      const char = text.charCodeAt(pos);
      if (char === LINE_FEED || char === CARRIAGE_RETURN) {
        decoded += text.slice(from, this.#blanksBefore(pos, from));
        const next = this.#afterBlankLines(pos);
        decoded += foldedBreaks(next.breaks);
        from = next.offset;
        pos = from - 1;
      } else if (char === BACKSLASH && quote === DOUBLE_QUOTE) {
        const escaped = this.#readEscape(pos);
        decoded += text.slice(from, pos) + escaped.text;
        from = escaped.end;
        pos = from - 1;
      } else if (char === quote) {
        if (quote === DOUBLE_QUOTE || text.charCodeAt(pos + 1) !== SINGLE_QUOTE) {
          this.pos = pos + 1;
          this.decoded = from === start ? undefined : decoded + text.slice(from, pos);
          return;
        }
        decoded += `${text.slice(from, pos)}'`;
        pos++;
        from = pos + 1;
      }
    }
    throw new YamlSyntaxError({ text: 'found unexpected end of stream', offset: start - 1, noticedAt: end });
  }

  /** Reads a tag as written. Leaves `pos` behind it. */
  readTag(isFlow: boolean, handles: ReadonlySet<string>): string {
    tagForm.lastIndex = this.pos;
    const tag = tagForm.exec(this.text)?.[0] ?? '';
    const handle = /^![\w-]*!/.exec(tag)?.[0];
    if (handle !== undefined && !handles.has(handle)) this.fail('found undefined tag handle');
    this.pos += tag.length;
    if (this.isBlank(this.pos) || (isFlow && isBracketOrComma(this.peek()))) return tag;
    return this.fail('did not find expected whitespace or line break');
  }

  /** Reads the name behind `&` or `*`. */
  readAnchorName(): string {
    const start = ++this.pos;
    while (!this.isBlank(this.pos) && !isBracketOrComma(this.peek())) this.pos++;
    if (this.pos === start) this.fail('did not find expected alphabetic or numeric character');
    return this.text.slice(start, this.pos);
  }

  /** The escape whose backslash is at `offset`. An escaped line break leaves nothing but the empty lines behind it. */
  #readEscape(offset: number): { text: string; end: number } {
    const { text } = this;
    const char = text.charCodeAt(offset + 1);
    if (char === LINE_FEED || char === CARRIAGE_RETURN) {
      const next = this.#afterBlankLines(offset + 1);
      return { text: '\n'.repeat(next.breaks - 1), end: next.offset };
    }
    return readEscape(text, offset);
  }

  /** Returns the start of the spaces and tabs before `offset`, but not before `from`. */
  #blanksBefore(offset: number, from: number): number {
    let start = offset;
    while (start > from && isSpaceOrTab(this.text.charCodeAt(start - 1))) start--;
    return start;
  }

  /** Skips a line break in quotes with the empty lines and the indentation behind it. */
  #afterBlankLines(offset: number): { offset: number; breaks: number } {
    const { text } = this;
    let breaks = 0;
    let pos = offset;
    for (;;) {
      const char = text.charCodeAt(pos);
      if (char === LINE_FEED) {
        breaks++;
        this.pos = pos + 1;
        this.lineStart = this.pos;
        const first = text.charCodeAt(this.pos);
        if ((first === MINUS || first === DOT) && this.isDocumentMarker(this.pos)) {
          this.fail('found unexpected document indicator');
        }
      } else if (char !== CARRIAGE_RETURN && !isSpaceOrTab(char)) {
        return { offset: pos, breaks };
      }
      pos++;
    }
  }

  #lineFeedFrom(offset: number): number {
    const at = this.text.indexOf('\n', offset);
    return at < 0 ? this.end : at;
  }
}

/** Returns the text that a number of line breaks inside a scalar stands for. */
function foldedBreaks(breaks: number): string {
  return breaks > 1 ? '\n'.repeat(breaks - 1) : ' ';
}

function lineFeedsIn(text: string): number {
  let count = 0;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count++;
  return count;
}

/** Returns whether the character is `,`, `[`, `]`, `{` or `}`. */
function isBracketOrComma(char: number): boolean {
  return char === 0x2c || char === 0x5b || char === 0x5d || char === 0x7b || char === 0x7d;
}

function isSpaceOrTab(char: number): boolean {
  return char === SPACE || char === TAB;
}
