/**
 * The JSON Schemas of `spec` of objects, from the rows of `rules/language`. They contain keywords that only the API server reads
 * (`x-kubernetes-*`), and keywords that it rejects. `crd.ts` and `schemas.ts` each leave out the keywords of the other.
 */
import { algorithmNames } from '../rules/algorithms/registry.ts';
import {
  calendarFields,
  descriptorLevels,
  entryFields,
  type FieldKind,
  type FieldRow,
  type FieldRows,
  limitFields,
  type OverrideRow,
  type OverrideRows,
  replacesFields,
  reserveFields,
  ruleFields,
  type ValueFacts,
} from '../rules/language/fields.ts';
import { overrideSpecFields, specFields } from '../rules/language/kinds.ts';
import { effectFields, endFields, enumName, ruleFileName } from '../rules/language/tables.ts';
import { maxRequests, maxUint32, wholeNumberPattern } from '../rules/model.ts';
import { type RuleChecks, sentenceChecks, structuralChecks } from './rule-checks.ts';

export type Schema = { [word: string]: unknown };

/** The place of a field: its level of rules, from 1, and whether it belongs to one limit among several. */
interface Position {
  readonly level: number;
  readonly isAmongSeveral?: boolean;
}
const top: Position = { level: 0 };

const listType = { 'x-kubernetes-list-type': 'atomic' };
const numberOrText = {
  'x-kubernetes-int-or-string': true,
  anyOf: [{ type: 'integer' }, { type: 'string' }],
};

function object(rows: FieldRows | OverrideRows, position: Position, facts: Schema): Schema {
  const fields = Object.entries(rows);
  const required = fields.filter(([, row]) => row.isRequired === true).map(([name]) => name);
  return {
    type: 'object',
    properties: Object.fromEntries(fields.map(([name, row]) => [name, schemaOf(row, position)])),
    ...(required.length > 0 && { required }),
    additionalProperties: false,
    ...facts,
  };
}

function list({ description, max, min }: ValueFacts, items: Schema): Schema {
  return {
    type: 'array',
    items,
    ...(max !== undefined && { maxItems: max }),
    ...listType,
    ...(min !== undefined && { minItems: min }),
    description,
  };
}

function enumOf(words: readonly string[], description: string): Schema {
  return { type: 'string', enum: words.map(enumName), description };
}

function text(row: ValueFacts): Schema {
  const { max, min, pattern, format, description, words, mayBeNull } = row;
  if (words !== undefined) return enumOf(words, description);
  const schema = {
    type: 'string',
    maxLength: max,
    ...(pattern !== undefined && { pattern }),
    ...(min !== undefined && { minLength: min }),
    ...(format !== undefined && { format }),
    ...(row.default !== undefined && { default: row.default }),
    description,
  };
  return mayBeNull ? { ...schema, nullable: true } : schema;
}

function whole({ min = 0, max = maxRequests, description }: ValueFacts): Schema {
  return { ...numberOrText, pattern: wholeNumberPattern, minimum: min, maximum: max, description };
}

type Facts = Omit<FieldRow, 'kind'> & Pick<OverrideRow, 'says'>;
type Writers = {
  readonly [Kind in FieldKind | OverrideRow['kind']]: (row: Facts, position: Position) => Schema;
};

