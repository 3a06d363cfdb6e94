import { parseYaml } from './parse.ts';
import { LineIndex, type PathProblem, placedProblems, type TextPlace } from './places.ts';
import { printedValue, scalarText, scalarValue, setOwn, shortTag, TagMismatch } from './scalars.ts';
import { maxYamlDepth, NodeKind, YamlTape } from './tape.ts';
import type { SyntaxProblem } from './text.ts';

/** The first document of a text, and whether anything but comments follows it. */
export interface YamlDocument {
  value: unknown;
  tape: YamlTape;
  hasMore: boolean;
}

/** The values of scalars: what YAML 1.1 takes them for, or the text as it is written. */
type Scalars = 'typed' | 'texts';

const scalarTags = { typed: ['!!str', '!!int', '!!bool', '!!null', '!!float'], texts: ['!!str'] };

/** Reads a document into plain values, with its merge keys. A byte order mark is no part of it. */
export function readDocument(text: string, scalars: Scalars): YamlDocument | SyntaxProblem {
  const tape = parseYaml(text.replace(/^\ufeff/, ''), true);
  if (!(tape instanceof YamlTape)) return tape;
  try {
    const value = new ValueBuilder(tape, scalars).value(0);
    const hasMore = /^(?!---|\.\.\.)[ \t]*[^# \t\r\n]|^(?:---|\.\.\.)[ \t]+[^# \t\r\n]/m.test(tape.rest);
    return { value, tape, hasMore };
  } catch (error) {
    if (error instanceof DocumentError) return { text: error.message, offset: error.offset };
    throw error;
  }
}

/** The size that the limiter reads of a file that it follows, in bytes. */
const maxBytes = 262_144;

/** Places count from 1. */
export interface TextFileProblem extends TextPlace {
  message: string;
}

/**
 * Reads a file in which every scalar is a text, so that nothing has to be quoted. `read` makes a value of the document. The value
 * is used if it adds no problem. Never throws.
 */
export function readTextFile<Value>(
  text: string,
  read: (document: YamlDocument, problems: PathProblem[]) => Value,
): { value: Value; tape: YamlTape; problems?: undefined } | { problems: TextFileProblem[] } {
  if (Buffer.byteLength(text) > maxBytes)
    return { problems: [{ line: 1, column: 1, message: `is larger than ${maxBytes} bytes` }] };
  const document = readDocument(text, 'texts');
  if (!('tape' in document))
    return { problems: [{ ...new LineIndex(text).placeOf(document.offset), message: document.text }] };
  const problems: PathProblem[] = [];
  const value = read(document, problems);
  const { tape } = document;
  return problems.length > 0 ? { problems: placedProblems(tape, problems) } : { value, tape };
}

class DocumentError extends Error {
  readonly offset: number;

  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}

class ValueBuilder {
  readonly #tape: YamlTape;
  readonly #scalars: Scalars;
  /** The number of values that may still be made. Aliases count as the values that they stand for. */
  #left: number;
  #depth = 0;

  constructor(tape: YamlTape, scalars: Scalars) {
    this.#tape = tape;
    this.#scalars = scalars;
    this.#left = 10 * tape.source.length + 10_000;
  }

  value(given: number): unknown {
    const tape = this.#tape;
    const node = tape.resolve(given);
    if (--this.#left < 0) {
      this.#fail(0, 'aliases make the document more than ten times as large as its text');
    }
    if (++this.#depth > maxYamlDepth) this.#fail(given, `exceeded max depth of ${maxYamlDepth}`);
    const kind = tape.kind(node);
    let value: unknown;
    if (kind === NodeKind.SCALAR) value = this.#scalar(node);
    else if (kind === NodeKind.MAP) value = this.#map(node);
    else value = this.#children(node, '!!seq').map((child) => this.value(child));
    this.#depth--;
    return value;
  }

  #scalar(node: number): unknown {
    const tape = this.#tape;
    this.#checkTag(node, scalarTags[this.#scalars]);
    try {
      return this.#scalars === 'typed' ? scalarValue(tape, node) : scalarText(tape, node);
    } catch (error) {
      if (error instanceof TagMismatch) this.#fail(node, error.message);
      throw error;
    }
  }

  /** Reads a map. Of several maps behind `<<` with keys of the same name, the first one wins. A key of the map itself wins over all. */
  #map(node: number): Record<string, unknown> {
    const tape = this.#tape;
    const map: Record<string, unknown> = {};
    const own = new Set<string>();
    const children = this.#children(node, '!!map');
    for (let i = 0; i < children.length; i += 2) {
      const key = tape.resolve(children[i]!);
      const given = children[i + 1]!;
      if (tape.kind(key) !== NodeKind.SCALAR) this.#fail(key, `invalid map key: ${printedValue(tape, key)}`);
      if (tape.isPlain(key) && tape.text(key) === '<<') {
        for (const [name, value] of this.#merged(given))
          if (!Object.hasOwn(map, name)) setOwn(map, name, value);
        continue;
      }
      const name = String(this.#scalar(key));
      if (own.has(name)) this.#fail(key, 'duplicated mapping key');
      own.add(name);
      setOwn(map, name, this.value(given));
    }
    return map;
  }

  #merged(given: number): [string, unknown][] {
    const tape = this.#tape;
    const node = tape.resolve(given);
    const sources = tape.kind(node) === NodeKind.LIST ? this.#children(node, '!!seq') : [node];
    return sources.flatMap((source) => {
      if (tape.kind(tape.resolve(source)) !== NodeKind.MAP) {
        this.#fail(given, 'map merge requires map or sequence of maps as the value');
      }
      return Object.entries(this.value(source) as object);
    });
  }

  #children(node: number, tag: string): number[] {
    this.#checkTag(node, [tag]);
    return this.#tape.children(node);
  }

  #checkTag(node: number, known: readonly string[]): void {
    const tag = this.#tape.tag(node);
    if (tag === undefined || tag === '!' || known.includes(shortTag(tag))) return;
    this.#fail(node, `unknown tag ${shortTag(tag)}`);
  }

  #fail(node: number, text: string): never {
    throw new DocumentError(text, this.#tape.place(node));
  }
}
