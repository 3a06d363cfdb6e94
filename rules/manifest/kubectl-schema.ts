/**
 * What plain scalars of a manifest mean: what kubectl takes them for. It reads YAML 1.1 in the dialect of Go's yaml.v2,
 * in which `y` and `off` are booleans and 010 is 8, but dates and times of day are texts.
 */
import { defineScalarTag, FAILSAFE_SCHEMA, mergeTag, NOT_RESOLVED, type Schema } from 'js-yaml';

const booleans = new Map<string, boolean>();
for (const word of ['y', 'yes', 'on', 'true']) addSpellings(word, true);
for (const word of ['n', 'no', 'off', 'false']) addSpellings(word, false);

function addSpellings(word: string, value: boolean): void {
  const capitalized = `${word.charAt(0).toUpperCase()}${word.slice(1)}`;
  for (const spelling of [word, capitalized, word.toUpperCase()]) booleans.set(spelling, value);
}

const nulls = new Set(['', '~', 'null', 'Null', 'NULL']);
const notNumbers = new Set(['.nan', '.NaN', '.NAN']);
const infinity = /^([-+]?)\.(?:inf|Inf|INF)$/;
const integer = /^([-+]?)(?:0[xX]([\da-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9]\d*))$/;
const float = /^[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?$/;
const numberStarts = [...'+-.0123456789'];

const nullTag = defineScalarTag<null>('tag:yaml.org,2002:null', {
  implicit: true,
  implicitFirstChars: ['', '~', 'n', 'N'],
  resolve: (source) => (nulls.has(source) ? null : NOT_RESOLVED),
  identify: (value) => value === null,
});

const boolTag = defineScalarTag<boolean>('tag:yaml.org,2002:bool', {
  implicit: true,
  implicitFirstChars: [...'yYnNoOtTfF'],
  resolve: (source) => booleans.get(source) ?? NOT_RESOLVED,
  identify: (value) => typeof value === 'boolean',
});

const intTag = defineScalarTag<number>('tag:yaml.org,2002:int', {
  implicit: true,
  implicitFirstChars: numberStarts,
  resolve: (source) => integerOf(source) ?? NOT_RESOLVED,
  identify: Number.isInteger,
});

const floatTag = defineScalarTag<number>('tag:yaml.org,2002:float', {
  implicit: true,
  implicitFirstChars: numberStarts,
  resolve: (source) => floatOf(source) ?? NOT_RESOLVED,
  identify: (value) => typeof value === 'number',
});

export const kubectlSchema: Schema = FAILSAFE_SCHEMA.withTags(nullTag, boolTag, intTag, floatTag, mergeTag);

function integerOf(source: string): number | undefined {
  const match = integer.exec(source.replaceAll('_', ''));
  if (match === null) return undefined;
  const [, sign, hexadecimal, binary, octal, decimal] = match;
  const size =
    hexadecimal !== undefined
      ? Number.parseInt(hexadecimal, 16)
      : binary !== undefined
        ? Number.parseInt(binary, 2)
        : octal !== undefined
          ? Number.parseInt(octal, 8)
          : Number(decimal);
  return sign === '-' && size !== 0 ? -size : size;
}

function floatOf(source: string): number | undefined {
  const plain = source.replaceAll('_', '');
  if (float.test(plain)) return Number(plain);
  const infinite = infinity.exec(source);
  if (infinite !== null) return infinite[1] === '-' ? -Infinity : Infinity;
  return notNumbers.has(source) ? Number.NaN : undefined;
}
