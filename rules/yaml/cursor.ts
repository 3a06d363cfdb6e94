import { readEscape } from './escapes.ts';

/**
 * Walks over YAML text line by line and reads the scalars that can be read with certainty.
 * What it is not certain of it refuses by throwing `Uncertain`; the complete parser then decides.
 *
 * Long because every method moves the same position in the same text, at a few nanoseconds a character: parts would hand
 * that position to and fro.
 */

/** Thrown where the fast reader gives up. `problem` says what is wrong when something surely is. */
export class Uncertain extends Error {
  readonly problem: SyntaxProblem | undefined;

  constructor(problem?: SyntaxProblem) {
    super(problem?.text ?? 'not certain');
    this.problem = problem;
  }
}

/** A syntax error in the words of the Go service's YAML library. */
export interface SyntaxProblem {
  text: string;
  offset: number;
  /** False for those that the library reports without a line. */
  hasLine?: boolean;
  /** Where the library noticed it, if that is on another line. */
  noticedAt?: number;
}

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
const EXCLAMATION = 33;
const DOUBLE_QUOTE = 34;
const HASH = 35;
const SINGLE_QUOTE = 39;
const MINUS = 45;
const DOT = 46;
const COLON = 58;
const BACKSLASH = 92;

/** libyaml looks no further for the `:` behind a key. */
const longestKey = 1024;

