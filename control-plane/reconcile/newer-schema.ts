/**
 * Fields of a spec that this program does not know: their paths, the spec without them, and their definition in the API server's
 * own schemas. Such fields come from a CRD that is newer than the program, because the API server drops fields that its CRD does
 * not have. Pure.
 */
import { isDeepStrictEqual } from 'node:util';
import { fieldPath } from '../../rules/rule-error.ts';
import { type ConfigObject, kindOf } from '../model/config-object.ts';
import type { FieldSchema, NewerFields, UnknownField } from '../model/decision.ts';
import { joinedWithin, shortened } from './conditions.ts';
import { longestError, longestProblem, type Rejection } from './rejections.ts';

/** Fields of one spec, divided by its API server's schema. */
export interface SortedFields {
  /** Fields with the default that the API server sets, as texts. */
  ignored: readonly string[];
  unknown: readonly UnknownField[];
}

/** `paths`: the paths of all fields of the spec that this program does not know. */
export function sortFields(
  spec: unknown,
  paths: readonly FieldPath[],
  schema: FieldSchema | undefined,
): SortedFields {
  const ignored: string[] = [];
  const unknown: UnknownField[] = [];
  for (const path of paths) {
    const field = fieldOf(schema, path);
    const text = fieldPath(['spec', ...path]);
    if (field !== undefined && holdsDefault(field, fieldAt(spec, path))) ignored.push(text);
    else unknown.push({ text, isPublished: field !== undefined });
  }
  return { ignored, unknown };
}

function fieldOf(schema: FieldSchema | undefined, path: FieldPath): FieldSchema | undefined {
  return path.reduce<FieldSchema | undefined>(
    (at, step) => (typeof step === 'number' ? at?.items : ownProperty(at?.properties, step)),
    schema,
  );
}

function holdsDefault(field: FieldSchema, value: unknown): boolean {
  return field.default !== undefined && isDeepStrictEqual(value, withDefaults(field, field.default));
}

/** Returns the value after the API server has added the defaults of the fields below it. */
function withDefaults(schema: FieldSchema, value: unknown): unknown {
  if (Array.isArray(value)) {
    const { items } = schema;
    return items === undefined ? value : value.map((element) => withDefaults(items, element));
  }
  if (typeof value !== 'object' || value === null) return value;
  const filled: Record<string, unknown> = { ...value };
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    if (filled[name] === undefined && field.default !== undefined) filled[name] = field.default;
    if (filled[name] !== undefined) filled[name] = withDefaults(field, filled[name]);
  }
  return filled;
}

function ownProperty<T>(members: Readonly<Record<string, T>> | undefined, name: string): T | undefined {
  return members !== undefined && Object.hasOwn(members, name) ? members[name] : undefined;
}

export interface FieldsOfObject extends SortedFields {
  object: Pick<ConfigObject, 'kind'>;
}

/** A doubt is about a field, regardless of the objects that have it, so that an object that changes often adds none. */
export function newerFields(objects: Iterable<FieldsOfObject>): NewerFields {
  const ignored = new Set<string>();
  const doubts = new Set<string>();
  const inAnyRule = (field: string): string => field.replace(/\[\d+\]/g, '[]');
  for (const { object, ignored: left, unknown } of objects) {
    for (const field of left) ignored.add(inAnyRule(field));
    for (const { text, isPublished } of unknown) {
      if (!isPublished) doubts.add(`${kindOf(object).kind} ${inAnyRule(text)}`);
    }
  }
  return { ignored, doubts };
}

/** Returns whether newer schemas might end a rejection because of these fields. */
export function isInDoubt(unknown: readonly UnknownField[]): boolean {
  return unknown.some(({ isPublished }) => !isPublished);
}

/** Returns the rejection for a field that only a newer version knows, and that must not be left out silently. */
export function unknownFieldRejection(unknown: readonly UnknownField[], version: string): Rejection {
  const items = unknown.map(({ text }) => shortened(text, longestError));
  const fields = joinedWithin({ items, count: items.length }, longestProblem);
  const [verb, them] =
    unknown.length === 1
      ? ['comes from a newer CRD and does', 'it']
      : ['come from a newer CRD and do', 'them'];
  const problem = `${fields} ${verb} not hold the default: version ${version} of the control plane does not know ${them}`;
  return { reason: 'UnknownField', problem };
}

/** A path, starting with the spec. The last step is the field. */
export type FieldPath = readonly (string | number)[];

export function fieldAt(value: unknown, path: FieldPath): unknown {
  return path.reduce<unknown>(
    (at, step) => (at as Record<string | number, unknown> | undefined)?.[step],
    value,
  );
}

/** Returns a copy of `spec` without these fields. `spec` stays unchanged. */
export function withoutFields(spec: unknown, paths: readonly FieldPath[]): unknown {
  if (paths.length === 0) return spec;
  const below = new Map<string | number, FieldPath[]>();
  for (const [step, ...rest] of paths) {
    if (step === undefined) continue;
    const known = below.get(step);
    if (known === undefined) below.set(step, [rest]);
    else known.push(rest);
  }
  const copy = Array.isArray(spec) ? [...spec] : { ...(spec as Record<string | number, unknown>) };
  const members = copy as Record<string | number, unknown>;
  for (const [step, rests] of below) {
    if (rests.some((rest) => rest.length === 0)) delete members[step];
    else members[step] = withoutFields(members[step], rests);
  }
  return copy;
}
