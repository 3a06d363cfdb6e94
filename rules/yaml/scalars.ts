import { NodeKind, type YamlTape } from './tape.ts';

/**
 * The type that YAML 1.1 gives a scalar, as far as rules distinguish types. `huge` is an integer from 2^63 to 2^64 - 1; a larger
 * one is a float.
 */
export type ScalarType = 'null' | 'bool' | 'int' | 'huge' | 'float' | 'string';

const nulls = new Set(['~', 'null', 'Null', 'NULL']);
const booleans = new Map([
  ...named(true, ['y', 'Y', 'yes', 'Yes', 'YES', 'true', 'True', 'TRUE', 'on', 'On', 'ON']),
  ...named(false, ['n', 'N', 'no', 'No', 'NO', 'false', 'False', 'FALSE', 'off', 'Off', 'OFF']),
]);
const floatNames = new Map([
  ...named(Number.NaN, ['.nan', '.NaN', '.NAN']),
  ...named(Infinity, ['.inf', '.Inf', '.INF', '+.inf', '+.Inf', '+.INF']),
  ...named(-Infinity, ['-.inf', '-.Inf', '-.INF']),
]);
const longestWord = 5;

const integer = /^([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|0[0-7]*|[1-9][0-9]*)$/;
const float = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/;
const minInteger = -(2n ** 63n);
const maxInteger = 2n ** 63n - 1n;
const maxUnsigned = 2n ** 64n - 1n;

function named<Value>(value: Value, words: readonly string[]): [string, Value][] {
  return words.map((word) => [word, value]);
}

/** The type of a scalar written without quotes and without a tag. */
export function plainType(text: string): ScalarType {
  const char = text.charCodeAt(0);
  if (isNumberStart(char)) return numberType(text);
  if (text === '') return 'null';
  if (text.length > longestWord || !isWordStart(char)) return 'string';
  if (booleans.has(text)) return 'bool';
  return nulls.has(text) ? 'null' : 'string';
}

/** The value of a scalar whose type is `bool`. */
export function booleanValue(text: string): boolean {
  return booleans.get(text) ?? false;
}

/** The value of a scalar whose type is `int` or `huge`. */
export function integerValue(text: string): bigint {
  const match = integer.exec(text.replaceAll('_', ''));
  if (match === null) throw new RangeError(`not an integer: ${text}`);
  const [, sign, digits = ''] = match;
  const value = BigInt(/^0[0-7]/.test(digits) ? `0o${digits.slice(1)}` : digits);
  return sign === '-' ? -value : value;
}

/** The value of a scalar whose type is `float`. */
export function floatValue(text: string): number {
  return floatNames.get(text) ?? Number(text.replaceAll('_', ''));
}

/** Returns whether the character is a digit, a sign or a dot. */
function isNumberStart(char: number): boolean {
  return (char >= 48 && char <= 57) || char === 43 || char === 45 || char === 46;
}

/** Returns whether a word for true, false or null can begin with this letter. */
function isWordStart(char: number): boolean {
  const letter = char | 32;
  return (
    letter === 121 || letter === 110 || letter === 116 || letter === 102 || letter === 111 || char === 126
  );
}

function numberType(text: string): ScalarType {
  if (floatNames.has(text)) return 'float';
  const digits = text.includes('_') ? withoutSeparators(text) : text;
  const match = integer.exec(digits);
  if (match !== null) {
    if (digits.length < 16) return 'int';
    const value = integerValue(digits);
    if (value >= minInteger && value <= maxInteger) return 'int';
    if (value <= maxUnsigned && value > 0n && match[1] === '') return 'huge';
  }
  return float.test(digits) && Number.isFinite(Number(digits)) ? 'float' : 'string';
}

/** Removes the underscores that separate digits. In a number that begins with a dot, they must be alone between two digits. */
function withoutSeparators(text: string): string {
  if (text.startsWith('.') && /(?<![0-9])_|_(?![0-9])/.test(text)) return text;
  return text.replaceAll('_', '');
}

const longTagPrefix = 'tag:yaml.org,2002:';

/** A scalar whose explicit tag it does not fit. */
export class TagMismatch extends Error {}

/** Returns `!!str` for `!!str` and for `!<tag:yaml.org,2002:str>`. */
export function shortTag(tag: string): string {
  const name = tag.startsWith('!<') ? tag.slice(2, -1) : tag;
  return name.startsWith(longTagPrefix) ? `!!${name.slice(longTagPrefix.length)}` : name;
}

/** The type of a scalar, from its tag, its quotes and its text. Throws `TagMismatch`. */
export function scalarType(tape: YamlTape, node: number): ScalarType {
  const tag = tape.tag(node);
  if (tag === undefined) return tape.isPlain(node) ? plainType(tape.text(node)) : 'string';
  const text = tape.text(node);
  const short = shortTag(tag);
  switch (short) {
    case '!!int':
    case '!!bool':
    case '!!null':
    case '!!float':
      break;
    default:
      return 'string';
  }
  const found = plainType(text);
  if (found === 'int' && short === '!!float') return 'float';
  if (typeTag(found) === short) return found;
  throw new TagMismatch(`cannot decode ${typeTag(found)} \`${text}\` as a ${short}`);
}

/** The text of a scalar; what it encodes when it is tagged as binary. Throws `TagMismatch`. */
export function scalarText(tape: YamlTape, node: number): string {
  const tag = tape.tag(node);
  const text = tape.text(node);
  if (tag === undefined || shortTag(tag) !== '!!binary') return text;
  const base64 = text.replaceAll(/[\r\n]/g, '');
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(base64)) {
    throw new TagMismatch('!!binary value contains invalid base64 data');
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(base64, 'base64'));
  } catch {
    throw new TagMismatch('!!binary value is not UTF-8');
  }
}

