/**
 * Reads YAML with js-yaml into the tape that `parseYaml` makes, for tests that hold the two against each other. Where js-yaml
 * rejects a line inside brackets or quotes for its indentation, which the Go service gives no meaning, it is deepened.
 */
import {
  CHOMPING_MODE,
  EVENT_ID,
  type Event,
  getScalarValue,
  parseEvents,
  SCALAR_STYLE,
  YAMLException,
} from 'js-yaml';
import { maxYamlDepth, NodeKind, YamlTape } from '../../rules/yaml/tape.ts';

/** What js-yaml says is wrong. */
export interface ParseRejection {
  text: string;
  offset: number;
}

/** The first document. */
export function readWithJsYaml(text: string): YamlTape | ParseRejection {
  const parsed = parseDeepening(firstDocument(text));
  return 'events' in parsed ? new EventReader(text, parsed).read() : parsed;
}

/** The text up to where a second document begins: what follows is not read, so it may be anything. */
function firstDocument(text: string): string {
  const marker = /^(?:---|\.\.\.)(?=[ \t\r\n]|$)/gm;
  const content = /^(?!%|#|[ \t]*(?:#|\r?$))/m.exec(text)?.index ?? 0;
  marker.lastIndex = content;
  let found = marker.exec(text);
  if (found?.index === content && found[0] === '---') found = marker.exec(text);
  return found === null ? text : text.slice(0, found.index);
}

class EventReader {
  /** What the offsets of the events are in. */
  readonly #text: string;
  readonly #layout: DeepenedText;
  readonly #events: Event[];
  readonly #tape: YamlTape;
  readonly #anchors = new Map<string, number>();
  readonly #open: number[] = [];
  #offset = 0;

  constructor(source: string, { events, layout }: ParsedEvents) {
    this.#text = layout.text;
    this.#layout = layout;
    this.#events = events;
    this.#tape = new YamlTape(source);
  }

  read(): YamlTape | ParseRejection {
    for (const event of this.#events) {
      const problem = this.#add(event);
      if (problem !== undefined) return problem;
      if (event.type === EVENT_ID.POP && this.#open.length === 0 && this.#tape.size > 0) break;
    }
    if (this.#tape.size === 0) this.#tape.addSlice(this.#offset, this.#offset, true);
    return this.#tape;
  }

  #add(event: Event): ParseRejection | undefined {
    switch (event.type) {
      case EVENT_ID.DOCUMENT:
        return undefined;
      case EVENT_ID.MAPPING:
      case EVENT_ID.SEQUENCE: {
        this.#offset = event.start;
        const kind = event.type === EVENT_ID.MAPPING ? NodeKind.MAP : NodeKind.LIST;
        const node = this.#tape.open(kind, this.#layout.sourceOffset(event.start));
        this.#open.push(node);
        this.#name(node, event);
        return undefined;
      }
      case EVENT_ID.SCALAR:
        return this.#addScalar(event);
      case EVENT_ID.ALIAS:
        return this.#addAlias(event.anchorStart, event.anchorEnd);
      case EVENT_ID.POP: {
        const node = this.#open.pop();
        if (node !== undefined) this.#tape.close(node);
        return undefined;
      }
    }
  }

  #addScalar(event: ScalarEvent): ParseRejection | undefined {
    const isEmpty = event.valueStart < 0;
    const start = this.#layout.sourceOffset(isEmpty ? this.#offset : this.#startOf(event));
    const end = isEmpty ? start : this.#layout.sourceOffset(event.valueEnd);
    const text = isEmpty ? '' : this.#valueOf(event);
    if (!text.isWellFormed()) {
      return { text: 'found invalid Unicode character escape code', offset: start };
    }
    const plain = event.style === SCALAR_STYLE.PLAIN;
    this.#name(this.#tape.addScalar({ start, end, plain, text }), event);
    if (!isEmpty) this.#offset = event.valueEnd;
    return undefined;
  }

  /** Of a block scalar the `|` or `>`; js-yaml says where its lines begin. */
  #startOf(event: ScalarEvent): number {
    if (!isBlockScalar(event)) return event.valueStart;
    const lineStart = this.#text.lastIndexOf('\n', event.valueStart - 2) + 1;
    const from = Math.max(lineStart, this.#offset, event.tagEnd, event.anchorEnd);
    const found = this.#text.slice(from, event.valueStart).search(/[|>]/);
    return found < 0 ? event.valueStart : from + found;
  }

  /** js-yaml ends the last line of a block scalar with a line break even where the text has none. */
  #valueOf(event: ScalarEvent): string {
    const value = getScalarValue(this.#text, event);
    if (!isBlockScalar(event) || !value.endsWith('\n')) return value;
    const lastLine = this.#text.slice(this.#text.lastIndexOf('\n', event.valueEnd - 1) + 1, event.valueEnd);
    const isAdded = event.chomping === CHOMPING_MODE.KEEP ? lastLine !== '' : lastLine.length > event.indent;
    return isAdded ? value.slice(0, -1) : value;
  }

  #addAlias(from: number, to: number): ParseRejection | undefined {
    const name = this.#text.slice(from, to);
    const start = this.#layout.sourceOffset(from);
    const target = this.#anchors.get(name);
    if (target === undefined) {
      return { text: `unknown anchor '${name}' referenced`, offset: start };
    }
    if (this.#tape.isOpen(target)) {
      return { text: `anchor '${name}' value contains itself`, offset: start };
    }
    this.#tape.addAlias(start, target);
    this.#offset = to;
    return undefined;
  }

  #name(node: number, { anchorStart, anchorEnd, tagStart, tagEnd }: Properties): void {
    if (anchorStart >= 0) this.#anchors.set(this.#text.slice(anchorStart, anchorEnd), node);
    if (tagStart >= 0) this.#tape.setTag(node, this.#text.slice(tagStart, tagEnd));
  }
}

