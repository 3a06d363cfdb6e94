import { CHOMPING_MODE, EVENT_ID, type Event, getScalarValue, SCALAR_STYLE } from 'js-yaml';
import type { SyntaxProblem } from './cursor.ts';
import type { DeepenedText } from './deepened-text.ts';
import { type ParsedEvents, parseDeepening } from './deepening-parser.ts';
import { NodeKind, YamlTape } from './tape.ts';

/** Reads any YAML document with the complete parser, five times slower and fatter than `readFast`. */
export function readComplete(text: string): YamlTape | SyntaxProblem {
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

  read(): YamlTape | SyntaxProblem {
    for (const event of this.#events) {
      const problem = this.#add(event);
      if (problem !== undefined) return problem;
      if (event.type === EVENT_ID.POP && this.#open.length === 0 && this.#tape.size > 0) break;
    }
    if (this.#tape.size === 0) this.#tape.addSlice(this.#offset, this.#offset, true);
    return this.#tape;
  }

  #add(event: Event): SyntaxProblem | undefined {
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

  #addScalar(event: ScalarEvent): SyntaxProblem | undefined {
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

  /** Of a block scalar the `|` or `>`; js-yaml tells where its lines begin. */
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

  #addAlias(from: number, to: number): SyntaxProblem | undefined {
    const name = this.#text.slice(from, to);
    const start = this.#layout.sourceOffset(from);
    const target = this.#anchors.get(name);
    if (target === undefined) {
      return { text: `unknown anchor '${name}' referenced`, offset: start, hasLine: false };
    }
    if (this.#tape.isOpen(target)) {
      return { text: `anchor '${name}' value contains itself`, offset: start, hasLine: false };
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
