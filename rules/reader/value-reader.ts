import { type JsonObject, type JsonValue, maxUint32, mostRequests } from '../model.ts';
import { NodeKind } from '../yaml/tape.ts';
import {
  booleanValue,
  integerValue,
  printedScalar,
  scalarValue,
  setOwn,
  shortTag,
  typeTag,
} from '../yaml/values.ts';
import { type DocumentWalk, Stage } from './document-walk.ts';

/** What the Go service's messages call the type that a value must have. */
export const goTypes = {
  file: 'map[interface {}]interface {}',
  descriptors: '[]config.YamlDescriptor',
  rateLimit: 'config.YamlRateLimit',
  rateLimits: '[]config.YamlRateLimit',
  replaces: '[]config.yamlReplaces',
  calendar: 'config.YamlCalendar',
  reserve: 'config.YamlReserve',
  marks: '[]uint32',
  metadata: 'map[string]interface {}',
  string: 'string',
  bool: 'bool',
  uint32: 'uint32',
} as const;

/** Reads values of a wanted type. Null stands for the type's zero value; what does not fit is reported, and zero. */
export class ValueReader {
  readonly #walk: DocumentWalk;

  constructor(walk: DocumentWalk) {
    this.#walk = walk;
  }

  /** Integers and booleans are texts too, as they are written. */
  string(node: number): string {
    const type = this.#walk.scalarType(node);
    if (type === undefined || type === 'float' || type === 'huge') this.refuse(node, goTypes.string);
    else if (type !== 'null') return this.#walk.text(node);
    return '';
  }

  boolean(node: number): boolean {
    if (this.#walk.scalarType(node) === 'bool') return booleanValue(this.#walk.tape.text(node));
    this.refuse(node, goTypes.bool);
    return false;
  }

  uint32(node: number): number {
    return this.#whole(node, maxUint32) ?? 0;
  }

  /** Up to `mostRequests`. */
  requests(node: number): number {
    const small = this.#small(node);
    if (small >= 0) return small;
    const type = this.#walk.scalarType(node);
    const isTooMany =
      type === 'huge' || (type === 'int' && integerValue(this.#walk.tape.text(node)) > mostRequests);
    if (!isTooMany) return this.#whole(node, mostRequests) ?? 0;
    const name = this.#walk.log.path.at(-1);
    const text = `${name} can be at most ${mostRequests} (2^53 - 1), found ${this.#walk.tape.text(node)}`;
    this.#walk.log.value(node, 'wrong-type', text);
    return 0;
  }

  /** Of small whole numbers. Elements that are none are left out. */
  numbers(list: number): number[] {
    if (this.#walk.tape.kind(list) === NodeKind.LIST)
      return this.#walk
        .elements(list, (node) => this.#whole(node, maxUint32))
        .filter((value) => value !== undefined);
    this.refuse(list, goTypes.marks);
    return [];
  }

  /** Most numbers are plain and of few digits, and need no look at what else they may be; -1 for others. */
  #small(node: number): number {
    const { tape } = this.#walk;
    const isPlain = tape.kind(node) === NodeKind.SCALAR && tape.isPlain(node) && tape.tag(node) === undefined;
    return isPlain ? smallDecimal(tape.text(node)) : -1;
  }

  #whole(node: number, most: number): number | undefined {
    const { tape } = this.#walk;
    const small = this.#small(node);
    if (small >= 0) return small;
    if (this.#walk.scalarType(node) === 'int') {
      const value = integerValue(tape.text(node));
      if (value >= 0n && value <= most) return Number(value);
    }
    this.refuse(node, goTypes.uint32);
    return undefined;
  }

  /** A map of any content, added to what an earlier one held. Undefined when there is nothing in it. */
  metadata(node: number, earlier: JsonObject | undefined): JsonObject | undefined {
    if (this.#walk.tape.kind(node) !== NodeKind.MAP) {
      this.refuse(node, goTypes.metadata);
      return undefined;
    }
    const object = earlier ?? {};
    const keyText = (key: number) => (this.#walk.scalarType(key) === 'null' ? '' : this.#walk.text(key));
    this.#jsonMap(node, object, keyText);
    return Object.keys(object).length === 0 ? undefined : object;
  }

  /** Reports a value that is not of the type it must have, unless it is null. */
  refuse(node: number, goType: string): void {
    const type = this.#walk.scalarType(node);
    if (type === 'null') return;
    const isMetadata = goType === goTypes.metadata;
    if ((type === 'float' || type === 'huge') && !isMetadata) {
      this.#walk.refuseUnsupported(node);
      return;
    }
    if (type === undefined && !isMetadata) this.#walk.keysIn(node);
    this.mismatch(node, goType, Stage.TYPES);
  }

  mismatch(node: number, goType: string, stage: Stage): void {
    this.#walk.log.type(node, stage, `cannot unmarshal ${this.#typeAndText(node)} into ${goType}`);
  }

  #typeAndText(node: number): string {
    const { tape } = this.#walk;
    const kind = tape.kind(node);
    if (kind !== NodeKind.SCALAR) return kind === NodeKind.MAP ? '!!map' : '!!seq';
    const text = tape.text(node);
    const tag = tape.tag(node);
    const type = tag === undefined ? typeTag(this.#walk.scalarType(node) ?? 'string') : shortTag(tag);
    return `${type} \`${text.length > 10 ? `${text.slice(0, 7)}...` : text}\``;
  }

  #json(node: number): JsonValue {
    const { tape } = this.#walk;
    const kind = tape.kind(node);
    if (kind === NodeKind.SCALAR) return this.#walk.checked(node, () => scalarValue(tape, node)) ?? null;
    if (kind === NodeKind.MAP) {
      const object: JsonObject = {};
      this.#jsonMap(node, object, (key) => this.#walk.checked(key, () => printedScalar(tape, key)) ?? '');
      return object;
    }
    return this.#walk.elements(node, (element) => this.#json(element));
  }

  #jsonMap(map: number, object: JsonObject, keyText: (key: number) => string): void {
    this.#walk.eachEntry(map, keyText, (key, value) => setOwn(object, key, this.#json(value)));
  }
}

/** The value of up to nine decimal digits without a leading zero; -1 for anything else. */
function smallDecimal(text: string): number {
  const { length } = text;
  if (length === 0 || length > 9 || (length > 1 && text.charCodeAt(0) === 48)) return -1;
  let value = 0;
  for (let index = 0; index < length; index++) {
    const digit = text.charCodeAt(index) - 48;
    if (!(digit >= 0 && digit <= 9)) return -1;
    value = value * 10 + digit;
  }
  return value;
}
