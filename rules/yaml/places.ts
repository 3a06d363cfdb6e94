import { NodeKind, type YamlTape } from './tape.ts';

/** A path of keys and list positions in a document. */
export type DocumentPath = readonly (string | number)[];

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

  /** Returns the offset of the value at a path. If there is no such value, returns that of the last map or list on the way. */
  offsetOf(path: DocumentPath): number {
    return this.#tape.place(this.#walk(path).node);
  }

  /** Returns the offset of the key at a path that ends in one. If it comes from elsewhere, by `<<`, returns that of its value. */
  offsetOfKey(path: DocumentPath): number {
    const tape = this.#tape;
    const { node, isWhole } = this.#walk(path.slice(0, -1));
    const keys = isWhole && tape.kind(node) === NodeKind.MAP ? tape.children(node) : [];
    const own = keys.find((key, index) => index % 2 === 0 && this.#textOf(key) === path.at(-1));
    return own === undefined ? this.offsetOf(path) : tape.place(own);
  }

  /** The place of the longest part of the path that exists. */
  #walk(path: DocumentPath): { node: number; isWhole: boolean } {
    let node = 0;
    for (const step of path) {
      const child = typeof step === 'number' ? this.#element(node, step) : this.#value(node, step);
      if (child === undefined) return { node, isWhole: false };
      node = this.#tape.resolve(child);
    }
    return { node, isWhole: true };
  }

  /** The place of a scalar. */
  #textOf(given: number): string | undefined {
    const node = this.#tape.resolve(given);
    return this.#tape.kind(node) === NodeKind.SCALAR ? this.#tape.text(node) : undefined;
  }

  #element(list: number, index: number): number | undefined {
    if (this.#tape.kind(list) !== NodeKind.LIST) return undefined;
    const elements = this.#elements.get(list) ?? this.#tape.children(list);
    this.#elements.set(list, elements);
    return elements[index];
  }

  /** The value of a key; the last one where it is repeated, merged ones included. */
  #value(map: number, name: string): number | undefined {
    const tape = this.#tape;
    if (tape.kind(map) !== NodeKind.MAP) return undefined;
    let found: number | undefined;
    const end = tape.next(map);
    for (let key = map + 1; key < end; key = tape.next(tape.next(key))) {
      const text = this.#textOf(key);
      const value = tape.next(key);
      if (text === name) found = value;
      else if (text === '<<' && tape.isPlain(tape.resolve(key)))
        found = this.#merged(tape.resolve(value), name) ?? found;
    }
    return found;
  }

  #merged(source: number, name: string): number | undefined {
    const tape = this.#tape;
    const sources = tape.kind(source) === NodeKind.LIST ? tape.children(source) : [source];
    for (const node of sources) {
      const found = this.#value(tape.resolve(node), name);
      if (found !== undefined) return found;
    }
    return undefined;
  }
}

/**
 * Returns a function that finds line and column of the value at a path, in a document whose first line has that number in its
 * file.
 */
export function valuePlacer(tape: YamlTape, firstLine = 1): (path: DocumentPath) => TextPlace {
  let locator: PathLocator | undefined;
  let lines: LineIndex | undefined;
  return (path) => {
    locator ??= new PathLocator(tape);
    lines ??= new LineIndex(tape.source);
    const { line, column } = lines.placeOf(locator.offsetOf(path));
    return { line: line + firstLine - 1, column };
  };
}

/** The problem of the value at a path, or of its key. */
export interface PathProblem {
  path: DocumentPath;
  message: string;
  isKey?: boolean;
}

/** Returns problems with their line and column in the document. */
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
