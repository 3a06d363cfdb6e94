/** The reading of a spec of either kind: the form that limiters get, or why it is rejected. Pure. */

import { isDeepStrictEqual } from 'node:util';
import { compositeOf } from '../../rules/model.ts';
import { readSpec } from '../../rules/reader/manifest-reader.ts';
import { encodeResource } from '../../rules/reader/resource.ts';
import { formatManifestError } from '../../rules/rule-error.ts';
import { type ConfigObject, kindOf, objectKey, UnreadSpec } from '../model/config-object.ts';
import type {
  LastAcceptedSpec,
  PublishedSchemas,
  ServedConfig,
  SpecGeneration,
  UnknownField,
} from '../model/decision.ts';
import { hashOf, type Resource } from '../model/fleet-snapshot.ts';
import { neededCapabilities } from '../model/supported-rules.ts';
import { joinedWithin, shortened } from './conditions.ts';
import {
  type FieldPath,
  type FieldsOfObject,
  sortFields,
  unknownFieldRejection,
  withoutFields,
} from './newer-schema.ts';
import { type InForce, longestError, longestProblem, type Rejection } from './rejections.ts';

/** A valid spec, in the form that limiters get. */
export interface ReadSpec extends Pick<ServedConfig, 'spec' | 'fleet' | 'domain' | 'rules' | 'ownFields'> {
  ok: true;
  /** Unknown fields that hold the default of the CRD, as texts. */
  ignored: readonly string[];
  /** The object's rules alone, without the rules that they are merged with. */
  resource: Resource;
}

export interface ReadRules extends ReadSpec {
  /** The `key` or `key_value` of each rule on the top level. Objects of one domain may not share any. */
  topKeys: readonly string[];
}

export interface UnreadableSpec<Read extends ReadSpec> {
  ok: false;
  rejection: Rejection;
  /** Unknown fields that do not have the default of the CRD. */
  unknown: readonly UnknownField[];
  /** The spec without these fields. Undefined if there are other mistakes. */
  rest: Read | undefined;
}

export type ObjectSpecReading<Read extends ReadSpec> = Read | UnreadableSpec<Read>;

/** The mistakes in a spec. */
export interface SpecMistakes {
  ok: false;
  errors: readonly string[];
  errorCount: number;
  /** The paths of unknown fields. */
  unknown: readonly FieldPath[];
}

export interface ReadingFacts {
  /** The schemas of the CRDs. Undefined if no API server drops unknown fields, so that unknown fields are errors. */
  schemas: PublishedSchemas | undefined;
  /** The version of this program. */
  version: string;
}

/** Reads a spec. If fields of a newer CRD are the only mistakes, reads the rest. */
export function readingOf<Read extends ReadSpec>(
  { spec, kind }: Pick<ConfigObject, 'spec' | 'kind'>,
  { schemas, version }: ReadingFacts,
  read: (spec: unknown, ignored: readonly string[]) => Read | SpecMistakes,
): ObjectSpecReading<Read> {
  const rejected = (
    rejection: Rejection,
    unknown: readonly UnknownField[],
    rest?: Read,
  ): ObjectSpecReading<Read> => {
    return { ok: false, rejection, unknown, rest };
  };
  if (spec instanceof UnreadSpec)
    return rejected({ reason: 'Invalid', problem: shortened(spec.problem, longestProblem) }, []);
  const whole = read(spec, []);
  if (whole.ok) return whole;
  const paths = schemas === undefined ? [] : whole.unknown;
  if (paths.length === 0) return rejected(invalid(whole), []);
  const { ignored, unknown } = sortFields(spec, paths, schemas?.get(kindOf({ kind }).kind));
  const rest = read(withoutFields(spec, paths), ignored);
  if (!rest.ok) {
    const more = unknown.map(({ text }) => `${text}: unknown field`);
    const { errors, errorCount } = rest;
    const all = { errors: [...errors, ...more], errorCount: errorCount + more.length };
    return rejected(invalid(all), unknown);
  }
  return unknown.length === 0 ? rest : rejected(unknownFieldRejection(unknown, version), unknown, rest);
}

function invalid({ errors, errorCount }: Pick<SpecMistakes, 'errors' | 'errorCount'>): Rejection {
  const items = errors.map((item) => shortened(item, longestError));
  return { reason: 'Invalid', problem: joinedWithin({ items, count: errorCount }, longestProblem) };
}

/** A generation of an object, and the reading of its spec. */
export interface ReadGeneration<Read extends ReadSpec> extends SpecGeneration {
  reading: ObjectSpecReading<Read>;
}

