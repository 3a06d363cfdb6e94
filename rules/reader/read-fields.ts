import type { RuleErrorCode } from '../rule-error.ts';

/** Kinds of map in a rule file, as bits, so that a key can belong to several. */
export const Place = { FILE: 1, DESCRIPTOR: 2, RATE_LIMIT: 4, REPLACES: 8 } as const;
export type Place = (typeof Place)[keyof typeof Place];

/** A key of the rule language: where it means something, and a bit of its own to notice it twice. */
export interface Field {
  readonly name: string;
  readonly places: number;
  readonly bit: number;
}

const { FILE, DESCRIPTOR, RATE_LIMIT, REPLACES } = Place;

const placesByKey: Record<string, number> = {
  domain: FILE,
  descriptors: FILE | DESCRIPTOR,
  key: DESCRIPTOR,
  value: DESCRIPTOR,
  rate_limit: DESCRIPTOR,
  shadow_mode: DESCRIPTOR,
  quota_mode: DESCRIPTOR,
  detailed_metric: DESCRIPTOR,
  value_to_metric: DESCRIPTOR,
  share_threshold: DESCRIPTOR,
  metadata: DESCRIPTOR,
  unit: RATE_LIMIT,
  requests_per_unit: RATE_LIMIT,
  unlimited: RATE_LIMIT,
  replaces: RATE_LIMIT,
  name: RATE_LIMIT | REPLACES,
};

/** Every key of the rule language. The Go service accepts each of them in any map. */
export const fields: ReadonlyMap<string, Field> = new Map(
  Object.entries(placesByKey).map(([name, places], index) => [name, { name, places, bit: 1 << index }]),
);

/** Where a key belongs, in words. */
export function placesInWords(field: Field): string {
  const words: string[] = [];
  if (field.places & FILE) words.push('the top level');
  if (field.places & DESCRIPTOR) words.push('a descriptor');
  if (field.places & RATE_LIMIT) words.push('rate_limit');
  if (field.places & REPLACES) words.push('an element of replaces');
  return words.join(' or ');
}

/** What the Go service's messages call the type that a value must have. */
export const goTypes = {
  file: 'map[interface {}]interface {}',
  descriptors: '[]config.YamlDescriptor',
  rateLimit: 'config.YamlRateLimit',
  replaces: '[]config.yamlReplaces',
  metadata: 'map[string]interface {}',
  string: 'string',
  bool: 'bool',
  uint32: 'uint32',
} as const;

/**
 * When the Go service would come upon a mistake in one file: while it reads the document, while it looks at the
 * keys, or while it looks at the types. The earliest is the one that it reports.
 */
export const Stage = { DOCUMENT: 0, KEYS: 1, TYPES: 2 } as const;
export type Stage = (typeof Stage)[keyof typeof Stage];

/** Something wrong at a place of one document. */
export interface DocumentProblem {
  stage: Stage;
  code: RuleErrorCode;
  text: string;
  /** How the Go service dresses the text: not at all, as an error of its YAML library, or as one of its types. */
  dress: 'plain' | 'yaml' | 'type';
  offset: number;
  path: readonly (string | number)[];
}
