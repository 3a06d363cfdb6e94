import { EVENT_ID, type Event, getScalarValue, parseEvents, SCALAR_STYLE, YAMLException } from 'js-yaml';
import type { SyntaxProblem } from './cursor.ts';
import { explainSyntax } from './syntax-words.ts';
import { NodeKind, YamlTape } from './tape.ts';

/** Collections in collections; the Go service stops at 10,000. */
const maxDepth = 400;

/** Reads any YAML document with the complete parser, five times slower and fatter than `readFast`. */
export function readComplete(text: string): YamlTape | SyntaxProblem {
  const document = firstDocument(text);
  let events: Event[];
  try {
    events = parseEvents(document, { maxDepth });
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error;
    return explainSyntax(error.reason, error.mark?.position ?? 0, document);
  }
  return new EventReader(text, events).read();
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
  readonly #text: string;
  readonly #events: Event[];
  readonly #tape: YamlTape;
  readonly #anchors = new Map<string, number>();
  readonly #open: number[] = [];
  #offset = 0;

  constructor(text: string, events: Event[]) {
    this.#text = text;
    this.#events = events;
    this.#tape = new YamlTape(text);
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
        const node = this.#tape.open(kind, event.start);
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

  #addScalar(event: Event & { type: typeof EVENT_ID.SCALAR }): SyntaxProblem | undefined {
    const isEmpty = event.valueStart < 0;
    const start = isEmpty ? this.#offset : event.valueStart;
    const end = isEmpty ? start : event.valueEnd;
    const text = isEmpty ? '' : getScalarValue(this.#text, event);
    if (!text.isWellFormed()) {
      return { text: 'found invalid Unicode character escape code', offset: start };
    }
    const plain = event.style === SCALAR_STYLE.PLAIN;
    this.#name(this.#tape.addScalar({ start, end, plain, text }), event);
    this.#offset = end;
    return undefined;
  }

  #addAlias(start: number, end: number): SyntaxProblem | undefined {
    const name = this.#text.slice(start, end);
    const target = this.#anchors.get(name);
    if (target === undefined) {
      return { text: `unknown anchor '${name}' referenced`, offset: start, hasLine: false };
    }
    if (this.#tape.isOpen(target)) {
      return { text: `anchor '${name}' value contains itself`, offset: start, hasLine: false };
    }
    this.#tape.addAlias(start, target);
    this.#offset = end;
    return undefined;
  }

  #name(node: number, { anchorStart, anchorEnd, tagStart, tagEnd }: Properties): void {
    if (anchorStart >= 0) this.#anchors.set(this.#text.slice(anchorStart, anchorEnd), node);
    if (tagStart >= 0) this.#tape.setTag(node, this.#text.slice(tagStart, tagEnd));
  }
}

interface Properties {
  anchorStart: number;
  anchorEnd: number;
  tagStart: number;
  tagEnd: number;
}
