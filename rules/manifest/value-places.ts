import { EVENT_ID, type Event, getScalarValue, parseEvents } from 'js-yaml';
import { LineIndex, type TextPlace } from '../yaml/line-index.ts';
import type { DocumentText } from './document-texts.ts';

/** Finds line and column of values in one document of YAML by their paths. Does not follow aliases. */
export class ValuePlaces {
  readonly #text: string;
  readonly #firstLine: number;
  readonly #events: Event[];
  readonly #lines: LineIndex;
  /** The elements of lists that were asked for, so that many paths into one list cost one walk. */
  readonly #elements = new Map<number, number[]>();

  /** The document has to be one that js-yaml reads. */
  constructor({ text, firstLine }: DocumentText) {
    this.#text = text;
    this.#firstLine = firstLine;
    this.#events = parseEvents(text, {});
    this.#lines = new LineIndex(text);
  }

  /** Of the value at a path; of the last map or list on the way where there is no such value. */
  placeOf(path: readonly (string | number)[]): TextPlace {
    let index = 1;
    for (const step of path) {
      const child = typeof step === 'number' ? this.#element(index, step) : this.#value(index, step);
      if (child === undefined) break;
      index = child;
    }
    const { line, column } = this.#lines.placeOf(startOf(this.#events[index]));
    return { line: line + this.#firstLine - 1, column };
  }

  #element(list: number, position: number): number | undefined {
    if (this.#events[list]?.type !== EVENT_ID.SEQUENCE) return undefined;
    let elements = this.#elements.get(list);
    if (elements === undefined) {
      elements = [];
      for (let child = list + 1; !this.#isEnd(child); child = this.#after(child)) elements.push(child);
      this.#elements.set(list, elements);
    }
    return elements[position];
  }

  #value(map: number, key: string): number | undefined {
    if (this.#events[map]?.type !== EVENT_ID.MAPPING) return undefined;
    for (let child = map + 1; !this.#isEnd(child); ) {
      const value = this.#after(child);
      const event = this.#events[child];
      if (event?.type === EVENT_ID.SCALAR && getScalarValue(this.#text, event) === key) return value;
      child = this.#after(value);
    }
    return undefined;
  }

  #isEnd(index: number): boolean {
    const type = this.#events[index]?.type;
    return type === undefined || type === EVENT_ID.POP;
  }

  /** The index behind the value at `index`. */
  #after(index: number): number {
    let open = 0;
    let next = index;
    do {
      const type = this.#events[next++]?.type;
      if (type === EVENT_ID.SEQUENCE || type === EVENT_ID.MAPPING) open++;
      else if (type === EVENT_ID.POP || type === undefined) open--;
    } while (open > 0);
    return next;
  }
}

function startOf(event: Event | undefined): number {
  switch (event?.type) {
    case EVENT_ID.SEQUENCE:
    case EVENT_ID.MAPPING:
      return Math.max(event.start, 0);
    case EVENT_ID.SCALAR:
      return Math.max(event.valueStart, 0);
    case EVENT_ID.ALIAS:
      return Math.max(event.anchorStart, 0);
    default:
      return 0;
  }
}
