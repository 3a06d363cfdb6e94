import { NodeKind, type YamlTape } from './tape.ts';

/** A place in a text as people count: both from 1, columns in UTF-16 code units. */
export interface TextPlace {
  line: number;
  column: number;
}

/** Finds line and column of offsets in one text. Line breaks are LF, CR LF and CR. */
export class LineIndex {
  readonly #starts: number[] = [0];
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
    const lineBreak = /\r\n?|\n/g;
    while (lineBreak.test(text)) this.#starts.push(lineBreak.lastIndex);
  }

  /** A line without its break; undefined for one that the text does not have. */
  lineText(line: number): string | undefined {
    const start = this.#starts[line - 1];
    if (start === undefined) return undefined;
    return this.#text.slice(start, this.#starts[line]).replace(/(?:\r\n?|\n)$/, '');
  }

  placeOf(offset: number): TextPlace {
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#starts[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: offset - (this.#starts[low] ?? 0) + 1 };
  }
}

/** Finds the places of values in a document by their paths. Follows aliases and merge keys. */
export class PathLocator {
  readonly #tape: YamlTape;
  /** The elements of lists that were asked for, so that many paths into one list cost one walk. */
  readonly #elements = new Map<number, number[]>();

  constructor(tape: YamlTape) {
    this.#tape = tape;
  }

  /** Offset of the value at a path; of the last map or list on the way where there is no such value. */
  offsetOf(path: readonly (string | number)[]): number {
    const tape = this.#tape;
    let node = 0;
    for (const step of path) {
      const child = typeof step === 'number' ? this.#element(node, step) : this.#value(node, step);
      if (child === undefined) break;
      node = tape.resolve(child);
    }
    return tape.place(node);
  }

  /** Offset of the key at a path that ends in one; of its value where it comes from elsewhere, by `<<`. */
  offsetOfKey(path: readonly (string | number)[]): number {
    const tape = this.#tape;
    let map = 0;
    for (const step of path.slice(0, -1)) {
      const child = typeof step === 'number' ? this.#element(map, step) : this.#value(map, step);
      if (child === undefined) return this.offsetOf(path);
      map = tape.resolve(child);
    }
    if (tape.kind(map) !== NodeKind.MAP) return this.offsetOf(path);
    const end = tape.next(map);
    for (let key = map + 1; key < end; key = tape.next(tape.next(key))) {
      const node = tape.resolve(key);
      if (tape.kind(node) === NodeKind.SCALAR && tape.text(node) === path.at(-1)) return tape.place(key);
    }
    return this.offsetOf(path);
  }

  #element(list: number, index: number): number | undefined {
    if (this.#tape.kind(list) !== NodeKind.LIST) return undefined;
    let elements = this.#elements.get(list);
    if (elements === undefined) {
      elements = [];
      const end = this.#tape.next(list);
      for (let node = list + 1; node < end; node = this.#tape.next(node)) elements.push(node);
      this.#elements.set(list, elements);
    }
    return elements[index];
  }

  /** The value of a key; the last one where it is repeated, merged ones included. */
  #value(map: number, name: string): number | undefined {
    const tape = this.#tape;
    if (tape.kind(map) !== NodeKind.MAP) return undefined;
    let found: number | undefined;
    const end = tape.next(map);
    for (let key = map + 1; key < end; ) {
      const value = tape.next(key);
      const keyNode = tape.resolve(key);
      if (tape.kind(keyNode) === NodeKind.SCALAR) {
        const text = tape.text(keyNode);
        if (text === name) found = value;
        else if (text === '<<' && tape.isPlain(keyNode))
          found = this.#merged(tape.resolve(value), name) ?? found;
      }
      key = tape.next(value);
    }
    return found;
  }

  #merged(source: number, name: string): number | undefined {
    if (this.#tape.kind(source) !== NodeKind.LIST) return this.#value(source, name);
    const end = this.#tape.next(source);
    for (let node = source + 1; node < end; node = this.#tape.next(node)) {
      const found = this.#value(this.#tape.resolve(node), name);
      if (found !== undefined) return found;
    }
    return undefined;
  }
}

/** What finds line and column of the value at a path, in a document whose first line has that number in its file. */
export function valuePlacer(
  tape: YamlTape,
  firstLine = 1,
): (path: readonly (string | number)[]) => TextPlace {
  let locator: PathLocator | undefined;
  let lines: LineIndex | undefined;
  return (path) => {
    locator ??= new PathLocator(tape);
    lines ??= new LineIndex(tape.source);
    const { line, column } = lines.placeOf(locator.offsetOf(path));
    return { line: line + firstLine - 1, column };
  };
}

/** What is wrong with the value at a path, or with its key. */
export interface PathProblem {
  path: readonly (string | number)[];
  message: string;
  isKey?: boolean;
}

/** Problems with line and column, as they stand in the document. */
export function placedProblems(
  tape: YamlTape,
  problems: readonly PathProblem[],
): (TextPlace & { message: string })[] {
  const lines = new LineIndex(tape.source);
  const locator = new PathLocator(tape);
  return problems
    .map(({ path, message, isKey = false }) => ({
      offset: isKey ? locator.offsetOfKey(path) : locator.offsetOf(path),
      message,
    }))
    .sort((a, b) => a.offset - b.offset)
    .map(({ offset, message }) => ({ ...lines.placeOf(offset), message }));
}
