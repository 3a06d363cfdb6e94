/**
 * Reads YAML: block and flow collections, all scalars, comments, directives, anchors, aliases and tags. The grammar is that of
 * YAML 1.2. Like the Go service's YAML 1.1, it also ignores the indentation of lines in brackets and quotes. Tests compare it
 * with js-yaml. It is long because it is one recursive descent: block and flow collections call each other, and share the tape,
 * the depth and the properties that wait for their node. The cursor handles characters and lines.
 */
import { readBlockScalar } from './block-scalar.ts';
import { noToken, YamlCursor } from './cursor.ts';
import { maxYamlDepth, NodeKind, YamlTape } from './tape.ts';
import { findControlCharacter, type SyntaxProblem, YamlSyntaxError } from './text.ts';

const expectedColon = "could not find expected ':'";
const expectedKey = 'did not find expected key';
const expectedDash = "did not find expected '-' indicator";
const expectedContent = 'did not find expected node content';
const expectedStart = 'did not find expected <document start>';

const DOUBLE_QUOTE = 34;
const HASH = 35;
const PERCENT = 37;
const AMPERSAND = 38;
const SINGLE_QUOTE = 39;
const ASTERISK = 42;
const COMMA = 44;
const EXCLAMATION = 33;
const MINUS = 45;
const COLON = 58;
const GREATER = 62;
const QUESTION = 63;
const OPEN_BRACKET = 91;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const BAR = 124;
const CLOSE_BRACE = 125;

/** Reads the first document of a YAML text and ignores what follows it. `isJsonToo`: whether it reads JSON as well. */
export function parseYaml(text: string, isJsonToo = false): YamlTape | SyntaxProblem {
  const control = findControlCharacter(text, isJsonToo);
  if (control !== undefined) return control;
  try {
    return new YamlReader(text.replaceAll(/\r(?!\n)/g, '\n')).readDocument();
  } catch (error) {
    if (error instanceof YamlSyntaxError) return error.problem;
    throw error;
  }
}

/** The context of a node. */
interface NodeContext {
  /** The token that the message asks for if something else follows the node. */
  expected: string;
  /** Set for the value of a map: a list may begin in the map's own column. */
  listColumn?: number;
}

interface InlineContext extends NodeContext {
  isCompact: boolean;
  /** Properties of the node that begins here, if they are on a line above it. */
  above?: { anchor: boolean; tag: boolean };
}

class YamlReader {
  readonly #cursor: YamlCursor;
  readonly #tape: YamlTape;
  readonly #anchors = new Map<string, number>();
  /** The nodes with anchors, in the order of their numbers. */
  readonly #anchored: { name: string; node: number }[] = [];
  readonly #tagHandles = new Set(['!', '!!']);
  /** The anchor and the tag that were read before the next node. */
  #anchor: string | undefined;
  #tag: string | undefined;
  #depth = 0;

  constructor(text: string) {
    this.#cursor = new YamlCursor(text);
    this.#tape = new YamlTape(text);
  }

  readDocument(): YamlTape {
    const cursor = this.#cursor;
    cursor.startLine(0);
    if (cursor.column >= 0 && cursor.atLineEnd()) cursor.toContent();
    const hasDirectives = this.#readDirectives();
    const isStart = cursor.column < 0 && cursor.text.startsWith('---', cursor.pos);
    if (hasDirectives && !isStart) cursor.fail(expectedStart);
    const first = cursor.pos;
    if (isStart) {
      cursor.pos += 3;
      cursor.skipBlanks();
      if (cursor.atLineEnd()) cursor.toContent();
      else this.#readNode(-1, { expected: expectedStart, isCompact: false });
    }
    if (this.#tape.size === 0) {
      if (cursor.column < 0) this.#addEmpty(cursor.pos);
      else this.#readBlock(-1, { expected: expectedStart });
    }
    if (cursor.column >= 0) {
      // In a map that began at the column of this list item, a key must follow.
      const isInMap = this.#tape.kind(0) === NodeKind.MAP && cursor.text.charCodeAt(first) !== OPEN_BRACE;
      cursor.rejectContent(isInMap && cursor.atIndicator(MINUS) ? expectedKey : expectedStart);
    }
    this.#tape.rest = cursor.text.slice(cursor.pos);
    return this.#tape;
  }

