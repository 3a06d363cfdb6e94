/**
 * What YAML 1.1 takes a scalar for, as far as rules tell types apart.
 * `huge` is an integer from 2^63 to 2^64 - 1; a larger one is a float.
 */
export type ScalarType = 'null' | 'bool' | 'int' | 'huge' | 'float' | 'string';

const nulls = new Set(['~', 'null', 'Null', 'NULL']);
const booleans = new Map<string, boolean>([
  ...['y', 'Y', 'yes', 'Yes', 'YES', 'true', 'True', 'TRUE', 'on', 'On', 'ON'].map(yes),
  ...['n', 'N', 'no', 'No', 'NO', 'false', 'False', 'FALSE', 'off', 'Off', 'OFF'].map(no),
]);
const floatNames = new Map<string, number>([
  ...['.nan', '.NaN', '.NAN'].map((name): [string, number] => [name, Number.NaN]),
  ...['.inf', '.Inf', '.INF'].map((name): [string, number] => [name, Infinity]),
  ...['.inf', '.Inf', '.INF'].map((name): [string, number] => [`+${name}`, Infinity]),
  ...['.inf', '.Inf', '.INF'].map((name): [string, number] => [`-${name}`, -Infinity]),
]);
const longestWord = 5;

const integer = /^([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|0[0-7]*|[1-9][0-9]*)$/;
const float = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/;
const minInteger = -(2n ** 63n);
const maxInteger = 2n ** 63n - 1n;
const maxUnsigned = 2n ** 64n - 1n;

function yes(word: string): [string, boolean] {
  return [word, true];
}

function no(word: string): [string, boolean] {
  return [word, false];
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

/** Digits, signs and dots. */
function isNumberStart(char: number): boolean {
  return (char >= 48 && char <= 57) || char === 43 || char === 45 || char === 46;
}

/** First letters of the words for true, false and null. */
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

/** Underscores separate digits; in a number that begins with a dot they must stand alone between two of them. */
function withoutSeparators(text: string): string {
  if (text.startsWith('.') && /(?<![0-9])_|_(?![0-9])/.test(text)) return text;
  return text.replaceAll('_', '');
}
