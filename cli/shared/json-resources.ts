/**
 * Resources as JSON, for people and for pipelines: a discovery response in proto3 JSON, which control planes and their debugging
 * tools print, or one resource with its `@type`.
 */
import {
  type JsonValue as AnyJson,
  create,
  type DescField,
  type DescMessage,
  fromJson,
  ScalarType,
  toJson,
} from '@bufbuild/protobuf';
import { RateLimitConfigSchema } from '../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import { isObject, maxUint32, type RuleSource } from '../../rules/model.ts';
import { valueInWords } from '../../rules/reader/manifest-reader.ts';
import { fromMessage, rateLimitConfigTypeUrl, toMessage } from '../../rules/reader/resource.ts';
import { type FieldProblem, orWords, similarName } from '../../rules/rule-error.ts';

type Path = (string | number)[];

/** One resource of a text with its path from the root of the text, or why it cannot be read. The paths of problems are below its path. */
export type JsonResource = { path: Path } & (
  | { source: RuleSource; problems: FieldProblem[] }
  | { unreadable: FieldProblem[] }
  | { otherType: string }
);

/** A discovery response with these resources, without version and nonce: a server gives those. */
export function resourcesToJson(sources: readonly RuleSource[]): AnyJson {
  const resources = sources.map((source) => ({
    '@type': rateLimitConfigTypeUrl,
    ...(toJson(RateLimitConfigSchema, toMessage(source)) as Record<string, AnyJson>),
  }));
  return { resources, typeUrl: rateLimitConfigTypeUrl };
}

/** The resources of a parsed text. It does not check the meaning of the rules. */
export function resourcesFromJson(value: unknown): JsonResource[] {
  if (!isObject(value)) return [unreadable([], 'must be a resource or a discovery response')];
  if ('@type' in value) return [resourceFromJson(value, [])];
  const { resources } = value;
  if (!Array.isArray(resources)) return [unreadable([], 'must be a list', 'resources')];
  return resources.map((resource, index) => resourceFromJson(resource, ['resources', index]));
}

function unreadable(path: Path, text: string, ...below: Path): JsonResource {
  return { path, unreadable: [{ code: 'wrong-type', path: below, text }] };
}

function resourceFromJson(value: unknown, path: Path): JsonResource {
  if (!isObject(value)) return unreadable(path, 'must be an object');
  const { '@type': type, ...fields } = value;
  if (typeof type !== 'string') return unreadable(path, 'is required', '@type');
  if (type !== rateLimitConfigTypeUrl) return { path, otherType: type };
  if (rejection(RateLimitConfigSchema, fields) !== undefined)
    return { path, unreadable: messageProblems(RateLimitConfigSchema, fields, []) };
  const message = create(RateLimitConfigSchema, fromJson(RateLimitConfigSchema, fields as AnyJson));
  const problems: FieldProblem[] = [];
  return { path, source: fromMessage(message, (problem) => problems.push(problem)), problems };
}

/** Returns why a value is not a message, in the words of the library, which stops at the first problem and names no place. */
function rejection(schema: DescMessage, value: unknown): string | undefined {
  try {
    fromJson(schema, value as AnyJson);
    return undefined;
  } catch (error) {
    return (error as Error).message.replace(/^cannot decode .*? from JSON:? /, '');
  }
}

/** Finds the parts of a value that are not as the message requires. */
function messageProblems(schema: DescMessage, value: unknown, path: Path): FieldProblem[] {
  const reason = rejection(schema, value);
  if (reason === undefined) return [];
  if (!isObject(value)) return [wrongType(path, 'an object', value)];
  const whole: FieldProblem = { code: 'wrong-type', path, text: reason };
  // Messages of this package, such as Struct, have a JSON form of their own.
  if (schema.typeName.startsWith('google.protobuf.')) return [whole];
  const problems = Object.entries(value).flatMap(([key, one]) => {
    const field = schema.fields.find(({ name, jsonName }) => key === name || key === jsonName);
    return field === undefined
      ? [unknownField(schema, key, [...path, key])]
      : fieldProblems(field, one, [...path, key]);
  });
  return problems.length > 0 ? problems : [whole];
}

function fieldProblems(field: DescField, value: unknown, path: Path): FieldProblem[] {
  if (value === null) return [];
  if (field.fieldKind === 'message') return messageProblems(field.message, value, path);
  if (field.fieldKind !== 'list') return scalarProblems(field, value, value, path);
  if (!Array.isArray(value)) return [wrongType(path, 'a list', value)];
  return value.flatMap((one, index) =>
    field.listKind === 'message'
      ? messageProblems(field.message, one, [...path, index])
      : scalarProblems(field, [one], one, [...path, index]),
  );
}

/** `part` is the value itself, or the element if `value` is a list of one. */
function scalarProblems(field: DescField, value: unknown, part: unknown, path: Path): FieldProblem[] {
  if (rejection(field.parent, { [field.jsonName]: value }) === undefined) return [];
  return [wrongType(path, scalarWords(field), part)];
}

function scalarWords({ enum: values, scalar }: DescField): string {
  if (values !== undefined) {
    const names = values.values.map(({ name }) => name).filter((name) => name !== 'UNKNOWN');
    return orWords(names);
  }
  if (scalar === ScalarType.STRING) return 'a string';
  if (scalar === ScalarType.BOOL) return 'true or false';
  return scalar === ScalarType.UINT32 ? `a whole number from 0 to ${maxUint32}` : 'a whole number';
}

function wrongType(path: Path, wanted: string, found: unknown): FieldProblem {
  return { code: 'wrong-type', path, text: `must be ${wanted}, found ${valueInWords(found)}` };
}

function unknownField({ fields }: DescMessage, key: string, path: Path): FieldProblem {
  const known = fields.map(({ jsonName }) => jsonName);
  const meant = similarName(key, known);
  const hint = meant === undefined ? `known here: ${known.join(', ')}` : `did you mean ${meant}?`;
  return { code: 'unknown-key', path, text: `unknown field; ${hint}` };
}