  /** Reads `%YAML` and `%TAG`. Other directives have no effect. */
  #readDirectives(): boolean {
    const cursor = this.#cursor;
    const start = cursor.pos;
    while (cursor.column === 0 && cursor.peek() === PERCENT) {
      const end = cursor.text.indexOf('\n', cursor.pos);
      const line = cursor.text.slice(cursor.pos, end < 0 ? cursor.end : end);
      const [name, handle = ''] = line
        .replace(/[ \t]#.*$/, '')
        .trim()
        .split(/[ \t]+/);
      if (name === '%') cursor.fail('could not find expected directive name');
      if (name === '%YAML' && !/^1\.\d+$/.test(handle)) cursor.fail('found incompatible YAML document');
      if (name === '%TAG') this.#tagHandles.add(handle);
      cursor.pos += line.length;
      cursor.toContent();
    }
    return cursor.pos > start;
  }

  /**
   * Reads the node after a `-`, `?`, `:` or `---` whose collection begins at column `parent`. An empty node is a node, too. If
   * it is compact, a list or map may begin on the same line.
   */
  #readNode(parent: number, place: NodeContext & { isCompact: boolean }): void {
    const cursor = this.#cursor;
    const behind = cursor.pos;
    cursor.skipBlanks();
    if (place.isCompact && !cursor.atLineEnd() && (cursor.atIndicator(MINUS) || cursor.atEntry())) {
      const column = cursor.pos - cursor.lineStart;
      if (cursor.atIndicator(MINUS)) this.#readList(column, parent);
      else this.#readMap(column);
    } else {
      this.#readProperties(false);
      if (cursor.atLineEnd()) this.#readBelow(parent, place, behind);
      else this.#readInline(parent, place);
    }
    if (parent >= 0 && cursor.column > parent) cursor.rejectContent(place.expected);
  }

  /** Reads the node that begins on a line below, if there is one. The cursor is at the end of a line. */
  #readBelow(parent: number, place: NodeContext, behind: number): void {
    const cursor = this.#cursor;
    cursor.toContent();
    const isListBeside = cursor.column === place.listColumn && cursor.atIndicator(MINUS);
    if (cursor.column > parent || isListBeside) this.#readBlock(parent, place);
    else this.#addEmpty(behind);
  }

  /**
   * Reads the node that begins on the cursor's line, inside a collection at column `parent`. Properties read before belong to
   * the whole.
   */
  #readBlock(parent: number, place: NodeContext): void {
    const cursor = this.#cursor;
    if (cursor.atIndicator(MINUS)) this.#readList(cursor.column, parent);
    else if (cursor.atEntry()) this.#readMap(cursor.column);
    else {
      const above = { anchor: this.#anchor !== undefined, tag: this.#tag !== undefined };
      this.#readProperties(false);
      if (cursor.atLineEnd()) this.#readBelow(parent, place, cursor.pos);
      else this.#readInline(parent, { ...place, isCompact: true, above });
    }
  }

  /** The map whose first entry is at the cursor. */
  #readMap(column: number): void {
    const map = this.#open(NodeKind.MAP);
    this.#readEntry(column);
    this.#readEntries(column, map);
  }

  /** The entries behind the first, and what follows the map. */
  #readEntries(column: number, map: number): void {
    const cursor = this.#cursor;
    while (cursor.column === column && !cursor.atIndicator(MINUS)) this.#readEntry(column);
    this.#close(map);
  }

  #readEntry(column: number): void {
    const cursor = this.#cursor;
    cursor.rejectTab();
    let isCompact = true;
    if (cursor.atIndicator(QUESTION)) {
      cursor.pos++;
      this.#readNode(column, { expected: expectedKey, isCompact, listColumn: column });
      if (cursor.column !== column || !cursor.atIndicator(COLON)) {
        this.#addEmpty(cursor.pos);
        return;
      }
      cursor.rejectTab();
    } else if (cursor.atIndicator(COLON)) {
      this.#addEmpty(cursor.pos);
    } else {
      isCompact = false;
      this.#readKey();
    }
    cursor.pos++;
    this.#readNode(column, { expected: expectedKey, isCompact, listColumn: column });
  }

  /** Reads a key, and leaves the cursor at its colon. */
  #readKey(): void {
    const cursor = this.#cursor;
    const { lineStart } = cursor;
    this.#readProperties(false);
    const start = cursor.pos;
    const char = cursor.peek();
    if (cursor.atPlain()) this.#named(this.#tape.addSlice(start, cursor.readPlain(), true));
    else if (char === COLON) this.#addEmpty(start);
    else if (!this.#readBracketsQuotesOrAlias(char)) this.#rejectStart(char);
    const isOneLine = cursor.lineStart === lineStart;
    cursor.skipBlanks();
    if (cursor.peek() !== COLON || !isOneLine) cursor.fail(expectedColon, start);
    if (!cursor.isBlank(cursor.pos + 1)) cursor.fail(expectedKey);
  }

  #readList(column: number, parent: number): void {
    const cursor = this.#cursor;
    const list = this.#open(NodeKind.LIST);
    do {
      cursor.rejectTab();
      cursor.pos++;
      this.#readNode(column, { expected: expectedDash, isCompact: true });
    } while (cursor.column === column && cursor.atIndicator(MINUS));
    // In a map, a key may follow where a list in its column ends.
    if (cursor.column === column && column > parent) {
      cursor.rejectContent(cursor.atPlain() && !cursor.atEntry() ? expectedColon : expectedDash);
    }
    this.#close(list);
  }

  /** A value that stands on the line of its key or dash; leaves the cursor at the content behind it. */
  #readInline(parent: number, { expected, isCompact, above }: InlineContext): void {
    const cursor = this.#cursor;
    const { pos: start, lineStart, tabAt } = cursor;
    const char = cursor.peek();
    if (char === BAR || char === GREATER) {
      const { end, text } = readBlockScalar(cursor, parent);
      this.#named(this.#tape.addScalar({ start, end, plain: false, text }));
      return;
    }
    if (cursor.atPlain()) {
      this.#readPlain(parent, expected);
      return;
    }
    const node = this.#tape.size;
    if (!this.#readBracketsQuotesOrAlias(char)) this.#rejectStart(char);
    if (isCompact && cursor.lineStart === lineStart && (char === OPEN_BRACE || char === OPEN_BRACKET)) {
      cursor.skipBlanks();
      if (cursor.atIndicator(COLON)) {
        // Tabs within a key and behind it do not indent.
        cursor.tabAt = tabAt;
        this.#readMapBehindKey(node, start - lineStart, above);
        return;
      }
    }
    cursor.endLine(expected);
  }

  /** A map whose first key proved to be one when it had been read, because a colon came. Properties above are the map's. */
  #readMapBehindKey(key: number, column: number, above: InlineContext['above']): void {
    const cursor = this.#cursor;
    cursor.rejectTab();
    this.#wrap(key, this.#tape.start(key));
    if (above?.tag === true) this.#tape.moveTag(key + 1, key);
    const anchored = above?.anchor === true && this.#anchored.find(({ node }) => node === key + 1);
    if (anchored) {
      anchored.node = key;
      if (this.#anchors.get(anchored.name) === key + 1) this.#anchors.set(anchored.name, key);
    }
    cursor.pos++;
    this.#readNode(column, { expected: expectedKey, isCompact: false, listColumn: column });
    this.#readEntries(column, key);
  }

  #readPlain(parent: number, expected: string): void {
    const cursor = this.#cursor;
    const start = cursor.pos;
    const firstEnd = cursor.readPlain();
    const node = this.#named(this.#tape.addSlice(start, firstEnd, true));
    cursor.endPlain(expected);
    if (cursor.column <= parent) return;
    const longer = cursor.readPlainLines({ start, firstEnd, column: parent, expected });
    if (longer.end !== firstEnd) this.#tape.lengthen(node, longer);
  }

  /** Reads a node that is not plain and may be on any line. Returns false if no such node begins here. */
  #readBracketsQuotesOrAlias(char: number): boolean {
    const cursor = this.#cursor;
    if (char === OPEN_BRACE) this.#readFlowMap();
    else if (char === OPEN_BRACKET) this.#readFlowList();
    else if (char === ASTERISK) this.#readAlias();
    else if (char === DOUBLE_QUOTE || char === SINGLE_QUOTE) {
      const start = cursor.pos + 1;
      cursor.readQuoted(char);
      const { decoded: text, pos } = cursor;
      this.#named(this.#tape.addScalar({ start, end: pos - 1, plain: false, text }));
    } else return false;
    return true;
  }

  #readAlias(): void {
    const cursor = this.#cursor;
    const start = cursor.pos;
    if (this.#hasProperties()) cursor.fail(expectedContent);
    const name = cursor.readAnchorName();
    const target = this.#anchors.get(name);
    if (target === undefined) cursor.failWithoutLine(`unknown anchor '${name}' referenced`, start + 1);
    else if (this.#tape.isOpen(target))
      cursor.failWithoutLine(`anchor '${name}' value contains itself`, start + 1);
    else this.#tape.addAlias(start, target);
  }

  /** An anchor and a tag in either order, and the blanks behind them. */
  #readProperties(isFlow: boolean): void {
    const cursor = this.#cursor;
    for (;;) {
      const char = cursor.peek();
      if (char !== AMPERSAND && char !== EXCLAMATION) return;
      if ((char === AMPERSAND ? this.#anchor : this.#tag) !== undefined) cursor.fail(expectedContent);
      if (char === AMPERSAND) this.#anchor = cursor.readAnchorName();
      else this.#tag = cursor.readTag(isFlow, this.#tagHandles);
      cursor.skipBlanks();
    }
  }

  #hasProperties(): boolean {
    return this.#anchor !== undefined || this.#tag !== undefined;
  }

  /** A value in brackets, of any number of lines, or a scalar inside one; false when none begins at the cursor. */
  #readFlow(opened: number): boolean {
    const cursor = this.#cursor;
    for (let char = cursor.peek(); char === AMPERSAND || char === EXCLAMATION; char = cursor.peek()) {
      this.#readProperties(true);
      this.#skipFlowSpace(opened);
    }
    const char = cursor.peek();
    if (cursor.atPlain(true)) {
      this.#readFlowPlain();
      return true;
    }
    if (this.#readBracketsQuotesOrAlias(char)) return true;
    const isNothing = char === COMMA || char === COLON || char === CLOSE_BRACE || char === CLOSE_BRACKET;
    if (!isNothing) cursor.fail(char === MINUS || char === HASH ? expectedContent : noToken);
    if (!this.#hasProperties()) return false;
    this.#addEmpty(cursor.pos);
    return true;
  }

  #readFlowPlain(): void {
    const cursor = this.#cursor;
    const start = cursor.pos;
    const end = cursor.readPlain(true);
    const node = this.#named(this.#tape.addSlice(start, end, true));
    const longer = cursor.readFlowPlainLines(start, end);
    if (longer !== undefined) this.#tape.lengthen(node, longer);
  }

  #readFlowMap(): void {
    const cursor = this.#cursor;
    const start = cursor.pos;
    const map = this.#open(NodeKind.MAP);
    do {
      cursor.pos++;
      this.#skipFlowSpace(start);
      if (cursor.peek() === CLOSE_BRACE) break;
      const isPair = this.#skipQuestion(start);
      const hasKey = this.#readFlow(start);
      this.#skipFlowSpace(start);
      if (!hasKey && !isPair && cursor.peek() !== COLON) cursor.fail(expectedContent);
      if (!hasKey) this.#addEmpty(cursor.pos);
      this.#readFlowValue(start);
    } while (this.#hasComma(start, CLOSE_BRACE));
    cursor.pos++;
    this.#close(map);
  }

  /** The value behind a key, which may be missing with its colon. */
  #readFlowValue(opened: number): void {
    const cursor = this.#cursor;
    const behind = cursor.pos;
    if (cursor.peek() !== COLON) {
      this.#addEmpty(behind);
      return;
    }
    cursor.pos++;
    this.#skipFlowSpace(opened);
    if (!this.#readFlow(opened)) this.#addEmpty(behind + 1);
    this.#skipFlowSpace(opened);
  }

  #readFlowList(): void {
    const cursor = this.#cursor;
    const start = cursor.pos;
    const list = this.#open(NodeKind.LIST);
    do {
      cursor.pos++;
      this.#skipFlowSpace(start);
      if (cursor.peek() === CLOSE_BRACKET) break;
      const isPair = this.#skipQuestion(start);
      const { pos: entryStart, lineStart } = cursor;
      const entry = this.#tape.size;
      const hasKey = this.#readFlow(start);
      this.#skipFlowSpace(start);
      if (isPair || (cursor.peek() === COLON && cursor.lineStart === lineStart)) {
        if (!hasKey) this.#addEmpty(cursor.pos);
        this.#wrap(entry, entryStart);
        this.#readFlowValue(start);
        this.#close(entry);
      } else if (!hasKey) cursor.fail(expectedContent);
    } while (this.#hasComma(start, CLOSE_BRACKET));
    cursor.pos++;
    this.#close(list);
  }

  #skipQuestion(opened: number): boolean {
    const cursor = this.#cursor;
    if (!cursor.atIndicator(QUESTION)) return false;
    cursor.pos++;
    this.#skipFlowSpace(opened);
    return true;
  }

  /** Returns whether a comma follows a member; if not, the bracket does that closes. */
  #hasComma(opened: number, closing: number): boolean {
    const char = this.#cursor.peek();
    if (char !== COMMA && char !== closing) this.#cursor.rejectOpenBracket(opened, this.#cursor.pos);
    return char === COMMA;
  }

  /** Skips blanks, line breaks and comments inside brackets that opened at `opened`. */
  #skipFlowSpace(opened: number): void {
    const cursor = this.#cursor;
    cursor.skipBlanks();
    if (!cursor.atLineEnd()) return;
    if (cursor.peek() === HASH && !cursor.isCommentHere()) cursor.rejectOpenBracket(opened, cursor.pos);
    cursor.toContent();
    if (cursor.column < 0) cursor.rejectOpenBracket(opened, opened);
  }

  #rejectStart(char: number): never {
    const cursor = this.#cursor;
    if (cursor.atIndicator(MINUS)) cursor.fail('block sequence entries are not allowed in this context');
    if (cursor.atIndicator(QUESTION)) cursor.fail('mapping keys are not allowed in this context');
    if (char === COMMA || char === CLOSE_BRACKET || char === CLOSE_BRACE) cursor.fail(expectedContent);
    return cursor.rejectContent(noToken);
  }

  #open(kind: NodeKind): number {
    this.#deepen();
    return this.#named(this.#tape.open(kind, this.#cursor.pos));
  }

  #deepen(): void {
    if (++this.#depth >= maxYamlDepth) this.#cursor.fail(`exceeded max depth of ${maxYamlDepth}`);
  }

  #close(node: number): void {
    this.#depth--;
    this.#tape.close(node);
  }

  /** Puts a map around the nodes from `node` on. */
  #wrap(node: number, start: number): void {
    this.#deepen();
    this.#tape.wrap(node, start);
    for (let i = this.#anchored.length - 1; i >= 0; i--) {
      const inner = this.#anchored[i]!;
      if (inner.node < node) return;
      if (this.#anchors.get(inner.name) === inner.node) this.#anchors.set(inner.name, inner.node + 1);
      inner.node++;
    }
  }

  /** A node without text; one with properties is there all the same. */
  #addEmpty(offset: number): void {
    this.#named(this.#tape.addSlice(offset, offset, true));
  }

  /** Gives the anchor and the tag that were read, if any, to the node behind them. */
  #named(node: number): number {
    if (this.#anchor !== undefined) {
      this.#anchors.set(this.#anchor, node);
      this.#anchored.push({ name: this.#anchor, node });
      this.#anchor = undefined;
    }
    if (this.#tag !== undefined) {
      this.#tape.setTag(node, this.#tag);
      this.#tag = undefined;
    }
    return node;
  }
}