/** 1 for characters that may start a plain scalar whatever follows. */
const startsPlain = new Uint8Array(128);
for (const char of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./<($^=~+;') {
  startsPlain[char.charCodeAt(0)] = 1;
}

export class YamlCursor {
  readonly text: string;
  readonly end: number;
  pos = 0;
  /** Column of the content at `pos` when a line has just begun; -1 at the end of the document. */
  column = 0;
  lineStart = 0;
  /** The decoded text of the quoted scalar just read, when it is not simply a slice. */
  decoded: string | undefined;

  constructor(text: string) {
    this.text = text;
    this.end = text.length;
  }

  /** Gives up over something that is surely wrong. */
  fail(text: string, offset = this.pos): never {
    throw new Uncertain({ text, offset });
  }

  /** Gives up: valid or not, this is for the complete parser. */
  unsure(): never {
    throw new Uncertain();
  }

  /** The character at `pos`; NaN at the end. */
  peek(): number {
    return this.text.charCodeAt(this.pos);
  }

  skipBlanks(): void {
    while (isSpaceOrTab(this.peek())) this.pos++;
  }

  skipSpaces(): void {
    const { text } = this;
    while (text.charCodeAt(this.pos) === SPACE) this.pos++;
  }

  /** Whether nothing but a comment is left of this line. `pos` must be behind a space or at a line's start. */
  atLineEnd(): boolean {
    const char = this.text.charCodeAt(this.pos);
    return char === LINE_FEED || char === CARRIAGE_RETURN || char === HASH || this.pos >= this.end;
  }

  /** Whether a space or the end of the line is at `offset`. */
  isBlank(offset: number): boolean {
    const char = this.text.charCodeAt(offset);
    return char === SPACE || char === LINE_FEED || char === CARRIAGE_RETURN || offset >= this.end;
  }

  /** Ends the line, which must hold nothing more, and goes to the next content. */
  endLine(expected: string): void {
    this.skipBlanks();
    if (!this.atLineEnd()) this.refuseContent(expected);
    if (this.peek() === HASH && !this.isCommentHere()) this.unsure();
    this.toContent();
  }

  /** Gives up over content where something else was expected, unless that content itself may be wrong. */
  refuseContent(expected: string): never {
    const char = this.peek();
    if (this.atPlain() || char === 0x5b || char === 0x7b) this.fail(expected); // [ {
    this.unsure();
  }

  /** Whether a `#` at `pos` has the space before it that makes it a comment. */
  isCommentHere(): boolean {
    return this.pos === this.lineStart || isSpaceOrTab(this.text.charCodeAt(this.pos - 1));
  }

  /** Goes from the rest of a line, a comment or nothing, to the next line with content. */
  toContent(): void {
    const { text, end } = this;
    for (;;) {
      if (this.peek() === HASH) this.pos = this.#lineFeedFrom(this.pos);
      if (this.peek() === CARRIAGE_RETURN) this.pos++;
      if (this.pos >= end) {
        this.column = -1;
        return;
      }
      if (text.charCodeAt(this.pos) !== LINE_FEED) this.unsure();
      this.startLine(this.pos + 1);
      if (this.column < 0 || !this.atLineEnd()) return;
    }
  }

  /** Reads the indentation of the line at `offset`. */
  startLine(offset: number): void {
    this.lineStart = offset;
    this.pos = offset;
    this.skipSpaces();
    const char = this.peek();
    if (char === TAB) this.unsure();
    this.column = this.pos - offset;
    if (this.column === 0 && (char === MINUS || char === DOT) && this.atDocumentMarker()) this.column = -1;
  }

  /** `---` or `...`, alone or with a space behind it. */
  atDocumentMarker(): boolean {
    const { text, pos } = this;
    const char = text.charCodeAt(pos);
    if (text.charCodeAt(pos + 1) !== char || text.charCodeAt(pos + 2) !== char) return false;
    return this.isBlank(pos + 3) || text.charCodeAt(pos + 3) === TAB;
  }

  /** Whether a plain scalar may start at `pos`. */
  atPlain(): boolean {
    const char = this.peek();
    if (char === MINUS) return startsPlain[this.text.charCodeAt(this.pos + 1)] === 1;
    return char < 128 ? startsPlain[char] === 1 : char > 0xa0;
  }

  /** Reads a plain scalar of a block; returns where it ends. Stops before `: `, which makes it a key. */
  readPlain(): number {
    const { text, end } = this;
    let pos = this.pos + 1;
    let last = pos;
    for (; pos < end; pos++) {
      const char = text.charCodeAt(pos);
      if (char === SPACE || char === TAB) continue;
      if (char === LINE_FEED || char === CARRIAGE_RETURN) break;
      if (char === HASH && last !== pos) break;
      if (char === COLON && this.isBlankOrTab(pos + 1)) break;
      last = pos + 1;
    }
    this.pos = last;
    return last;
  }

  /** Reads a plain scalar inside brackets; returns where it ends. */
  readFlowPlain(): number {
    const { text, end } = this;
    let pos = this.pos + 1;
    let last = pos;
    for (; pos < end; pos++) {
      const char = text.charCodeAt(pos);
      if (char === SPACE || char === TAB) continue;
      if (char === LINE_FEED || char === CARRIAGE_RETURN) break;
      if (char === 0x2c || char === 0x5d || char === 0x7d) break; // , ] }
      if (char === HASH && last !== pos) break;
      if (char === COLON && this.isBlankOrTab(pos + 1)) break;
      if (char === COLON && startsPlain[text.charCodeAt(pos + 1)] !== 1) this.unsure();
      if (char === 0x3f || char === 0x5b || char === 0x7b) this.unsure(); // ? [ {
      last = pos + 1;
    }
    this.pos = last;
    return last;
  }

  /**
   * Reads on in a plain scalar of a block, on lines indented more than `column`; the cursor is at the first of them.
   * Leaves it at the content behind the scalar.
   */
  readPlainLines({ start, firstEnd, column, expected }: PlainLines): { end: number; text: string } {
    let end = firstEnd;
    let folded = this.text.slice(start, end);
    while (this.column > column) {
      const gap = this.text.slice(end, this.lineStart);
      if (gap.includes('#')) break;
      if (this.peek() === COLON && this.isBlankOrTab(this.pos + 1)) this.unsure();
      const from = this.pos;
      end = this.readPlain();
      folded += foldedBreaks(lineFeedsIn(gap)) + this.text.slice(from, end);
      this.endPlain(expected);
    }
    return { end, text: folded };
  }

  /** Ends the line of a plain scalar that is no key. */
  endPlain(expected: string): void {
    this.skipSpaces();
    if (this.peek() === COLON) {
      if (!this.isBlankOrTab(this.pos + 1)) this.unsure();
      this.fail('mapping values are not allowed in this context');
    }
    this.endLine(expected);
  }

  /** Reads on in a plain scalar inside brackets from the end of its first line. Undefined if it has no other. */
  readFlowPlainLines(start: number, firstEnd: number): { end: number; text: string } | undefined {
    let end = firstEnd;
    let folded: string | undefined;
    for (;;) {
      this.skipBlanks();
      const breaks = this.#skipBlankLines();
      if (breaks === 0 || this.column < 0 || endsFlowPlain(this.peek())) break;
      if (!continuesFlowPlain(this.peek())) this.unsure();
      const from = this.pos;
      folded ??= this.text.slice(start, end);
      end = this.readFlowPlain();
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

  isBlankOrTab(offset: number): boolean {
    return this.isBlank(offset) || this.text.charCodeAt(offset) === TAB;
  }

  /** Whether the characters at `pos` are surely a key and its `:`. Cheap, and no for unusual keys. */
  atSimpleKey(): boolean {
    const { text } = this;
    let pos = this.pos;
    let char = text.charCodeAt(pos);
    while ((char >= 97 && char <= 122) || char === 95) char = text.charCodeAt(++pos);
    return char === COLON && pos > this.pos && this.isBlankOrTab(pos + 1);
  }

  /** Whether the line at `pos` begins with a key, of any form this reader knows. Does not move. */
  atKey(): boolean {
    if (this.atSimpleKey()) return true;
    const start = this.pos;
    const char = this.peek();
    if (char === DOUBLE_QUOTE || char === SINGLE_QUOTE) this.readQuoted(char);
    else if (this.atPlain()) this.readPlain();
    else return false;
    this.skipSpaces();
    const isKey = this.peek() === COLON && this.isBlankOrTab(this.pos + 1);
    if (isKey && (this.pos - start > longestKey || this.text.slice(start, this.pos).includes('\n')))
      this.unsure();
    this.pos = start;
    return isKey;
  }

  /** Reads a quoted scalar; leaves `pos` behind it and its text, if that is not a slice, in `decoded`. */
  readQuoted(quote: number): void {
    const { text, end } = this;
    const start = ++this.pos;
    this.decoded = undefined;
    for (let pos = start; pos < end; pos++) {
      const char = text.charCodeAt(pos);
      if (char === quote && (quote === DOUBLE_QUOTE || text.charCodeAt(pos + 1) !== SINGLE_QUOTE)) {
        this.pos = pos + 1;
        return;
      }
      const isSpecial = char === quote || char === LINE_FEED || char === CARRIAGE_RETURN;
      if (isSpecial || (char === BACKSLASH && quote === DOUBLE_QUOTE)) break;
    }
    this.#decodeQuoted(start, quote);
  }

  /** Reads `!`, `!name` or `!!name`, as written; leaves `pos` behind the spaces that follow. */
  readTag(): string {
    const { text } = this;
    const start = this.pos++;
    const isShort = text.charCodeAt(this.pos) === EXCLAMATION;
    if (isShort) this.pos++;
    const nameStart = this.pos;
    while (isNameCharacter(this.peek())) this.pos++;
    if (!this.isBlank(this.pos) || (isShort && this.pos === nameStart)) this.unsure();
    const tag = text.slice(start, this.pos);
    this.skipSpaces();
    return tag;
  }

  /** Reads the name behind `&` or `*`. */
  readAnchorName(): string {
    const { text } = this;
    const start = ++this.pos;
    while (isNameCharacter(this.peek())) this.pos++;
    if (this.pos === start) this.unsure();
    return text.slice(start, this.pos);
  }

  #decodeQuoted(start: number, quote: number): void {
    const { text, end } = this;
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
        decoded += text.slice(from, pos);
        if (quote === DOUBLE_QUOTE || text.charCodeAt(pos + 1) !== SINGLE_QUOTE) {
          this.pos = pos + 1;
          this.decoded = decoded;
          return;
        }
        decoded += "'";
        pos++;
        from = pos + 1;
      }
    }
    throw new Uncertain({ text: 'found unexpected end of stream', offset: start - 1, noticedAt: end });
  }

  /** The escape whose backslash is at `offset`. An escaped line break leaves nothing but the empty lines behind it. */
  #readEscape(offset: number): { text: string; end: number } {
    const { text } = this;
    const char = text.charCodeAt(offset + 1);
    if (char === LINE_FEED || char === CARRIAGE_RETURN) {
      const next = this.#afterBlankLines(offset + 1);
      return { text: '\n'.repeat(next.breaks - 1), end: next.offset };
    }
    const escaped = readEscape(text, offset);
    return 'problem' in escaped ? this.fail(escaped.problem, escaped.offset) : escaped;
  }

  /** Where the spaces and tabs before `offset` begin, not before `from`. */
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
        const first = text.charCodeAt(this.pos);
        if ((first === MINUS || first === DOT) && this.atDocumentMarker()) {
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

/** Letters, digits, `_` and `-`. */
function isNameCharacter(char: number): boolean {
  const isLetter = (char | 32) >= 97 && (char | 32) <= 122;
  return isLetter || (char >= 48 && char <= 57) || char === 95 || char === MINUS;
}

/** What a number of line breaks inside a scalar stands for. */
function foldedBreaks(breaks: number): string {
  return breaks > 1 ? '\n'.repeat(breaks - 1) : ' ';
}

function lineFeedsIn(text: string): number {
  let count = 0;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count++;
  return count;
}

/** `#`, `,`, `]`, `}` at the beginning of a line inside brackets, or the end of the text. */
function endsFlowPlain(char: number): boolean {
  return char === HASH || char === 0x2c || char === 0x5d || char === 0x7d || Number.isNaN(char);
}

/** Anything but `:`, `?`, `[`, `{`, which take thought. */
function continuesFlowPlain(char: number): boolean {
  return char !== COLON && char !== 0x3f && char !== 0x5b && char !== 0x7b;
}

function isSpaceOrTab(char: number): boolean {
  return char === SPACE || char === TAB;
}
