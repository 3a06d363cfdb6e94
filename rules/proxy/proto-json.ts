/** Fields of protobuf's JSON, whose names are snake_case or camelCase, and their places in the files of an Envoy. */
import { isObject } from '../model.ts';
import type { TextPlace } from '../yaml/places.ts';

export interface EnvoyPlace extends TextPlace {
  file: string;
}

export type Fields = Record<string, unknown>;

/** Returns a field by its name in snake_case. */
export function field(owner: unknown, name: string): unknown {
  return namedField(owner, name)[1];
}

/** Returns a field and the name under which it is written. */
export function namedField(owner: unknown, name: string): [string, unknown] {
  if (!isObject(owner)) return [name, undefined];
  const camel = name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
  return Object.hasOwn(owner, name) || !Object.hasOwn(owner, camel)
    ? [name, owner[name]]
    : [camel, owner[camel]];
}

export function list(owner: unknown, name: string): unknown[] {
  const value = field(owner, name);
  return Array.isArray(value) ? value : [];
}

/** Returns the type of an Any, also if it is a TypedStruct of the type. Empty if it has none. */
export function typeUrl(given: unknown): string {
  return isObject(given) ? String(field(given, 'type_url') ?? given['@type'] ?? '') : '';
}

/** Returns the content of a `typed_config`, and its path below it. The fields of a TypedStruct are one step further down. */
export function typed(given: unknown): [unknown, string[]] {
  const isStruct = isObject(given) && String(given['@type']).endsWith('.TypedStruct');
  return isStruct ? [given['value'], ['value']] : [given, []];
}
