/**
 * Takes out of a JSON text what a request may not have before it is parsed, in one pass over its bytes: descriptors and entries
 * beyond their numbers. It looks for brackets, commas and strings alone: whether the rest is JSON, and a request, is for those
 * who read it, as is a list that comes twice, which they refuse.
 */
import { markerKeys } from '../decide/marker.ts';
import type { CrowdedDescriptor } from '../decide/messages.ts';
import type { RequestLimits } from '../decide/request-bounds.ts';

/** The request, its descriptors, one of them, its entries, one of them. */
const requestDepth = 5;
const descriptorsDepth = 2;
/** Chosen: more than the fields of any message, which the codec refuses in words of its own. */
const mostFields = 16;

const quote = 0x22;
const comma = 0x2c;
const backslash = 0x5c;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

export interface BoundedJson {
  /** The text without them; itself where there are none. */
  readonly json: Uint8Array;
  /** Descriptors that were taken out. */
  readonly descriptors: number;
  /** By the index of its descriptor, the entries that were taken out. */
  readonly entries: ReadonlyMap<number, CrowdedDescriptor>;
}

/** Throws an Error for what nests as no request does. */
export function boundedJson(json: Uint8Array, limits: RequestLimits): BoundedJson {
  return new JsonPass(json, limits).run();
}

class JsonPass {
  readonly #json: Uint8Array;
  readonly #limits: RequestLimits;
  /** Of what is open around the position, from the outside: the bracket, and how many elements it has at least. */
  readonly #brackets = new Uint8Array(requestDepth + 1);
  readonly #elements = new Uint32Array(requestDepth + 1);
  #depth = 0;
  #position = 0;
  /** Where what is taken out begins; 0: nothing is. It ends with the list of that depth. */
  #cutFrom = 0;
  #cutDepth = 0;
  readonly #kept: Uint8Array[] = [];
  #keptEnd = 0;
  #descriptors = 0;
  readonly #entries = new Map<number, CrowdedDescriptor>();

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
    // None yet: whether one follows, the comma or the end will say.
    this.#elements[depth] = 0;
    this.#another();
  }

  #another(): void {
    const depth = this.#depth;
    const elements = this.#elements[depth]! + 1;
    this.#elements[depth] = elements;
    if (this.#brackets[depth] === openBrace) {
      if (elements > mostFields) throw new Error(`an object of the JSON has more than ${mostFields} fields`);
      return;
    }
    const { maxDescriptors, maxEntries } = this.#limits;
    const most = depth === descriptorsDepth ? maxDescriptors : maxEntries;
    if (this.#cutFrom !== 0 || elements <= most) return;
    // Its comma goes with it.
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

  /** Index of the one that is open. */
  get #descriptor(): number {
    return this.#elements[descriptorsDepth]! - 1;
  }

  /** An escape may be part of a marker's key. */
  #crowded(entries: number, end: number): CrowdedDescriptor {
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
