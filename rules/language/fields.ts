/**
 * The rule language as data: a row for each field that may be written, under its name in manifests. A table per kind of map
 * says which fields belong there. Dialects read and write the values of each kind of field; `model.ts` derives the types
 * of rules and limits from the rows.
 */

/** What a field holds. `FieldValues` in `model.ts` has the type of each kind. */
export type FieldKind =
  | 'text'
  | 'boolean'
  | 'uint32'
  | 'requests'
  | 'algorithm'
  | 'hitsUnit'
  | 'percents'
  | 'day'
  | 'calendar'
  | 'share'
  | 'reserve'
  | 'metadata'
  | 'names'
  | 'limit'
  | 'limits'
  | 'rules';

export interface FieldRow {
  readonly kind: FieldKind;
  /** One sentence for people, in the words of manifests. */
  readonly description?: string;
  /** The property has no default: it is undefined where the field is not written. */
  readonly isOptional?: true;
  /** The field spells another property of the rule or limit, and has none of its own. */
  readonly isSpelling?: true;
  /** Rule files of envoyproxy/ratelimit do not have the field. Where it means nothing it is an error, and theirs are warnings. */
  readonly isOwn?: true;
  /**
   * What happens in a limiter that does not know the field, as envoyproxy/ratelimit does not know it over xDS: it ignores the
   * field, or the control plane withholds the rules from it, because it would count other limits. Absent: every limiter knows it.
   */
  readonly ifUnknown?: 'ignore' | 'withhold';
  /** Its fields in the messages of xDS, where that is not one of its own name. */
  readonly sentAs?: readonly string[];
}
export type FieldRows = Readonly<Record<string, FieldRow>>;

export const domainFields = {
  domain: { kind: 'text' },
  descriptors: { kind: 'rules' },
} as const satisfies FieldRows;

export const ruleFields = {
  key: { kind: 'text' },
  /** Empty: any value matches. May contain `*`. */
  value: { kind: 'text' },
  rateLimit: { kind: 'limit', isSpelling: true },
  rateLimits: { kind: 'limits', isSpelling: true, isOwn: true, ifUnknown: 'withhold' },
  /** Millionths of its limit that one limiter may take ahead at most, 0 for none; undefined: as the limiter is set. See `lease.ts`. */
  lease: { kind: 'share', isOptional: true, isOwn: true, ifUnknown: 'ignore' },
  /** Undefined: no marker entries are looked for. */
  reserve: { kind: 'reserve', isOptional: true, isOwn: true, ifUnknown: 'withhold' },
  shadowMode: {
    kind: 'boolean',
    description: 'Whether the limit is counted and reported, but never refuses.',
  },
  quotaMode: {
    kind: 'boolean',
    description:
      'Whether being over this limit alone does not refuse a request: it is refused when all its limits in quota mode are over.',
  },
  detailedMetric: {
    kind: 'boolean',
    description: 'Whether the values of a request go into the name of its metrics.',
  },
  valueToMetric: {
    kind: 'boolean',
    ifUnknown: 'ignore',
    description:
      "Whether the value of this entry goes into the metric's name. Known to Weir's limiters only.",
  },
  shareThreshold: {
    kind: 'boolean',
    ifUnknown: 'ignore',
    description:
      "Whether all values that fit the * in value share one counter. Known to Weir's limiters only.",
  },
  /** Answers say nothing of it beyond what they say without RESPONSE_RULE_IDENTITY. */
  hideIdentity: {
    kind: 'boolean',
    ifUnknown: 'ignore',
    description:
      "Whether answers keep silent about the rule, where limiters are set to name it. Known to Weir's limiters only.",
  },
  /** Copied into the dynamic metadata of an answer. */
  metadata: { kind: 'metadata', isOptional: true },
  descriptors: { kind: 'rules' },
} as const satisfies FieldRows;

export const limitFields = {
  /** As written; the validator resolves it, in any letter case. Empty when there is none. */
  unit: { kind: 'text' },
  window: { kind: 'text', isSpelling: true, isOwn: true, ifUnknown: 'withhold', sentAs: [] },
  /** In place of a window of the unit's length; `unit` is then its own. */
  calendar: { kind: 'calendar', isOptional: true, isOwn: true, ifUnknown: 'withhold' },
  /** How many units a window has; 1 where none is written. */
  unitMultiplier: { kind: 'uint32', isOwn: true, ifUnknown: 'withhold' },
  /** How many hits each window allows. 0 blocks everything. 0 to 2^53 - 1. */
  requestsPerUnit: { kind: 'requests', sentAs: ['requestsPerUnit', 'largeRequestsPerUnit'] },
  hitsUnit: { kind: 'hitsUnit', isOwn: true, ifUnknown: 'ignore' },
  /** Percents of the limit from which on answers carry a mark: 1 to 100, ascending, each once. */
  warnAt: { kind: 'percents', isOwn: true, ifUnknown: 'ignore' },
  algorithm: { kind: 'algorithm', isOwn: true, ifUnknown: 'withhold' },
  /** Of a token bucket, the most that may come at once, where that is written. */
  burst: {
    kind: 'requests',
    isOptional: true,
    isOwn: true,
    ifUnknown: 'withhold',
    sentAs: ['burst', 'largeBurst'],
  },
  unlimited: { kind: 'boolean' },
  /** Empty: no rule can replace this limit. */
  name: { kind: 'text' },
  /** Names of limits of other rules. */
  replaces: { kind: 'names' },
} as const satisfies FieldRows;

export const calendarFields = {
  unit: { kind: 'text' },
  timezone: { kind: 'text' },
  startsOn: { kind: 'day' },
} as const satisfies FieldRows;

export const reserveFields = {
  ttl: { kind: 'text', sentAs: ['ttlSeconds'] },
  estimate: { kind: 'requests' },
  onExpiry: { kind: 'text' },
} as const satisfies FieldRows;

/** An element of `replaces`. */
export const replacesFields = { name: { kind: 'text' } } as const satisfies FieldRows;
