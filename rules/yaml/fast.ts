/**
 * Reads the YAML that rule files are written in: block and flow collections, all scalars, comments, anchors, aliases
 * and short tags. What it accepts means the same to a complete parser; everything else it leaves to one.
 *
 * Long because it is one recursive descent: block and flow collections call each other, and share the tape, the depth
 * and the anchor that waits for its node. Their characters and lines are the cursor's.
 */
import { readBlockScalar } from './block-scalar.ts';
import { type SyntaxProblem, Uncertain, YamlCursor } from './cursor.ts';
import { NodeKind, YamlTape } from './tape.ts';

/** `problem` is given when something is surely wrong. */
export type FastReading = { tape: YamlTape } | { tape: undefined; problem: SyntaxProblem | undefined };

const expectedColon = "could not find expected ':'";
const expectedKey = 'did not find expected key';
const expectedDash = "did not find expected '-' indicator";

const TAB = 9;
const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;
const SPACE = 32;
const EXCLAMATION = 33;
const DOUBLE_QUOTE = 34;
const HASH = 35;
const AMPERSAND = 38;
const SINGLE_QUOTE = 39;
const ASTERISK = 42;
const COMMA = 44;
const MINUS = 45;
const COLON = 58;
const GREATER = 62;
const OPEN_BRACKET = 91;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const BAR = 124;
const CLOSE_BRACE = 125;

/** Line breaks that YAML 1.1 knows and 1.2 does not, or that nobody writes. */
const unusualLineBreak = /\r(?!\n)|[\u0085\u2028\u2029]/;

/** Deeper documents are left to the complete parser, which knows the bound. */
const maxDepth = 200;

export function readFast(text: string): FastReading {
  if (unusualLineBreak.test(text)) return { tape: undefined, problem: undefined };
  try {
    return { tape: new FastReader(text).readDocument() };
  } catch (error) {
    if (error instanceof Uncertain) return { tape: undefined, problem: error.problem };
    throw error;
  }
}

class FastReader {
  readonly #cursor: YamlCursor;
  readonly #tape: YamlTape;
  readonly #anchors = new Map<string, number>();
  /** The anchor read before the node that comes next. */
  #anchor: string | undefined;
  /** The tag read before it. */
  #tag: string | undefined;
  #depth = 0;

  constructor(text: string) {
    this.#cursor = new YamlCursor(text);
    this.#tape = new YamlTape(text);
  }

  readDocument(): YamlTape {
    const cursor = this.#cursor;
    this.#toFirstContent();
    if (cursor.column < 0) {
      this.#tape.addSlice(cursor.end, cursor.end, true);
      return this.#tape;
    }
    const { column } = cursor;
    const char = cursor.peek();
    if (char === OPEN_BRACE || char === OPEN_BRACKET) {
      this.#readFlow();
      cursor.endLine('did not find expected <document start>');
    } else {
      this.#readBlock(-1, expectedKey);
    }
    if (cursor.column >= 0) {
      const isBlockMap = char !== OPEN_BRACE && char !== OPEN_BRACKET && char !== MINUS;
      if (isBlockMap && cursor.column === column && this.#atListItem()) cursor.fail(expectedKey);
      cursor.unsure();
    }
    return this.#tape;
  }

  /** Skips comments and one `---`. */
  #toFirstContent(): void {
    const cursor = this.#cursor;
    cursor.startLine(0);
    if (cursor.column >= 0 && cursor.atLineEnd()) cursor.toContent();
    if (cursor.column < 0 && cursor.pos < cursor.end) {
      if (cursor.peek() !== MINUS) cursor.unsure();
      cursor.pos += 3;
      cursor.skipSpaces();
      if (!cursor.atLineEnd()) cursor.unsure();
      cursor.toContent();
    }
  }

  /** What begins a line at the cursor, inside what begins at column `parent`; of the whole document a map or list. */
  #readBlock(parent: number, expected: string): void {
    const cursor = this.#cursor;
    if (this.#atListItem()) this.#readList(cursor.column, parent);
    else if (cursor.atKey()) this.#readMap(cursor.column);
    else if (parent >= 0) this.#readInline(parent, expected);
    else cursor.unsure();
  }

