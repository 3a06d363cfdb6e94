/**
 * Removes descriptors and entries beyond their maximum numbers from a JSON text before it is parsed, in one pass over its bytes. It only
 * looks at brackets, commas and strings. The parser then checks that the text is JSON and a request, and rejects a list that occurs
 * twice.
 */
import { markerKeys } from '../decide/marker.ts';
import type { OversizedDescriptor } from '../decide/messages.ts';
import type { RequestLimits } from '../decide/request-bounds.ts';

/** The nesting of a request: the request, its descriptors, one of them, its entries, one of them. */
const requestDepth = 5;
const descriptorsDepth = 2;
/** Chosen: more than the fields of any message. The codec rejects unknown fields with its own message. */
const maxFields = 16;

const quote = 0x22;
const comma = 0x2c;
const backslash = 0x5c;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

export interface BoundedJson {
  /** The text without the removed parts. It is the same object if nothing was removed. */
  readonly json: Uint8Array;
  /** The number of removed descriptors. */
  readonly descriptors: number;
  /** The removed entries, by the index of their descriptor. */
  readonly entries: ReadonlyMap<number, OversizedDescriptor>;
}

/** @throws Error if the text nests unlike a request */
export function boundedJson(json: Uint8Array, limits: RequestLimits): BoundedJson {
  return new JsonPass(json, limits).run();
}

class JsonPass {
  readonly #json: Uint8Array;
  readonly #limits: RequestLimits;
  /** The open brackets around the position, the outermost first, and the number of elements that each has at least. */
  readonly #brackets = new Uint8Array(requestDepth + 1);
  readonly #elements = new Uint32Array(requestDepth + 1);
  #depth = 0;
  #position = 0;
  /** The start of the text to remove; 0: nothing. The text ends with the list at this depth. */
  #cutFrom = 0;
  #cutDepth = 0;
  readonly #kept: Uint8Array[] = [];
  #keptEnd = 0;
  #descriptors = 0;
  readonly #entries = new Map<number, OversizedDescriptor>();

  constructor(json: Uint8Array, limits: RequestLimits) {
    this.#json = json;
    this.#limits = limits;
  }

  run(): BoundedJson {
    const json = this.#json;
    while (this.#position < json.length) {
      const byte = json[this.#position++]!;
      if (byte === quote) this.#passString();
      else if (byte === openBrace || byte === openBracket) this.#open(byte);
      else if (byte === comma) this.#another();
      else if ((byte === closeBrace || byte === closeBracket) && this.#depth > 0) this.#close();
    }
    const rest = json.subarray(this.#keptEnd);
    return {
      json: this.#kept.length === 0 ? json : Buffer.concat([...this.#kept, rest]),
      descriptors: this.#descriptors,
      entries: this.#entries,
    };
  }

  #open(bracket: number): void {
    if (this.#depth === requestDepth) {
      throw new Error(`the JSON nests deeper than a request, which has ${requestDepth} levels`);
    }
    const depth = ++this.#depth;
    if (bracket === openBracket && depth % 2 !== 0) {
      throw new Error(`the JSON has a list at level ${depth}, where a request has an object`);
    }
    this.#brackets[depth] = bracket;
    // The next call counts the first element. Until a comma or the end, it is unknown whether there is one.
    this.#elements[depth] = 0;
    this.#another();
  }

  #another(): void {
    const depth = this.#depth;
    const elements = this.#elements[depth]! + 1;
    this.#elements[depth] = elements;
    if (this.#brackets[depth] === openBrace) {
      if (elements > maxFields) throw new Error(`an object of the JSON has more than ${maxFields} fields`);
      return;
    }
    const { maxDescriptors, maxEntries } = this.#limits;
    const max = depth === descriptorsDepth ? maxDescriptors : maxEntries;
    if (this.#cutFrom !== 0 || elements <= max) return;
    // The comma before it is removed, too.
    this.#cutFrom = this.#position - 1;
    this.#cutDepth = depth;
  }

  #close(): void {
    const depth = this.#depth--;
    if (this.#cutFrom === 0 || depth !== this.#cutDepth) return;
    const end = this.#position - 1;
    const elements = this.#elements[depth]!;
    if (depth === descriptorsDepth) this.#descriptors = elements - this.#limits.maxDescriptors;
    else this.#entries.set(this.#descriptor, this.#crowded(elements - this.#limits.maxEntries, end));
    this.#kept.push(this.#json.subarray(this.#keptEnd, this.#cutFrom));
    this.#keptEnd = end;
    this.#cutFrom = 0;
  }

  /** The index of the open descriptor. */
  get #descriptor(): number {
    return this.#elements[descriptorsDepth]! - 1;
  }

  /** A backslash may be an escape inside a marker's key. */
  #crowded(entries: number, end: number): OversizedDescriptor {
    const text = Buffer.from(this.#json.buffer, this.#json.byteOffset + this.#cutFrom, end - this.#cutFrom);
    const mayHaveMarkers = text.includes(backslash) || markerKeys.some((key) => text.includes(key));
    return { entries, unmarked: mayHaveMarkers ? 0 : entries };
  }

  #passString(): void {
    const json = this.#json;
    let position = this.#position;
    while (position < json.length) {
      const byte = json[position++]!;
      if (byte === quote) break;
      if (byte === backslash) position += 1;
    }
    this.#position = position;
  }
}