type ScalarEvent = Event & { type: typeof EVENT_ID.SCALAR };

function isBlockScalar({ style }: ScalarEvent): boolean {
  return style === SCALAR_STYLE.LITERAL_BLOCK || style === SCALAR_STYLE.FOLDED_BLOCK;
}

interface Properties {
  anchorStart: number;
  anchorEnd: number;
  tagStart: number;
  tagEnd: number;
}

/** Characters parsed again for lines to deepen one by one, before it is given up. */
const patience = 1 << 25;
const minRounds = 16;

/** The events of a document, with offsets in `layout.text`. */
interface ParsedEvents {
  events: Event[];
  layout: DeepenedText;
}

/**
 * js-yaml's events for a document. Where it rejects a line inside brackets or quotes for its indentation, the line is
 * indented deeper and the text parsed again. All lines that begin with a closing bracket are taken together, first,
 * so that usual files are parsed twice; should one of them prove to be text, it is done line by line.
 */
function parseDeepening(document: string): ParsedEvents | ParseRejection {
  const plain = new DeepenedText(document);
  const first = tryToParse(plain);
  if (!isTooShallow(first)) return first;
  const closing = deepenByLine(plain.withClosingLines());
  if ('events' in closing && !closing.events.some((event) => isTextWithBrackets(event, closing.layout))) {
    return closing;
  }
  return deepenByLine(plain);
}

interface TooShallow {
  /** In the text of the layout. */
  shallowAt: number;
}

function deepenByLine(start: DeepenedText): ParsedEvents | ParseRejection {
  let layout = start;
  const rounds = Math.max(minRounds, Math.floor(patience / (layout.text.length + 1)));
  for (let round = 0; ; round++) {
    const result = tryToParse(layout);
    if (!isTooShallow(result)) return result;
    if (round === rounds) {
      const text = `more than ${rounds} lines in brackets or quotes are indented less than the block around them`;
      return { text, offset: layout.sourceOffset(result.shallowAt) };
    }
    const deeper = layout.deeperAt(result.shallowAt);
    if (deeper === undefined) {
      const offset = layout.sourceOffset(result.shallowAt);
      return { text: 'found a tab character that violates indentation', offset };
    }
    layout = deeper;
  }
}

function isTooShallow(result: ParsedEvents | ParseRejection | TooShallow): result is TooShallow {
  return 'shallowAt' in result;
}