  #readMap(column: number): void {
    const cursor = this.#cursor;
    const map = this.#open(NodeKind.MAP);
    do {
      this.#readKey();
      this.#readValue(column);
    } while (cursor.column === column && !this.#atListItem());
    if (cursor.column > column) cursor.unsure();
    this.#close(map);
  }

  #atListItem(): boolean {
    const cursor = this.#cursor;
    return cursor.peek() === MINUS && cursor.isBlank(cursor.pos + 1);
  }

  /** Reads `key:`, and leaves the cursor behind the colon. */
  #readKey(): void {
    const cursor = this.#cursor;
    const start = cursor.pos;
    const char = cursor.peek();
    if (char === DOUBLE_QUOTE || char === SINGLE_QUOTE) {
      cursor.readQuoted(char);
      this.#addQuoted(start);
    } else {
      if (!cursor.atPlain()) cursor.unsure();
      this.#tape.addSlice(start, cursor.readPlain(), true);
    }
    cursor.skipSpaces();
    if (cursor.peek() === TAB) cursor.unsure();
    if (cursor.peek() !== COLON) cursor.fail(expectedColon, start);
    if (!cursor.isBlankOrTab(cursor.pos + 1)) cursor.unsure();
    cursor.pos++;
  }

  /** The value of a key of the map that begins at `column`; leaves the cursor at the next line's content. */
  #readValue(column: number): void {
    const cursor = this.#cursor;
    const afterColon = cursor.pos;
    cursor.skipBlanks();
    this.#readProperties();
    if (!cursor.atLineEnd()) {
      this.#readInline(column, expectedKey);
      if (cursor.column > column) cursor.refuseContent(expectedKey);
      return;
    }
    cursor.toContent();
    if (cursor.column > column || (cursor.column === column && this.#atListItem())) {
      this.#readBlock(column, expectedKey);
    } else {
      this.#addNull(afterColon);
    }
    if (cursor.column > column) cursor.refuseContent(expectedKey);
  }

  #readList(column: number, parent: number): void {
    const cursor = this.#cursor;
    const list = this.#open(NodeKind.LIST);
    do this.#readItem(column);
    while (cursor.column === column && this.#atListItem());
    if (cursor.column === column && column > parent) this.#refuseNoItem();
    if (cursor.column > column) cursor.refuseContent(expectedDash);
    this.#close(list);
  }

  /** Something else than an item stands where the next item of a list would begin. */
  #refuseNoItem(): void {
    const cursor = this.#cursor;
    if (cursor.atKey()) cursor.fail(expectedDash);
    if (cursor.atPlain()) cursor.fail(expectedColon);
    cursor.unsure();
  }

  /** One `- ` of the list that begins at `column`. */
  #readItem(column: number): void {
    const cursor = this.#cursor;
    const afterDash = ++cursor.pos;
    cursor.skipSpaces();
    this.#readProperties();
    if (cursor.atLineEnd()) {
      cursor.toContent();
      if (cursor.column > column) this.#readBlock(column, expectedDash);
      else this.#addNull(afterDash);
      return;
    }
    const isList = this.#atListItem();
    if (isList || cursor.atKey()) {
      if (this.#hasProperties()) cursor.unsure(); // they belong to the key, not to the map
      if (isList) this.#readList(cursor.pos - cursor.lineStart, column);
      else this.#readMap(cursor.pos - cursor.lineStart);
      return;
    }
    this.#readInline(column, expectedDash);
    if (cursor.column > column) cursor.refuseContent(expectedDash);
  }

  /** A value that stands on the line of its key or dash, which are at `column`; leaves the cursor behind it. */
  #readInline(column: number, expected: string): void {
    const cursor = this.#cursor;
    const char = cursor.peek();
    if (char === BAR || char === GREATER) {
      this.#readBlockScalar(column);
      return;
    }
    if (char === OPEN_BRACE || char === OPEN_BRACKET) this.#readFlow();
    else if (char === DOUBLE_QUOTE || char === SINGLE_QUOTE) this.#readQuotedValue(char);
    else if (char === ASTERISK) this.#readAlias();
    else if (cursor.atPlain()) {
      this.#readPlainValue(column, expected);
      return;
    } else this.#refuseStart(char);
    cursor.endLine(expected);
  }

  #readPlainValue(column: number, expected: string): void {
    const cursor = this.#cursor;
    const start = cursor.pos;
    const firstEnd = cursor.readPlain();
    const node = this.#named(this.#tape.addSlice(start, firstEnd, true));
    cursor.endPlain(expected);
    if (cursor.column <= column) return;
    const longer = cursor.readPlainLines({ start, firstEnd, column, expected });
    if (longer.end !== firstEnd) this.#tape.lengthen(node, longer);
  }

  #readBlockScalar(column: number): void {
    const cursor = this.#cursor;
    const start = cursor.pos;
    const { end, text } = readBlockScalar(cursor, column);
    this.#named(this.#tape.addScalar({ start, end, plain: false, text }));
  }

  #readQuotedValue(quote: number): void {
    const start = this.#cursor.pos;
    this.#cursor.readQuoted(quote);
    this.#named(this.#addQuoted(start));
  }

  #readAlias(): void {
    const cursor = this.#cursor;
    const start = cursor.pos;
    if (this.#hasProperties()) cursor.unsure();
    const name = cursor.readAnchorName();
    const target = this.#anchors.get(name);
    if (target === undefined || this.#tape.isOpen(target)) cursor.unsure();
    else this.#tape.addAlias(start, target);
  }

  #readAnchor(): void {
    const cursor = this.#cursor;
    this.#anchor = cursor.readAnchorName();
    if (!cursor.isBlank(cursor.pos)) cursor.unsure();
    cursor.skipSpaces();
  }

  /** An anchor and a tag in either order, and the spaces behind them. */
  #readProperties(): void {
    const cursor = this.#cursor;
    for (;;) {
      const char = cursor.peek();
      if (char === AMPERSAND && this.#anchor === undefined) this.#readAnchor();
      else if (char === EXCLAMATION && this.#tag === undefined) this.#tag = cursor.readTag();
      else return;
    }
  }

  #hasProperties(): boolean {
    return this.#anchor !== undefined || this.#tag !== undefined;
  }

  /** A value in brackets, of any number of lines, or a scalar inside one. */
  #readFlow(): void {
    this.#readProperties();
    const char = this.#cursor.peek();
    if (char === OPEN_BRACE) this.#readFlowMap();
    else if (char === OPEN_BRACKET) this.#readFlowList();
    else if (char === DOUBLE_QUOTE || char === SINGLE_QUOTE) this.#readQuotedValue(char);
    else if (char === ASTERISK) this.#readAlias();
    else this.#readFlowPlain();
  }

  #readFlowPlain(): void {
    const cursor = this.#cursor;
    const start = cursor.pos;
    this.#refuseListItem();
    if (!cursor.atPlain()) cursor.unsure();
    const end = cursor.readFlowPlain();
    const node = this.#named(this.#tape.addSlice(start, end, true));
    const longer = cursor.readFlowPlainLines(start, end);
    if (longer !== undefined) this.#tape.lengthen(node, longer);
  }

  #readFlowMap(): void {
    const cursor = this.#cursor;
    const start = cursor.pos;
    const map = this.#open(NodeKind.MAP);
    cursor.pos++;
    for (;;) {
      this.#skipFlowSpace(start);
      if (cursor.peek() === CLOSE_BRACE) break;
      this.#readFlowKey();
      const afterColon = cursor.pos;
      this.#skipFlowSpace(start);
      const char = cursor.peek();
      if (char === COMMA || char === CLOSE_BRACE) this.#addNull(afterColon);
      else this.#readFlow();
      if (this.#isLast(start, CLOSE_BRACE)) break;
    }
    cursor.pos++;
    this.#close(map);
  }

  #readFlowKey(): void {
    const cursor = this.#cursor;
    const start = cursor.pos;
    const char = cursor.peek();
    const isQuoted = char === DOUBLE_QUOTE || char === SINGLE_QUOTE;
    if (isQuoted) {
      cursor.readQuoted(char);
      this.#addQuoted(start);
    } else {
      this.#refuseListItem();
      if (!cursor.atPlain()) cursor.unsure();
      this.#tape.addSlice(start, cursor.readFlowPlain(), true);
    }
    cursor.skipBlanks();
    if (cursor.peek() !== COLON) cursor.unsure();
    cursor.pos++;
    if (!isQuoted && !cursor.isBlankOrTab(cursor.pos)) cursor.unsure();
  }

  /** A `- ` inside brackets. */
  #refuseListItem(): void {
    const cursor = this.#cursor;
    if (!this.#atListItem() || this.#hasProperties()) return;
    cursor.pos++;
    cursor.skipSpaces();
    if (!cursor.atPlain()) cursor.unsure();
    cursor.fail('did not find expected node content', cursor.text.lastIndexOf('-', cursor.pos - 1));
  }

  #readFlowList(): void {
    const cursor = this.#cursor;
    const start = cursor.pos;
    const list = this.#open(NodeKind.LIST);
    cursor.pos++;
    for (;;) {
      this.#skipFlowSpace(start);
      if (cursor.peek() === CLOSE_BRACKET) break;
      this.#readFlow();
      if (this.#isLast(start, CLOSE_BRACKET)) break;
    }
    cursor.pos++;
    this.#close(list);
  }

  /** Goes behind the comma that separates members, or to the bracket that follows the last one. */
  #isLast(opened: number, closing: number): boolean {
    const cursor = this.#cursor;
    this.#skipFlowSpace(opened);
    const char = cursor.peek();
    if (char === closing) return true;
    if (char !== COMMA) {
      if (char === COLON && closing === CLOSE_BRACKET) cursor.unsure(); // a map of one pair
      if (char !== COLON && !cursor.atPlain()) cursor.unsure();
      this.#refuseOpenBracket(opened, cursor.pos);
    }
    cursor.pos++;
    return false;
  }

  /** Skips spaces, line breaks and comments inside brackets that opened at `opened`. */
  #skipFlowSpace(opened: number): void {
    const cursor = this.#cursor;
    for (;;) {
      cursor.skipBlanks();
      const char = cursor.peek();
      if (cursor.pos >= cursor.end) this.#refuseOpenBracket(opened, opened);
      if (char === HASH && !cursor.isCommentHere()) cursor.unsure();
      if (char !== HASH && char !== LINE_FEED && char !== CARRIAGE_RETURN) return;
      cursor.toContent();
      if (cursor.column < 0 && cursor.pos < cursor.end) cursor.unsure();
    }
  }

  #refuseOpenBracket(opened: number, offset: number): void {
    const closing = this.#cursor.text.charCodeAt(opened) === OPEN_BRACE ? '}' : ']';
    this.#cursor.fail(`did not find expected ',' or '${closing}'`, offset);
  }

  #refuseStart(char: number): void {
    const cursor = this.#cursor;
    if (char === 37 || char === 64 || char === 96) cursor.fail('found character that cannot start any token'); // % @ `
    if (char === MINUS && cursor.text.charCodeAt(cursor.pos + 1) === SPACE) {
      cursor.fail('block sequence entries are not allowed in this context');
    }
    if (!this.#hasProperties() && (char === COMMA || char === CLOSE_BRACKET || char === CLOSE_BRACE)) {
      cursor.fail('did not find expected node content');
    }
    cursor.unsure();
  }

  #open(kind: NodeKind): number {
    if (++this.#depth > maxDepth) this.#cursor.unsure();
    return this.#named(this.#tape.open(kind, this.#cursor.pos));
  }

  #close(node: number): void {
    this.#depth--;
    this.#tape.close(node);
  }

  #addNull(offset: number): void {
    if (this.#hasProperties()) this.#cursor.unsure();
    this.#tape.addSlice(offset, offset, true);
  }

  #addQuoted(start: number): number {
    const { pos, decoded } = this.#cursor;
    if (decoded === undefined) return this.#tape.addSlice(start + 1, pos - 1, false);
    return this.#tape.addScalar({ start: start + 1, end: pos - 1, plain: false, text: decoded });
  }

  /** Gives the anchor and the tag that were read, if any, to the node they stand before. */
  #named(node: number): number {
    if (this.#anchor !== undefined) {
      this.#anchors.set(this.#anchor, node);
      this.#anchor = undefined;
    }
    if (this.#tag !== undefined) {
      this.#tape.setTag(node, this.#tag);
      this.#tag = undefined;
    }
    return node;
  }
}
