/** Fields of a spec that this version does not know: where they are, what they hold, and the spec without them. Pure. */

import { entryFields } from '../../rules/language/fields.ts';
import { overrideSpecFields } from '../../rules/language/kinds.ts';
import { isObject } from '../../rules/model.ts';

/** From the spec on; the last step is the field. */
export type FieldPath = readonly (string | number)[];

/** Fields of an override's spec that this version does not know. */
export function unknownOverrideFields(spec: unknown): FieldPath[] {
  if (!isObject(spec)) return [];
  const entries: unknown[] = Array.isArray(spec['match']) ? spec['match'] : [];
  return [
    ...entries.flatMap((entry, index) =>
      unknownIn(entry, entryFields).map((field) => ['match', index, field]),
    ),
    ...unknownIn(spec, overrideSpecFields).map((field) => [field]),
  ];
}

function unknownIn(value: unknown, known: object): string[] {
  return isObject(value) ? Object.keys(value).filter((field) => !Object.hasOwn(known, field)) : [];
}

export function fieldAt(value: unknown, path: FieldPath): unknown {
  return path.reduce<unknown>(
    (at, step) => (at as Record<string | number, unknown> | undefined)?.[step],
    value,
  );
}

/** A copy of `spec`, which stays unchanged, without these fields. */
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