function tryToParse(layout: DeepenedText): ParsedEvents | ParseRejection | TooShallow {
  try {
    return { events: parseEvents(layout.text, { maxDepth: maxYamlDepth }), layout };
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error;
    const offset = error.mark?.position ?? 0;
    const isAtEnd = layout.text.slice(offset).trim() === '';
    if (error.reason.startsWith('deficient indentation') && !isAtEnd) return { shallowAt: offset };
    return { text: error.reason, offset: layout.sourceOffset(offset) };
  }
}

/** Whether a line that begins with a closing bracket is part of a plain text or of a block's, not of a collection. */
function isTextWithBrackets(event: Event, { text }: DeepenedText): boolean {
  if (event.type !== EVENT_ID.SCALAR || event.valueStart < 0) return false;
  const isQuoted = event.style === SCALAR_STYLE.SINGLE_QUOTED || event.style === SCALAR_STYLE.DOUBLE_QUOTED;
  return !isQuoted && /(?:^|\n)[ \t]*[\]}]/.test(text.slice(event.valueStart, event.valueEnd));
}
/** Spaces that a line needs more, by the offset where it begins. */
type Depths = ReadonlyMap<number, number>;

/**
 * A text in which some lines are indented deeper than they were. js-yaml wants every line inside brackets or quotes
 * indented deeper than the block around them; YAML 1.1 and the Go service give these spaces no meaning.
 */
class DeepenedText {
  readonly #source: string;
  readonly #depths: Depths;
  /** Where inserted spaces end in `text`, and how many were inserted up to there. */
  readonly #ends: number[] = [];
  readonly #shifts: number[] = [];
  readonly text: string;

  constructor(source: string, depths: Depths = new Map()) {
    this.#source = source;
    this.#depths = depths;
    let text = '';
    let from = 0;
    let shift = 0;
    for (const [offset, spaces] of [...depths].sort(([a], [b]) => a - b)) {
      text += source.slice(from, offset) + ' '.repeat(spaces);
      from = offset;
      shift += spaces;
      this.#ends.push(offset + shift);
      this.#shifts.push(shift);
    }
    this.text = text + source.slice(from);
  }

  /** Where in the source a character of `text` stands. */
  sourceOffset(offset: number): number {
    let low = 0;
    let high = this.#ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#ends[middle]! <= offset) low = middle + 1;
      else high = middle;
    }
    const shifted = offset - (this.#shifts[low - 1] ?? 0);
    const nextEnd = this.#ends[low];
    if (nextEnd === undefined) return shifted;
    // Inside the spaces inserted next is where these were inserted.
    return Math.min(shifted, nextEnd - this.#shifts[low]!);
  }

  /** With the lines deeper that begin with a closing bracket; most that are not deep enough do. */
  withClosingLines(): DeepenedText {
    const depths = new Map(this.#depths);
    for (const { index } of this.#source.matchAll(/^[ \t]*(?=[\]}])/gm)) depths.set(index, firstDepth);
    return new DeepenedText(this.#source, depths);
  }

  /**
   * With the line that begins at an offset of `text` deeper, or without tabs where they stand before the offset.
   * Undefined where there is nothing to change.
   */
  deeperAt(offset: number): DeepenedText | undefined {
    const at = this.sourceOffset(offset);
    const line = /[^\r\n]*$/.exec(this.#source.slice(0, at))?.[0] ?? '';
    if (line.trim() !== '') return this.#withoutTabs(at, line);
    const lineStart = at - line.length;
    const depth = (this.#depths.get(lineStart) ?? firstDepth / 4) * 4;
    return depth > deepest
      ? undefined
      : new DeepenedText(this.#source, new Map(this.#depths).set(lineStart, depth));
  }

  /** Without the tabs at the end of a line's beginning, and those before a bracket and its properties there. */
  #withoutTabs(at: number, line: string): DeepenedText | undefined {
    const gap = /[ \t]*(?:(?:[&!][^ \t]*[ \t]+){0,2}[[{][ \t]*)?$/.exec(line.slice(-deepest))?.[0] ?? '';
    if (!gap.includes('\t')) return undefined;
    const before = this.#source.slice(0, at - gap.length) + gap.replaceAll('\t', ' ');
    return new DeepenedText(before + this.#source.slice(at), this.#depths);
  }
}

const deepest = 4096;

/** Deeper than blocks usually are. */
const firstDepth = 64;
