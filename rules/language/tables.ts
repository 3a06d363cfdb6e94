/**
 * The kinds of map that have fields, which fields belong to which, and how rule files, manifests and messages spell them:
 * `requests_per_unit` and `token_bucket`, `requestsPerUnit` and `TokenBucket`.
 */

import { algorithmNames } from '../algorithms/registry.ts';
import {
  calendarFields,
  domainFields,
  entryFields,
  type FieldKind,
  type FieldRows,
  limitFields,
  overrideFields,
  replacesFields,
  reserveFields,
  ruleFields,
} from './fields.ts';

/** Kinds of map, as bits, so that a field can belong to several. */
export const FieldPlace = {
  FILE: 1,
  DESCRIPTOR: 2,
  RATE_LIMIT: 4,
  REPLACES: 8,
  RATE_LIMITS: 16,
  CALENDAR: 32,
  RESERVE: 64,
} as const;
export type FieldPlace = (typeof FieldPlace)[keyof typeof FieldPlace];

const { FILE, DESCRIPTOR, REPLACES, CALENDAR, RESERVE } = FieldPlace;
/** A limit, alone or as an element of a list. */
const LIMIT = FieldPlace.RATE_LIMIT | FieldPlace.RATE_LIMITS;
/** Maps that envoyproxy/ratelimit does not know. */
export const weirOnlyPlaces: number = FieldPlace.RATE_LIMITS | CALENDAR | RESERVE;

/** Returns, in words, the places where a field belongs. */
export function placesInWords(places: number): string {
  const words: string[] = [];
  if (places & FILE) words.push('the top level');
  if (places & DESCRIPTOR) words.push('a descriptor');
  if (places & LIMIT) words.push('rate_limit');
  // A unit in a calendar is hardly intended.
  if (places === CALENDAR) words.push('calendar');
  if (places & RESERVE) words.push('reserve');
  if (places & REPLACES) words.push('an element of replaces');
  return words.join(' or ');
}

/** A field of one kind of map. */
export interface TableField<Name extends string = string> {
  /** The name in manifests. */
  readonly name: Name;
  /** The name in rule files. */
  readonly fileName: string;
  /** The position in its table, from 0. */
  readonly index: number;
}

/** The fields of one kind of map. */
export interface FieldTable<Rows extends FieldRows = FieldRows> {
  readonly place: FieldPlace;
  readonly rows: Rows;
  /** The fields in the order of the rows. */
  readonly fields: readonly TableField<keyof Rows & string>[];
  readonly byFileName: ReadonlyMap<string, TableField<keyof Rows & string>>;
}

/** Returns `requests_per_unit` for `requestsPerUnit`. */
export function ruleFileName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** The fields of a table, by their names in manifests. */
export function namesOf<Rows extends Readonly<Record<string, object>>>(rows: Rows): (keyof Rows & string)[] {
  return Object.keys(rows);
}

/** The fields of a table whose rows have these facts. */
export function namesWith<Rows extends Readonly<Record<string, object>>, const Facts extends object>(
  rows: Rows,
  facts: Facts,
): NamesWith<Rows, Facts>[] {
  const wanted = Object.entries(facts);
  const hasAll = (name: keyof Rows): name is NamesWith<Rows, Facts> =>
    wanted.every(([fact, value]) => Reflect.get(rows[name]!, fact) === value);
  return namesOf(rows).filter(hasAll);
}
type NamesWith<Rows, Facts> = {
  [Name in keyof Rows & string]: Rows[Name] extends Facts ? Name : never;
}[keyof Rows & string];

export function fieldTable<Rows extends FieldRows>(place: FieldPlace, rows: Rows): FieldTable<Rows> {
  const fields = namesOf(rows).map((name, index) => ({ name, fileName: ruleFileName(name), index }));
  return { place, rows, fields, byFileName: new Map(fields.map((field) => [field.fileName, field])) };
}

export const fileTable = fieldTable(FieldPlace.FILE, domainFields);
export const ruleTable = fieldTable(FieldPlace.DESCRIPTOR, ruleFields);
export const limitTable = fieldTable(FieldPlace.RATE_LIMIT, limitFields);
/** The fields of one of several limits. */
export const listedLimitTable = fieldTable(FieldPlace.RATE_LIMITS, limitFields);
export const replacesTable = fieldTable(FieldPlace.REPLACES, replacesFields);
export const calendarTable = fieldTable(FieldPlace.CALENDAR, calendarFields);
export const reserveTable = fieldTable(FieldPlace.RESERVE, reserveFields);
/** The fields of an entry that an override matches. */
export const entryTable = fieldTable(FieldPlace.FILE, entryFields);

const tables: readonly Pick<FieldTable, 'place' | 'rows' | 'fields'>[] = [
  fileTable,
  ruleTable,
  limitTable,
  listedLimitTable,
  replacesTable,
  calendarTable,
  reserveTable,
];

/** A field by its name: every place where it means something. */
export interface Field {
  /** The name in rule files. */
  readonly name: string;
  readonly manifestName: string;
  readonly kind: FieldKind;
  readonly places: number;
  /** True if envoyproxy/ratelimit does not know it. */
  readonly isOwn: boolean;
}

/**
 * Every field of the rule language, by its name in rule files. Each field is accepted in any map, as the Go service accepts the
 * fields that it knows.
 */
export const fields: ReadonlyMap<string, Field> = fieldsByName();

function fieldsByName(): Map<string, Field> {
  const found = new Map<string, Field>();
  for (const { place, rows, fields: own } of tables) {
    for (const { name: manifestName, fileName: name } of own) {
      const places = (found.get(name)?.places ?? 0) | place;
      const { kind, isOwn = (places & weirOnlyPlaces) === places } = rows[manifestName]!;
      found.set(name, { name, manifestName, kind, places, isOwn });
    }
  }
  return found;
}

/** The properties of a rule that are true or false. */
export const ruleFlags = namesWith(ruleFields, { kind: 'boolean' });
export type RuleFlag = (typeof ruleFlags)[number];

/** Fields of a limit that envoyproxy/ratelimit does not know. They may be present with other fields only if those allow it. */
export const ownLimitFields = namesWith(limitFields, { isOwn: true });
export type OwnLimitField = (typeof ownLimitFields)[number];

/** An override has exactly one of them. */
export const effectFields = namesWith(overrideFields, { says: 'effect' });
/** The fields that set the end of an override that is not a grant. One of them must be present. */
export const endFields = namesWith(overrideFields, { says: 'end' });

/** Returns `rateLimit` for `rate_limit`, as the validator's paths spell it. */
export function fieldName<Step extends string | number>(step: Step): Step | string {
  return typeof step === 'number' ? step : (fields.get(step)?.manifestName ?? step);
}

/** Returns an enum value as Kubernetes spells it: `SlidingWindow` for `sliding_window`, `MicroDollars` for `micro-dollars`. */
export function enumName(word: string): string {
  return word.replace(/(?:^|[_-])([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

const manifestSpellings = new Map([
  ...[...fields.values()].map(({ name, manifestName }) => [name, manifestName] as const),
  ...algorithmNames.map((name) => [name, enumName(name)] as const),
]);

/** A message about rules in the words of manifests, `rateLimits` for `rate_limits`; what is in quotes stays. */
export function manifestWords(text: string): string {
  return text.replace(/'[^']*'|\b[a-z]+(?:_[a-z]+)+\b/g, (word) => manifestSpellings.get(word) ?? word);
}