/** The tag that a type has when none is written. */
export function typeTag(type: ScalarType): string {
  if (type === 'string') return '!!str';
  return type === 'huge' ? '!!int' : `!!${type}`;
}

/** The value of a scalar as JSON has it; integers beyond 2^53 lose their last digits. */
export function scalarValue(tape: YamlTape, node: number): null | boolean | number | string {
  const type = scalarType(tape, node);
  const text = scalarText(tape, node);
  if (type === 'string') return text;
  if (type === 'null') return null;
  if (type === 'bool') return booleanValue(text);
  return type === 'float' ? floatValue(text) : Number(integerValue(text));
}

/** Chosen: the maximum number of characters of a value in a message. */
const maxPrinted = 200;

/** Returns a value as the Go service prints it in a message, truncated. */
export function printedValue(tape: YamlTape, node: number): string {
  const text = printed(tape, node, { left: maxPrinted });
  return text.length <= maxPrinted ? text : `${text.slice(0, maxPrinted)}...`;
}

function printed(tape: YamlTape, given: number, budget: { left: number }): string {
  const node = tape.resolve(given);
  if (budget.left <= 0) return '';
  const kind = tape.kind(node);
  if (kind === NodeKind.SCALAR) {
    const text = printedScalar(tape, node);
    budget.left -= text.length;
    return text;
  }
  budget.left--;
  const parts: string[] = [];
  const step = kind === NodeKind.LIST ? 1 : 2;
  const children = tape.children(node);
  for (let i = 0; i < children.length && budget.left > 0; i += step)
    parts.push(
      children
        .slice(i, i + step)
        .map((child) => printed(tape, child, budget))
        .join(':'),
    );
  return kind === NodeKind.LIST ? `[${parts.join(' ')}]` : `map[${parts.sort().join(' ')}]`;
}

/** A scalar as Go's `%v` prints it. */
export function printedScalar(tape: YamlTape, node: number): string {
  const type = scalarType(tape, node);
  const text = scalarText(tape, node);
  if (type === 'string') return text;
  if (type === 'null') return '<nil>';
  if (type === 'bool') return String(booleanValue(text));
  return type === 'float' ? printedFloat(floatValue(text)) : String(integerValue(text));
}

/** A number as Go's `%v` prints it: with an exponent of two digits below 1e-4 and from 1e6. */
function printedFloat(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? '+Inf' : '-Inf';
  if (Object.is(value, -0)) return '-0';
  const [mantissa = '', exponent = '0'] = value.toExponential().split('e');
  const power = Number(exponent);
  if (power >= -4 && power < 6) return String(value);
  return `${mantissa}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`;
}

/** Sets a key, even if it is `__proto__`. */
export function setOwn<Value>(object: Record<string, Value>, key: string, value: Value): void {
  if (key !== '__proto__') object[key] = value;
  else Object.defineProperty(object, key, { value, enumerable: true, writable: true, configurable: true });
}
