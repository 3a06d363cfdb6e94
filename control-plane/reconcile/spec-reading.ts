/** One reading of the spec of a RateLimitConfig: its rules, or why it is rejected. Pure. */

import { kind } from '../../rules/language/kinds.ts';
import { compositeOf } from '../../rules/model.ts';
import { readSpec } from '../../rules/reader/manifest-reader.ts';
import { encodeResource } from '../../rules/reader/resource.ts';
import { formatManifestError, type RuleError } from '../../rules/rule-error.ts';
import { UnreadSpec } from '../model/config-object.ts';
import { hashOf, type Resource } from '../model/fleet-snapshot.ts';
import { neededCapabilities } from '../model/needed-capabilities.ts';
import type { PublishedSchemas, UnknownField } from '../model/newer-fields.ts';
import { joinedWithin, shortened } from './conditions.ts';
import { type FieldPath, sortFields, unknownFieldRejection, withoutFields } from './newer-schema.ts';
import { longestError, longestProblem, type Rejection } from './rejections.ts';

/** A valid spec, in the form that limiters get. */
export interface ReadRules {
  ok: true;
  /** The spec without fields of a newer CRD, in the form in which it was read. */
  spec: unknown;
  /** Unknown fields that hold the default of the CRD, as texts. */
  ignored: readonly string[];
  fleet: string;
  domain: string;
  /** The number of rules on all levels. */
  rules: number;
  /** As in `ServedConfig`. */
  ownFields: readonly string[];
  /** The object's rules alone, without the rules that they are merged with. */
  resource: Resource;
  /** The `key` or `key_value` of each rule on the top level. Objects of one domain may not share any. */
  topKeys: readonly string[];
}

export interface UnreadableSpec {
  ok: false;
  rejection: Rejection;
  /** Unknown fields that do not have the default of the CRD. */
  unknown: readonly UnknownField[];
  /** The rules without these fields. Undefined if there are other mistakes. */
  rest: ReadRules | undefined;
}

export type ObjectSpecReading = ReadRules | UnreadableSpec;

export interface ReadingFacts {
  /** The name of the object in messages. */
  name: string;
  /** The schemas of the CRDs. Undefined if no API server drops unknown fields, so that unknown fields are errors. */
  schemas: PublishedSchemas | undefined;
  /** The version of this program. */
  version: string;
}

/** Returns whether other schemas could lead to another reading. */
export function followsFromSchemas(reading: ObjectSpecReading): boolean {
  return reading.ok ? reading.ignored.length > 0 : reading.unknown.length > 0;
}

export function readingOf(spec: unknown, facts: ReadingFacts): ObjectSpecReading {
  const { name, schemas } = facts;
  if (spec instanceof UnreadSpec) {
    const rejection: Rejection = { reason: 'Invalid', problem: shortened(spec.problem, longestProblem) };
    return { ok: false, rejection, unknown: [], rest: undefined };
  }
  const result = readSpec(spec, name);
  if (result.ok) return readRules(result, { spec, name, ignored: [] });
  const paths = schemas === undefined ? [] : result.unknown;
  if (paths.length === 0) return { ok: false, rejection: invalid(result), unknown: [], rest: undefined };
  return readWithout(spec, paths, facts);
}

function readWithout(spec: unknown, paths: readonly FieldPath[], facts: ReadingFacts): ObjectSpecReading {
  const { name, schemas, version } = facts;
  const { ignored, unknown } = sortFields(spec, paths, schemas?.get(kind));
  const reduced = withoutFields(spec, paths);
  const result = readSpec(reduced, name);
  if (!result.ok) {
    const { errors, errorCount } = result;
    const more = unknown.map(({ text }) => `${text}: unknown field`);
    const rejection = invalid({ errors, errorCount: errorCount + more.length }, more);
    return { ok: false, rejection, unknown, rest: undefined };
  }
  const rest = readRules(result, { spec: reduced, name, ignored });
  if (unknown.length === 0) return rest;
  return { ok: false, rejection: unknownFieldRejection(unknown, version), unknown, rest };
}

function invalid(
  { errors, errorCount }: { errors: readonly RuleError[]; errorCount: number },
  more: readonly string[] = [],
): Rejection {
  const items = [...errors.map((error) => formatManifestError(error)), ...more];
  const shown = items.map((item) => shortened(item, longestError));
  return {
    reason: 'Invalid',
    problem: joinedWithin({ items: shown, count: errorCount }, longestProblem),
  };
}

function readRules(
  accepted: Extract<ReturnType<typeof readSpec>, { ok: true }>,
  { spec, name, ignored }: { spec: unknown; name: string; ignored: readonly string[] },
): ReadRules {
  const { fleet, source, rules, ownFields } = accepted;
  const bytes = encodeResource(source);
  const { domain, descriptors } = source;
  const resource = { name, domain, bytes, hash: hashOf(bytes), needs: neededCapabilities(descriptors) };
  const topKeys = descriptors.map(compositeOf);
  return { ok: true, spec, ignored, fleet, domain, rules, ownFields, resource, topKeys };
}
