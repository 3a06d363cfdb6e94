/** Kinds of values in models of Kubernetes objects: what a field takes, what it says of another value, and what the CRD has of it. */
import { z } from 'zod';
import { maxUint32, mostRequests, wholeFrom, wholePattern } from '../model.ts';
import { bounds } from './manifest-bounds.ts';

/** Facts that go into the CRD as they are, beside what a field refuses in its own words. */
export type SchemaFacts = Record<string, unknown> & { description: string };

/** The error of a value of another type. */
export function typed(wanted: string): { error: (issue: { input: unknown }) => string } {
  return {
    error: ({ input }) => (input === undefined ? 'is required' : `must be ${wanted}, found ${kindOf(input)}`),
  };
}

/** A text of at most `maxLength` characters. */
export function text(maxLength: number, facts: SchemaFacts): z.ZodType<string> {
  return z
    .string(typed('a string'))
    .superRefine((value, { addIssue }) => {
      const problem = textProblem(value, maxLength);
      if (problem !== undefined) addIssue({ code: 'custom', message: problem });
    })
    .meta({ maxLength, ...facts });
}

/** A text in which all must fit `pattern`; `rule` says in words what that is. */
export function patternText(
  { maxLength, pattern, rule }: { maxLength: number; pattern: string; rule: string },
  facts: SchemaFacts,
): z.ZodType<string> {
  const expression = new RegExp(pattern, 'u');
  return z
    .string(typed('a string'))
    .superRefine((value, { addIssue }) => {
      const problem =
        textProblem(value, maxLength) ??
        (expression.test(value) ? undefined : `must be ${rule}, found '${value}'`);
      if (problem !== undefined) addIssue({ code: 'custom', message: problem });
    })
    .meta({ maxLength, pattern, ...facts });
}

export function flag(facts: SchemaFacts): z.ZodType<boolean> {
  return z.boolean(typed('true or false')).meta(facts);
}

export function uint32(given: SchemaFacts): z.ZodType<number> {
  const facts = { minimum: 0, maximum: maxUint32, ...given };
  return z
    .number(typed('a whole number'))
    .refine((value) => Number.isInteger(value) && value >= 0 && value <= maxUint32, {
      error: ({ input }) =>
        `must be a whole number from ${facts.minimum} to ${facts.maximum}, found ${input}`,
    })
    .meta({ type: 'integer', format: 'int64', ...facts });
}

/** As `wholeFrom` reads it. Texts of larger numbers are for that to refuse. */
export function whole(given: SchemaFacts): z.ZodType<number | string> {
  const facts = { minimum: 0, maximum: mostRequests, ...given };
  return z
    .union([z.string(), z.number()], typed('a whole number'))
    .refine((value) => wholeFrom(value) !== undefined, {
      error: ({ input }) =>
        `must be a whole number from ${facts.minimum} to ${facts.maximum}, found ${kindOf(input)}`,
    })
    .meta({
      'x-kubernetes-int-or-string': true,
      anyOf: [{ type: 'integer' }, { type: 'string' }],
      pattern: wholePattern,
      ...facts,
    });
}

/** A list whose order matters: it is replaced as a whole when several parties apply it. */
export function list(element: z.ZodType, maxItems: number, facts: SchemaFacts): z.ZodType<unknown[]> {
  return z
    .array(element, typed('a list'))
    .refine((value) => value.length <= maxItems, {
      error: ({ input }) => `must have at most ${maxItems} elements, found ${(input as unknown[]).length}`,
    })
    .meta({ maxItems, 'x-kubernetes-list-type': 'atomic', ...facts });
}

/** A list that must have no elements, because it would be one level too deep. */
export function emptyList(problem: string, facts: SchemaFacts): z.ZodType<unknown[]> {
  return z
    .array(z.looseObject({}), typed('a list'))
    .refine((value) => value.length === 0, { error: problem })
    .meta({ maxItems: 0, 'x-kubernetes-list-type': 'atomic', ...facts });
}

/** An object of any content. */
export function freeObject(facts: SchemaFacts): z.ZodType<Record<string, unknown>> {
  return z
    .record(z.string(), z.unknown(), typed('an object'))
    .superRefine((value, { addIssue }) => {
      const problem = jsonProblem(value);
      if (problem !== undefined) addIssue({ code: 'custom', message: problem });
    })
    .meta({ 'x-kubernetes-preserve-unknown-fields': true, ...facts });
}

/** An object of these fields and no others. */
export function object<Shape extends z.ZodRawShape>(shape: Shape, facts: SchemaFacts): z.ZodType {
  return z.strictObject(shape, typed('an object')).meta(facts);
}

/** Characters are counted as the API server counts them: code points. */
function textProblem(value: string, maxLength: number): string | undefined {
  if (!value.isWellFormed()) return 'is not valid Unicode';
  if (value.length <= maxLength) return undefined;
  const { length } = [...value];
  return length <= maxLength ? undefined : `must have at most ${maxLength} characters, found ${length}`;
}

export function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'string')
    return `the text '${value.length > 40 ? `${value.slice(0, 40)}...` : value}'`;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return 'an object';
}
/** One of these texts. */
export function enumOf(
  known: readonly string[],
  unknown: (found: string) => string,
  facts: SchemaFacts,
): z.ZodType<string> {
  return z
    .string(typed('a string'))
    .refine((value) => known.includes(value), { error: ({ input }) => unknown(String(input)) })
    .meta({ type: 'string', enum: [...known], ...facts });
}

/** Why a value cannot be the metadata of a rule: it is no JSON, or nested too deeply. Undefined when it can. */
export function jsonProblem(value: unknown, levelsLeft: number = bounds.metadataLevels): string | undefined {
  switch (typeof value) {
    case 'string':
    case 'number':
    case 'boolean':
      return undefined;
    case 'object':
      break;
    default:
      return `must hold JSON values only, found a ${typeof value}`;
  }
  if (value === null) return undefined;
  if (levelsLeft === 0) return `must nest objects and lists at most ${bounds.metadataLevels} levels deep`;
  for (const member of Object.values(value)) {
    const problem = jsonProblem(member, levelsLeft - 1);
    if (problem !== undefined) return problem;
  }
  return undefined;
}
