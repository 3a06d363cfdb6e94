/**
 * The rule language as data: a row for each field that may be written, under its name in manifests. A table per kind of map
 * says which fields belong there. Dialects read and write the values of each kind of field; `model.ts` derives the types
 * of rules and limits from the rows; `scripts/spec-schema.ts` describes the fields to the API server and to editors.
 */
import type { RuleAlgorithm } from '../algorithms/algorithm.ts';
import { algorithmNames } from '../algorithms/registry.ts';

/** What a field holds. `FieldValues` in `model.ts` has the type of each kind. */
export type FieldKind =
  | 'text'
  | 'unit'
  | 'boolean'
  | 'uint32'
  | 'requests'
  | 'algorithm'
  | 'unitOfHits'
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

/** What a value may be, and what people are told of it. Texts are in the words of manifests. */
export interface ValueFacts {
  /** A sentence or two. */
  readonly description: string;
  /** One of its words as rule files spell it, or a value as manifests spell it. */
  readonly example: unknown;
  readonly isRequired?: true;
  /** Null counts as not written in objects, too. */
  readonly mayBeNull?: true;
  /** Of an object. The API server writes it where the field is missing. */
  readonly default?: string;
  /** The smallest number, the fewest characters of a text, the fewest elements of a list. */
  readonly least?: number;
  /** The largest number, the most characters, elements or levels. */
  readonly most?: number;
  /** What all of a text has to fit. Checked by the API server and editors alone: the validator has its own words. */
  readonly pattern?: string;
  /** What a text has to be that fits `pattern`: the reader of manifests says it. */
  readonly form?: string;
  /** A name for the form of a text in JSON Schema. */
  readonly format?: string;
  /** The texts that it may be, as rule files spell them. */
  readonly words?: readonly string[];
  /** Describes an element of a list. */
  readonly element?: string;
  /** Its fields in the messages of xDS, where that is not one of its own name. */
  readonly sentAs?: readonly string[];
}

export interface FieldRow extends ValueFacts {
  readonly kind: FieldKind;
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
  /** Fields that it takes the place of: none of them may stand beside it. */
  readonly insteadOf?: readonly string[];
  /** Fields of which one has to stand beside it. */
  readonly needs?: readonly string[];
  /** The algorithms that it is for. */
  readonly isFor?: (algorithm: RuleAlgorithm) => boolean;
  /** In words about a rule or limit, where the field is not as if it was not written; `{}` stands for its value. */
  readonly phrase?: string;
  /** What a change means for callers: that the field says something else now, and that it says nothing more. */
  readonly change?: { readonly set: string; readonly unset: string };
  /** What a change means for the rules below. */
  readonly changeBelow?: string;
  /** What is obeyed where the field is not written, unless it has words or is a boolean. */
  readonly unwritten?: string;
  /** What a limit among several says of itself in place of these facts. */
  readonly amongSeveral?: { readonly description: string; readonly example: unknown };
}
export type FieldRows = Readonly<Record<string, FieldRow>>;

const unitPattern = '^(?i:second|minute|hour|day|week|month|year)$';

/**
 * Levels of `descriptors` below `spec`. Chosen as the other bounds of objects are: far above what rules in use need, low enough that
 * nothing gets out of hand. Each adds to the CRD, because its schema knows no recursion.
 */
export const descriptorLevels = 8;
/** Rules of one level. An object of such size is near what etcd takes (1.5 MiB). */
const descriptorsPerLevel = 10_000;

/** How many limits `rateLimits` has. */
export const limitsOfRule = { least: 2, most: 8 } as const;

const limit = { unit: 'minute', requestsPerUnit: 20 };
const rules = [{ key: 'remote_address', rateLimit: { unit: 'minute', requestsPerUnit: 5 } }];
const ruleElement = "A rule for one entry of a request's descriptor.";

export const domainFields = {
  domain: {
    kind: 'text',
    isRequired: true,
    least: 1,
    most: 253,
    description:
      'The domain of the requests that these rules are for. Within a fleet one object holds it, unless the control plane merges domains.',
    example: 'shop',
  },
  descriptors: {
    kind: 'rules',
    most: descriptorsPerLevel,
    description: `Rules for the first entry of a request's descriptor. Rules nest at most ${descriptorLevels} levels deep; deeper ones are refused.`,
    element: ruleElement,
    example: rules,
  },
} as const satisfies FieldRows;

