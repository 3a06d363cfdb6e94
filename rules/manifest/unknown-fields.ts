/** Fields of a spec that this version does not know: where they are, what they hold, and the spec without them. Pure. */
import type { z } from 'zod';

/** From the spec on; the last step is the field. */
export type FieldPath = readonly (string | number)[];

/** The fields of `spec` that `model`, whose objects are strict, does not have; in the order in which they stand. */
export function unknownFields(model: z.ZodType, spec: unknown): FieldPath[] {
  const parsed = model.safeParse(spec);
  const issues = parsed.success ? [] : parsed.error.issues;
  return issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => [...(issue.path as (string | number)[]), key])
      : [],
  );
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