const writers: Writers = {
  text,
  unit: text,
  boolean: ({ description, amongSeveral, says }, { isAmongSeveral, level }) => {
    if (isAmongSeveral && amongSeveral !== undefined)
      return { type: 'boolean', ...checksAt(level).unlimitedOfSeveral, ...described(amongSeveral) };
    // A field of an override has a value, or is absent.
    return { type: 'boolean', ...(says !== undefined && { enum: [true] }), description };
  },
  uint32: ({ min = 0, max = maxUint32, description }) => {
    return { type: 'integer', format: 'int64', minimum: min, maximum: max, description };
  },
  requests: whole,
  algorithm: ({ words = [], description }) => enumOf(words, description),
  unitOfHits: ({ words = [], description }) => enumOf(words, description),
  percents: (row) =>
    list(row, {
      type: 'integer',
      format: 'int64',
      minimum: 1,
      maximum: 100,
      description: row.element,
    }),
  day: ({ min, max, pattern, description }) => {
    return { ...numberOrText, minimum: min, maximum: max, pattern, description };
  },
  share: ({ pattern, description }) => {
    return { ...numberOrText, pattern, minimum: 0, maximum: 0, description };
  },
  calendar: ({ description }, position) => object(calendarFields, position, { description }),
  reserve: ({ description }, position) => object(reserveFields, position, { description }),
  metadata: ({ description }) => {
    return {
      type: 'object',
      propertyNames: { type: 'string' },
      additionalProperties: {},
      'x-kubernetes-preserve-unknown-fields': true,
      description,
    };
  },
  names: (row, position) => list(row, object(replacesFields, position, { description: row.element })),
  limit: ({ description }, position) =>
    object(limitFields, position, { description, ...checksAt(position.level).rateLimit }),
  limits: (row, position) => {
    const { level } = position;
    const { description, element, min, max } = row;
    const facts = { description: element, ...checksAt(level).limitOfSeveral };
    const items = object(limitFields, { level, isAmongSeveral: true }, facts);
    return { type: 'array', items, minItems: min, maxItems: max, ...listType, description };
  },
  rules: (row, { level }) => {
    if (level === descriptorLevels) {
      const description = `Must be empty: rules nest at most ${level} levels deep.`;
      const items = { type: 'object', properties: {}, additionalProperties: {} };
      return { type: 'array', items, maxItems: 0, ...listType, description };
    }
    const below = { level: level + 1 };
    const { descriptor } = checksAt(below.level);
    return list(row, object(ruleFields, below, { description: row.element, ...descriptor }));
  },
  entries: (row) => list(row, object(entryFields, top, { description: row.element })),
};

function described({ description }: Pick<ValueFacts, 'description'>): Schema {
  return { description };
}

function schemaOf(row: FieldRow | OverrideRow, position: Position): Schema {
  return writers[row.kind](row, position);
}

/** The values of enums in rule files, by their spelling in manifests. */
const ruleFileSpelling = new Map<unknown, string>(
  Object.values<FieldRow>({ ...limitFields, ...reserveFields })
    .flatMap(({ words = [] }) => words)
    .map((word) => [enumName(word), word]),
);

/** Returns a value as rule files spell it. */
export function ruleFileWord(value: unknown): unknown {
  return ruleFileSpelling.get(value) ?? value;
}

/** Replaces the spelling of manifests by that of rule files. */
export function ruleFileWords(words: string): string {
  const named = words.replace(/\b[a-z]+(?:[A-Z][a-z]+)+\b/g, ruleFileName);
  return algorithmNames.reduce((all, name) => all.replaceAll(enumName(name), name), named);
}

/** Expressions with messages are too expensive below the first level. */
function checksAt(level: number): RuleChecks {
  return level === 1 ? sentenceChecks : structuralChecks;
}

/** `spec` of a RateLimitConfig. */
export const specSchema = object(specFields, top, { description: 'Rate limits of one domain.' });

/** The field `for` in the Common Expression Language (CEL). Kubernetes 1.30 accepts only this spelling. */
const spelled = (field: string): string => (field === 'for' ? '__for__' : field);

/** Returns a CEL expression that is true if exactly `count` of these fields are present. */
function howMany(fields: readonly string[], count: number): string {
  return `[${fields.map((field) => `has(self.${spelled(field)})`).join(', ')}].filter(one, one).size() == ${count}`;
}

/** `spec` of a RateLimitOverride. */
export const overrideSpecSchema = object(overrideSpecFields, top, {
  description: 'A temporary change of limits of a domain.',
  'x-kubernetes-validations': [
    {
      rule: howMany(effectFields, 1),
      message: `exactly one effect is needed: ${effectFields.join(', ')}`,
    },
    {
      rule: `has(self.grant) || ${howMany(endFields, 1)}`,
      message: `exactly one end is needed: ${endFields.join(', ')}`,
    },
    {
      rule: `!has(self.grant) || ${howMany(endFields, 0)}`,
      message: 'a grant ends with its window, so it has no other end',
    },
    {
      rule: "!has(self.grant) || self.match.all(entry, !has(entry.value) || !entry.value.contains('*'))",
      message: 'a grant needs exact entries, without * in values',
    },
    {
      rule: '!has(self.unit) || has(self.requestsPerUnit)',
      message: 'unit needs requestsPerUnit',
    },
  ],
});