export const ruleFields = {
  key: {
    kind: 'text',
    isRequired: true,
    least: 1,
    most: 1024,
    description: 'Key of the entry that this rule is for; compared as written, case counts.',
    example: 'path',
  },
  /** Empty: any value matches. May contain `*`. */
  value: {
    kind: 'text',
    most: 4096,
    description:
      'Value of the entry; empty fits every value, and counts each apart. * stands for any text, anywhere and several times.',
    example: '/search*',
  },
  rateLimit: {
    kind: 'limit',
    isSpelling: true,
    description: 'The limit: either a window (unit, window or calendar) and requestsPerUnit, or unlimited.',
    example: limit,
  },
  rateLimits: {
    kind: 'limits',
    isSpelling: true,
    isOwn: true,
    ifUnknown: 'withhold',
    insteadOf: ['rateLimit'],
    ...limitsOfRule,
    description:
      "In place of rateLimit, several limits that all have to allow; what one refuses counts in none. Known to Weir's limiters only.",
    element: 'One of the limits.',
    example: [limit, { unit: 'day', requestsPerUnit: 5000, name: 'daily' }],
  },
  /** Millionths of its limit that one limiter may take ahead at most, 0 for none; undefined: as the limiter is set. See `lease.ts`. */
  lease: {
    kind: 'share',
    unwritten: 'LEASE_SHARE',
    isOptional: true,
    isOwn: true,
    ifUnknown: 'ignore',
    needs: ['rateLimit', 'rateLimits'],
    isFor: ({ countsAllHits }) => countsAllHits,
    pattern: '^(0|(100(\\.0{1,4})?|[0-9]{1,2}(\\.[0-9]{1,4})?)%)$',
    description:
      "The share of the limit that one limiter may take ahead and spend by itself, as 2%, or 0 for none; as the limiter is set where it is not written. Known to Weir's limiters only.",
    example: '10%',
  },
  /** Undefined: no marker entries are looked for. */
  reserve: {
    kind: 'reserve',
    change: {
      set: 'requests with a reservation_id reserve: {}',
      unset: 'entries reservation_id and settle are entries like others',
    },
    isOptional: true,
    isOwn: true,
    ifUnknown: 'withhold',
    needs: ['rateLimit', 'rateLimits'],
    description:
      "How entries reservation_id and settle of a request reserve against the rule's limits. Known to Weir's limiters only.",
    example: { ttl: '60s', estimate: 2000, onExpiry: 'Release' },
  },
  shadowMode: {
    kind: 'boolean',
    phrase: 'shadow mode: never refuses',
    description: 'Whether the limit is counted and reported, but never refuses.',
    example: true,
  },
  quotaMode: {
    kind: 'boolean',
    phrase: 'quota mode: refuses when all quotas of the request are over',
    description:
      'Whether being over this limit alone does not refuse a request: it is refused when all its limits in quota mode are over.',
    example: true,
  },
  detailedMetric: {
    kind: 'boolean',
    description: 'Whether the values of a request go into the name of its metrics.',
    example: true,
  },
  valueToMetric: {
    kind: 'boolean',
    changeBelow: 'other metric names for the rules below it, too',
    ifUnknown: 'ignore',
    description:
      "Whether the value of this entry goes into the metric's name. Known to Weir's limiters only.",
    example: true,
  },
  shareThreshold: {
    kind: 'boolean',
    changeBelow: 'other counter keys for the rules below it, too',
    ifUnknown: 'ignore',
    description:
      "Whether all values that fit the * in value share one counter. Known to Weir's limiters only.",
    example: true,
  },
  /** Answers say nothing of it beyond what they say without RESPONSE_RULE_IDENTITY. */
  hideIdentity: {
    kind: 'boolean',
    phrase: 'hidden: answers do not name the rule',
    change: { set: 'answers no longer name the rule', unset: 'answers may name the rule' },
    ifUnknown: 'ignore',
    description:
      "Whether answers keep silent about the rule, where limiters are set to name it. Known to Weir's limiters only.",
    example: true,
  },
  /** Copied into the dynamic metadata of an answer. */
  metadata: {
    kind: 'metadata',
    change: { set: 'answers carry other dynamic metadata', unset: 'answers carry other dynamic metadata' },
    isOptional: true,
    // Nested objects and lists. Limiters read at most 100 nested messages, and each takes up to three.
    most: 16,
    description: "Any content, sent back in an answer's dynamic metadata where the limiter is set to.",
    example: { team: 'search' },
  },
  descriptors: {
    kind: 'rules',
    most: descriptorsPerLevel,
    description: "Rules for the next entry of the request's descriptor.",
    element: ruleElement,
    example: rules,
  },
} as const satisfies FieldRows;

/** What the hits of a limit are, as people read it. The numbers are those of the enum in resources. */
export const hitsUnits = ['requests', 'tokens', 'micro-dollars', 'bytes'] as const;

