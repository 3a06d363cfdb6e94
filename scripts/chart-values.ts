/**
 * Reads charts/weir/values.yaml with its comments: the description, accepted values and default of each value. `# @schema {...}`
 * adds keywords of JSON Schema, and `# @free [{...}]` marks an object that may have any names.
 */
import { isMap, isScalar, type Pair, parseDocument, type YAMLMap } from 'yaml';

export type JsonSchema = Record<string, unknown>;

export interface ChartValue {
  /** Names from the root, joined by dots. */
  path: string;
  description: string;
  default: unknown;
}

export interface ChartValues {
  schema: JsonSchema;
  /** The values in the order of the file, without objects that have their own values. */
  values: ChartValue[];
}

interface Remark {
  description: string;
  words: JsonSchema;
  isFree: boolean;
}

/** Throws an Error that names a value without a description. */
export function readChartValues(text: string): ChartValues {
  const document = parseDocument(text);
  if (document.errors[0] !== undefined) throw document.errors[0];
  if (!isMap(document.contents)) throw new Error('values.yaml is no map');
  const values: ChartValue[] = [];
  const schema = objectSchema(document.contents, [], { description: '', words: {}, isFree: false }, values);
  return { schema: { $schema: 'http://json-schema.org/draft-07/schema#', ...schema }, values };
}

function objectSchema(
  map: YAMLMap,
  path: readonly string[],
  remark: Remark,
  values: ChartValue[],
): JsonSchema {
  const properties: JsonSchema = {};
  const required: string[] = [];
  for (const [index, pair] of map.items.entries()) {
    const name = String(pair.key);
    // The comment before the first name is the parser's comment of the whole map.
    const comment = commentOf(pair) ?? (index === 0 ? map.commentBefore : undefined) ?? '';
    const schema = valueSchema(pair, [...path, name], readRemark(comment), values);
    properties[name] = schema;
    if (!mayBeNull(schema)) required.push(name);
  }
  const closed = remark.isFree
    ? {}
    : { ...(required.length > 0 && { required }), additionalProperties: false };
  return { ...described(remark), type: 'object', properties, ...closed, ...remark.words };
}

function valueSchema(pair: Pair, path: readonly string[], remark: Remark, values: ChartValue[]): JsonSchema {
  const { value } = pair;
  if (isMap(value) && value.items.length > 0 && !value.flow) {
    return objectSchema(value, path, remark, values);
  }
  const name = path.join('.');
  if (remark.description === '') throw new Error(`${name}: no comment says what it is`);
  const json = isMap(value) || !isScalar(value) ? JSON.parse(JSON.stringify(value)) : value.value;
  values.push({ path: name, description: remark.description, default: json });
  if (isMap(value) && !remark.isFree) throw new Error(`${name}: an object with any names needs @free`);
  return { ...described(remark), type: typeOf(json), default: json, ...remark.words };
}

/** Helm removes a value that is null, together with its default. Lists, texts and objects with free names are then empty. */
function mayBeNull({ default: value, additionalProperties }: JsonSchema): boolean {
  return value === undefined ? additionalProperties !== false : typeof value === 'object' || value === '';
}

function commentOf({ key }: Pair): string | undefined {
  return isScalar(key) ? (key.commentBefore ?? undefined) : undefined;
}

function readRemark(comment: string): Remark {
  const remark: Remark = { description: '', words: {}, isFree: false };
  // Text before a blank line is not about this value.
  const own = comment.split(/\n\s*\n/).at(-1) as string;
  const sentences: string[] = [];
  for (const line of own.split('\n').map((each) => each.trim())) {
    const [, mark, words = ''] = /^@(schema|free)\s*(.*)$/.exec(line) ?? [];
    if (mark === undefined) sentences.push(line);
    if (mark === 'free') remark.isFree = true;
    if (words !== '') remark.words = { ...remark.words, ...JSON.parse(words) };
  }
  return { ...remark, description: sentences.join(' ').trim() };
}

function described({ description }: Remark): JsonSchema {
  return description === '' ? {} : { description };
}

function typeOf(value: unknown): string {
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  if (value === null) throw new Error('a default of null has no type');
  return typeof value;
}