/** An object with its readings. */
export interface ObjectReadings<Read extends ReadSpec> {
  object: ConfigObject;
  lastAccepted: LastAcceptedSpec | undefined;
  /** The newest generation, and then the stored one and its fallback, if there are any. */
  readings: readonly [newest: ReadGeneration<Read>, ...older: ReadGeneration<Read>[]];
  /** The facts on which the readings depend. */
  schemas: PublishedSchemas | undefined;
}

/** Reads the specs of an object. `last` is the object in the previous round, because a generation is read only once. */
export function readingsOf<Read extends ReadSpec>(
  { object, lastAccepted, schemas }: Omit<ObjectReadings<Read>, 'readings'>,
  last: ObjectReadings<Read> | undefined,
  read: (spec: unknown) => ObjectSpecReading<Read>,
): ObjectReadings<Read>['readings'] {
  const readOnce = ({ generation, spec }: SpecGeneration): ReadGeneration<Read> => {
    const known = last?.readings.find((one) => isSameSpec(one, { generation, spec }))?.reading;
    const isValid = known !== undefined && (last?.schemas === schemas || !followsFromSchemas(known));
    return { generation, spec, reading: isValid ? known : read(spec) };
  };
  const newest = readOnce(object);
  const older = [lastAccepted, lastAccepted?.fallback].flatMap((one) => one ?? []);
  return [
    newest,
    ...older.map((one) => (one.spec === object.spec ? { ...one, reading: newest.reading } : readOnce(one))),
  ];
}

/** Returns whether other schemas could lead to another reading. */
function followsFromSchemas(reading: ObjectSpecReading<ReadSpec>): boolean {
  return reading.ok ? reading.ignored.length > 0 : reading.unknown.length > 0;
}

/** A source may read a spec again although only the status has changed. A restored backup has old generations. */
function isSameSpec(a: SpecGeneration, b: SpecGeneration): boolean {
  return a.generation === b.generation && isDeepStrictEqual(a.spec, b.spec);
}

/** Returns fields of a newer CRD in the newest spec. Undefined if it has none. */
export function fieldsOf({
  object,
  readings: [{ reading: newest }],
}: Pick<ObjectReadings<ReadSpec>, 'object' | 'readings'>): FieldsOfObject | undefined {
  const { ignored = [] } = (newest.ok ? newest : newest.rest) ?? {};
  const unknown = newest.ok ? [] : newest.unknown;
  return ignored.length + unknown.length === 0 ? undefined : { object, ignored, unknown };
}

/** The review of an object that is not stored yet. */
export interface ObjectPreview {
  rejection: Rejection | undefined;
  /** The rules of a RateLimitConfig that would be served. Undefined if it is rejected regardless of the owner of its domain. */
  rules?: ReadRules | undefined;
  /** The rules that would be in force although the object is not accepted, if there are any. */
  inForce?: InForce | undefined;
  /** Whether newer schemas might end the rejection. */
  isDoubtful?: boolean;
  /** The reason why a RateLimitOverride would be served without effect. Undefined if it would have one. */
  idle?: string | undefined;
}

/** Reads the spec of a RateLimitConfig. */
export function readRules(
  object: Pick<ConfigObject, 'spec' | 'namespace' | 'name'>,
  facts: ReadingFacts,
): ObjectSpecReading<ReadRules> {
  const name = objectKey(object);
  return readingOf<ReadRules>(object, facts, (spec, ignored) => {
    const result = readSpec(spec, name);
    if (!result.ok) return { ...result, errors: result.errors.map((error) => formatManifestError(error)) };
    const { fleet, source, rules, ownFields } = result;
    const bytes = encodeResource(source);
    const { domain, descriptors } = source;
    const resource = { name, domain, bytes, hash: hashOf(bytes), needs: neededCapabilities(descriptors) };
    const topKeys = descriptors.map(compositeOf);
    return { ok: true, spec, ignored, fleet, domain, rules, ownFields, resource, topKeys };
  });
}

/** Returns what is served of a spec. `resource`: the name of the resource that contains it. */
export function servedConfig(
  { fleet, domain, rules, ownFields, spec, resource: { hash, bytes, needs } }: ReadSpec,
  { generation, without }: InForce,
  { resource, fallback }: Pick<ServedConfig, 'resource' | 'fallback'>,
): ServedConfig {
  const read = { fleet, domain, generation, spec, hash, bytes, resource, rules, ownFields, needs, fallback };
  return without === undefined ? read : { ...read, without };
}