export const limitFields = {
  /** UNKNOWN when there is none, or what is written names none: see `unitText`. */
  unit: {
    kind: 'unit',
    most: 16,
    pattern: unitPattern,
    description:
      'Length of the window: second, minute, hour, day, week, month or year, in any letter case. Required unless unlimited or window is written.',
    example: 'minute',
  },
  window: {
    kind: 'text',
    isSpelling: true,
    isOwn: true,
    ifUnknown: 'withhold',
    sentAs: [],
    insteadOf: ['unit', 'unitMultiplier'],
    most: 32,
    pattern: '^([0-9]+(w|d|h|m|s|mo|y))+$',
    description:
      "Length of the window as 30s, 5m, 1h30m, 1d, 2w, 1mo or 1y, in place of unit and unitMultiplier; at most ten years, with hours in it 390w15h, with minutes 6w3d12h15m, with seconds 18h12m15s. Known to Weir's limiters only.",
    example: '1h30m',
  },
  /** In place of a window of the unit's length; `unit` is then its own. */
  calendar: {
    kind: 'calendar',
    isOptional: true,
    isOwn: true,
    ifUnknown: 'withhold',
    insteadOf: ['unit', 'unitMultiplier', 'window'],
    isFor: ({ steady }) => steady === undefined,
    description:
      "Windows of the calendar as it is in a place, in place of unit, unitMultiplier and window; with FixedWindow alone. Known to Weir's limiters only.",
    example: { unit: 'month', timezone: 'Europe/Zurich', startsOn: 15 },
  },
  /** How many units a window has; 1 where none is written. */
  unitMultiplier: {
    kind: 'uint32',
    isOwn: true,
    ifUnknown: 'withhold',
    least: 1,
    most: 65_535,
    description:
      "How many units the window has, ten years at most; 1 where it is not written. Known to Weir's limiters only.",
    example: 5,
  },
  /** How many hits each window allows. 0 blocks everything. 0 to 2^53 - 1. */
  requestsPerUnit: {
    kind: 'requests',
    sentAs: ['requestsPerUnit', 'largeRequestsPerUnit'],
    description: 'Requests that each window allows; 0 blocks everything. Required unless unlimited.',
    example: 20,
  },
  hitsUnit: {
    kind: 'unitOfHits',
    change: { set: 'its hits are called {}', unset: 'its hits are called {}' },
    isOwn: true,
    ifUnknown: 'ignore',
    words: hitsUnits,
    description:
      "What the hits are, for people; requests where it is not written. It changes nothing of how they are counted. Known to Weir's limiters only.",
    example: 'tokens',
  },
  /** Percents of the limit from which on answers carry a mark: 1 to 100, ascending, each once. */
  warnAt: {
    kind: 'percents',
    phrase: 'marks at {} %',
    change: { set: 'answers carry marks from {} % on', unset: 'answers carry no marks' },
    isOwn: true,
    ifUnknown: 'ignore',
    most: 8,
    description:
      "Percents of the limit from which on answers carry a mark, ascending. Known to Weir's limiters only.",
    element: 'Percents of the limit.',
    example: [50, 80, 95],
  },
  algorithm: {
    kind: 'algorithm',
    isOwn: true,
    ifUnknown: 'withhold',
    words: algorithmNames,
    description:
      "How hits are counted; FixedWindow where it is not written. Others are known to Weir's limiters only.",
    example: algorithmNames[1],
  },
  /** Of a token bucket, the most that may come at once, where that is written: see `burstOf`. */
  burst: {
    kind: 'requests',
    isOptional: true,
    isOwn: true,
    ifUnknown: 'withhold',
    sentAs: ['burst', 'largeBurst'],
    isFor: ({ hasBurst }) => hasBurst,
    description: 'The most that a token bucket lets come at once; requestsPerUnit where it is not written.',
    example: 40,
  },
  unlimited: {
    kind: 'boolean',
    description: 'Whether requests are never limited and never counted.',
    example: true,
    amongSeveral: { description: 'Must be false where there are several limits.', example: false },
  },
  /** Empty: no rule can replace this limit. */
  name: {
    kind: 'text',
    most: 253,
    description: 'Name by which other limits can replace this one.',
    example: 'per_client',
  },
  /** Names of limits of other rules. */
  replaces: {
    kind: 'names',
    most: 64,
    description: 'Limits that this one takes the place of, when both apply to one request.',
    element: 'A limit, by its name.',
    example: [{ name: 'per_client' }],
  },
} as const satisfies FieldRows;

export const calendarFields = {
  unit: {
    kind: 'text',
    isRequired: true,
    most: 16,
    pattern: '^(?i:day|week|month|year)$',
    description: 'day, week, month or year, in any letter case.',
    example: 'month',
  },
  timezone: {
    kind: 'text',
    most: 64,
    pattern: '^[A-Za-z][A-Za-z0-9_+/-]*$',
    description: 'Name of the time zone in the IANA database, as Europe/Zurich; UTC where it is not written.',
    example: 'Europe/Zurich',
  },
  startsOn: {
    kind: 'day',
    least: 1,
    most: 31,
    pattern: '^([0-9]{1,2}|(?i:monday|tuesday|wednesday|thursday|friday|saturday|sunday))$',
    description:
      'The day that windows begin with: 1 to 31 of a month, or its last where it is shorter; monday to sunday of a week, or 1 to 7. The first where it is not written.',
    example: 15,
  },
} as const satisfies FieldRows;

