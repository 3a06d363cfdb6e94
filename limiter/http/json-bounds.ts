/**
 * Counts what a JSON text has before it is parsed, in one pass over its bytes that ends at the first that is too many.
 * It looks for brackets, commas and strings alone: whether the text is JSON, and a request, is for those who read it.
 */
import type { RequestBounds } from '../decide/request-bounds.ts';

/** The request, its descriptors, one of them, its entries, one of them. */
const requestDepth = 5;
/** Chosen: more than the fields of any message, which the codec refuses in words of its own. */
const mostFields = 16;

const quote = 0x22;
const comma = 0x2c;
const backslash = 0x5c;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const letterU = 0x75;

/** Throws a `RequestTooLarge`, or an Error for what nests as no request does. */
export function checkJsonBounds(json: Uint8Array, bounds: RequestBounds): void {
  new JsonPass(json, bounds).run();
}

class JsonPass {
  readonly #json: Uint8Array;
  readonly #bounds: RequestBounds;
  /** Of what is open around the position, from the outside: the bracket, and how many elements it has at least. */
  readonly #brackets = new Uint8Array(requestDepth + 1);
  readonly #elements = new Uint32Array(requestDepth + 1);
  #depth = 0;
  #position = 0;

  constructor(json: Uint8Array, bounds: RequestBounds) {
    this.#json = json;
    this.#bounds = bounds;
  }

  run(): void {
    const json = this.#json;
    while (this.#position < json.length) {
      const byte = json[this.#position++]!;
      if (byte === quote) this.#passString();
      else if (byte === openBrace || byte === openBracket) this.#open(byte);
      else if (byte === comma) this.#another();
      else if ((byte === closeBrace || byte === closeBracket) && this.#depth > 0) this.#depth -= 1;
    }
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
    } else if (depth === 2) this.#bounds.checkDescriptors(elements);
    else if (depth === 4) this.#bounds.checkEntries(elements, this.#elements[2]! - 1);
  }

  /** Counts its bytes as UTF-8, escapes resolved. */
  #passString(): void {
    const json = this.#json;
    let position = this.#position;
    let bytes = 0;
    while (position < json.length) {
      const byte = json[position++]!;
      if (byte === quote) break;
      if (byte !== backslash) bytes += 1;
      else if (json[position++] !== letterU) bytes += 1;
      else {
        bytes += utf8Bytes(json, position);
        position += 4;
      }
    }
    this.#position = position;
    this.#bounds.checkText(bytes);
  }
}

/** What the UTF-16 unit of four hexadecimal digits takes; half of a pair takes half of what the pair does. */
function utf8Bytes(json: Uint8Array, at: number): number {
  const high = hexDigit(json[at]) * 16 + hexDigit(json[at + 1]);
  if (high === 0) return hexDigit(json[at + 2]) < 8 ? 1 : 2;
  if (high < 8) return 2;
  return high >= 0xd8 && high <= 0xdf ? 2 : 3;
}

function hexDigit(byte = 0): number {
  return byte <= 0x39 ? byte & 0x0f : (byte & 0x0f) + 9;
}