export const reserveFields = {
  ttl: {
    kind: 'text',
    sentAs: ['ttlSeconds'],
    most: 32,
    pattern: '^([0-9]+(d|h|m|s))+$',
    description: 'How long a reservation is held, 1s to 24h; 60s where it is not written.',
    example: '60s',
  },
  estimate: {
    kind: 'requests',
    description: 'What is reserved where a request does not say how much; its hits where it is not written.',
    example: 2000,
  },
  onExpiry: {
    kind: 'text',
    words: ['release', 'charge'],
    description:
      'What becomes of a reservation that nobody settled: it is given back, as where this is not written, or stays charged.',
    example: 'release',
  },
} as const satisfies FieldRows;

/** An element of `replaces`. */
export const replacesFields = {
  name: {
    kind: 'text',
    isRequired: true,
    least: 1,
    most: limitFields.name.most,
    description: 'Name of the limit.',
    example: 'per_client',
  },
} as const satisfies FieldRows;

/** An entry of `match` of an override. */
export const entryFields = {
  key: { ...ruleFields.key, description: 'Key of the entry; compared as written.' },
  value: {
    ...ruleFields.value,
    description: 'Value of the entry; * stands for any text, anywhere and several times.',
  },
} as const satisfies FieldRows;

/** A field of an override. Ends and effects exclude each other. */
export interface OverrideRow extends ValueFacts {
  readonly kind: 'text' | 'requests' | 'boolean' | 'entries';
  readonly says?: 'effect' | 'end';
}
export type OverrideRows = Readonly<Record<string, OverrideRow>>;

/** Fields of an override, whatever it came in; an `id` may stand beside them where it is no object. */
export const overrideFields = {
  domain: {
    kind: 'text',
    isRequired: true,
    least: 1,
    most: domainFields.domain.most,
    // A field of the message that an override is in.
    sentAs: [],
    description: 'The domain over whose rules it lies: one that the namespace of the object may have.',
    example: 'shop',
  },
  match: {
    kind: 'entries',
    isRequired: true,
    least: 1,
    most: 32,
    description:
      "All entries of a request's descriptor, in their order. An exact match goes before one with *, then the longer text.",
    element: "An entry of a request's descriptor.",
    example: [{ key: 'tenant', value: 'acme' }],
  },
  limit: {
    kind: 'text',
    most: limitFields.name.most,
    description: 'Name of the limit that it is for, where the matched rule has several.',
    example: 'daily',
  },
  requestsPerUnit: {
    kind: 'requests',
    says: 'effect',
    sentAs: ['changedLimit'],
    description:
      "In place of the matched limit's requests; window, algorithm and counter stay. 0 refuses everything.",
    example: 20,
  },
  unlimited: {
    kind: 'boolean',
    says: 'effect',
    description: 'Requests are never limited.',
    example: true,
  },
  shadow: {
    kind: 'boolean',
    says: 'effect',
    description: 'Requests are counted and never refused.',
    example: true,
  },
  block: { kind: 'boolean', says: 'effect', description: 'All requests are refused.', example: true },
  grant: {
    kind: 'requests',
    says: 'effect',
    sentAs: ['grant', 'largeGrant'],
    least: 1,
    description: 'So many requests more, until the window ends in which the object was created.',
    example: 1000,
  },
  unit: {
    kind: 'text',
    most: limitFields.unit.most,
    pattern: unitPattern,
    sentAs: ['changedLimit'],
    description: 'Window of requestsPerUnit where no rule matches; needed there.',
    example: 'minute',
  },
  expiresAt: {
    kind: 'text',
    says: 'end',
    most: 64,
    format: 'date-time',
    sentAs: ['endsMs'],
    description: 'When it ends.',
    example: '2026-12-24T18:00:00Z',
  },
  for: {
    kind: 'text',
    says: 'end',
    most: 32,
    pattern: '^([0-9]+(w|d|h|m|s))+$',
    sentAs: ['endsMs'],
    description: 'How long it lasts, from the creation of the object on: 30m, 2h, 1d.',
    example: '2h',
  },
  permanent: {
    kind: 'boolean',
    says: 'end',
    sentAs: [],
    description: 'It lasts until the object is deleted.',
    example: true,
  },
  reason: {
    kind: 'text',
    isRequired: true,
    least: 1,
    most: 1024,
    pattern: '\\S',
    description: 'Why, for whoever finds it.',
    example: 'ticket 4711',
  },
} as const satisfies OverrideRows;
