/**
 * The rule language as data: a row for each field that may be written, under its name in manifests. A table per kind of map
 * says which fields belong there. Dialects read and write the values of each kind of field; `model.ts` derives the types
 * of rules and limits from the rows; `scripts/spec-schema.ts` describes the fields to the API server and to editors.
 */
import { algorithmNames } from '../algorithms/registry.ts';
import type { FieldRows, ValueFacts } from './rows.ts';

export type { FieldKind, FieldRow, FieldRows, ValueFacts } from './rows.ts';

const unitPattern = '^(?i:second|minute|hour|day|week|month|year)$';

/**
 * The number of levels of `descriptors` below `spec`. Chosen like the other bounds of objects: far above what rules in use need,
 * and low enough to bound their cost. Each level adds to the CRD, because its schema has no recursion.
 */
export const descriptorLevels = 8;
/** The maximum number of rules on one level. An object of this size is near the limit of etcd (1.5 MiB). */
const descriptorsPerLevel = 10_000;

/** The number of limits in `rateLimits`. */
export const limitsOfRule = { min: 2, max: 8 } as const;

const limit = { unit: 'minute', requestsPerUnit: 20 };
const rules = [{ key: 'remote_address', rateLimit: { unit: 'minute', requestsPerUnit: 5 } }];
const ruleElement = "A rule for one entry of a request's descriptor.";

export const domainFields = {
  domain: {
    kind: 'text',
    isRequired: true,
    min: 1,
    max: 253,
    description:
      'Domain of the requests that these rules apply to. In a fleet, only one object can use a domain, unless the control plane merges domains.',
    example: 'shop',
  },
  descriptors: {
    kind: 'rules',
    max: descriptorsPerLevel,
    description: `Rules for the first entry of a request's descriptor. Rules nest at most ${descriptorLevels} levels deep; deeper ones are rejected.`,
    element: ruleElement,
    example: rules,
  },
} as const satisfies FieldRows;

export const ruleFields = {
  key: {
    kind: 'text',
    isRequired: true,
    min: 1,
    max: 1024,
    description: 'Key of the entry that this rule applies to. Case-sensitive.',
    example: 'path',
  },
  /** The value to match; it may contain `*`. Empty if any value matches. */
  value: {
    kind: 'text',
    max: 4096,
    description:
      'Value of the entry. Empty: every value, each with its own counter. * matches any text, anywhere and several times.',
    example: '/search*',
  },
  rateLimit: {
    kind: 'limit',
    isSpelling: true,
    description: 'The limit: a window (unit, window or calendar) and requestsPerUnit, or unlimited.',
    example: limit,
  },
  rateLimits: {
    kind: 'limits',
    isSpelling: true,
    isOwn: true,
    ifUnknown: { withhold: 'windows' },
    insteadOf: ['rateLimit'],
    ...limitsOfRule,
    description:
      'A list of limits in place of rateLimit. A request must be within all limits; a rejected request does not count against any of them. Supported only by Weir.',
    element: 'One of the limits.',
    example: [limit, { unit: 'day', requestsPerUnit: 5000, name: 'daily' }],
  },
  /**
   * The maximum share of its limit that one limiter may lease, in millionths; 0 for none. Undefined if the limiter's setting
   * applies. See `lease.ts`.
   */
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
      "Share of the limit that one limiter may take in advance, such as 2%; 0 for none. Defaults to the limiter's setting. Supported only by Weir.",
    example: '10%',
  },
  /** Undefined if the limiter does not look for marker entries. */
  reserve: {
    kind: 'reserve',
    change: {
      set: 'requests with a reservation_id reserve: {}',
      unset: 'the entries reservation_id and settle have no special meaning',
    },
    isOptional: true,
    isOwn: true,
    ifUnknown: { withhold: 'reserve' },
    needs: ['rateLimit', 'rateLimits'],
    forQuotaClients: {
      unassignable: 'amounts are reserved against its limit, and quota clients cannot reserve',
    },
    description:
      'How Weir handles reservations that requests make with the entries reservation_id and settle. Supported only by Weir.',
    example: { ttl: '60s', estimate: 2000, onExpiry: 'Release' },
  },
  /** Undefined if the limits determine the form. */
  assign: {
    kind: 'text',
    isOptional: true,
    forQuotaClients: 'form',
    change: {
      set: 'quota clients get {} assignments',
      unset: 'quota clients get assignments as its limits suggest',
    },
    unwritten: 'exact for windows of a minute or more that are not token buckets, otherwise refilling',
    isOwn: true,
    ifUnknown: 'ignore',
    max: 16,
    pattern: '^(exact|refilling)?$',
    description:
      'How quota clients get their share: exact, a number of requests for a window, or refilling, a token bucket. Token buckets always refill. Supported only by Weir.',
    example: 'refilling',
  },
  shadowMode: {
    kind: 'boolean',
    forQuotaClients: 'pass',
    phrase: 'shadow mode: never over limit',
    description: 'If true, the limiter counts and reports, but never rejects.',
    example: true,
  },
  quotaMode: {
    kind: 'boolean',
    phrase: 'quota mode: over limit only when all quotas of the request are over',
    description: 'Whether a request is over limit only if all its limits in quota mode are over.',
    example: true,
  },
  detailedMetric: {
    kind: 'boolean',
    description: 'Whether the values of a request are part of the names of its metrics.',
    example: true,
  },
  valueToMetric: {
    kind: 'boolean',
    changeBelow: 'other metric names for the rules below it, too',
    ifUnknown: 'ignore',
    description: "Whether the value of this entry is part of the metric's name. Supported only by Weir.",
    example: true,
  },
  shareThreshold: {
    kind: 'boolean',
    changeBelow: 'other counter keys for the rules below it, too',
    ifUnknown: 'ignore',
    description: 'Whether all values that match the * in value share one counter. Supported only by Weir.',
    example: true,
  },
  /** Responses show no more of the rule than they do without RESPONSE_RULE_IDENTITY. */
  hideIdentity: {
    kind: 'boolean',
    phrase: 'hidden: answers do not name the rule',
    change: { set: 'answers no longer name the rule', unset: 'answers may name the rule' },
    ifUnknown: 'ignore',
    description: 'If true, answers omit this rule. Supported only by Weir.',
    example: true,
  },
  /** Metadata that is copied into the dynamic metadata of a response. */
  metadata: {
    kind: 'metadata',
    change: { set: 'answers carry other dynamic metadata', unset: 'answers carry other dynamic metadata' },
    isOptional: true,
    // Nested objects and lists. Limiters read at most 100 nested messages, and each level takes up to three.
    max: 16,
    description:
      'Any content. The limiter adds it to the dynamic metadata of answers if RESPONSE_DYNAMIC_METADATA=true.',
    example: { team: 'search' },
  },
  descriptors: {
    kind: 'rules',
    max: descriptorsPerLevel,
    description: "Rules for the next entry of the request's descriptor.",
    element: ruleElement,
    example: rules,
  },
} as const satisfies FieldRows;

/** The units of hits, as people read them. The numbers are those of the enum in resources. */
export const hitsUnits = ['requests', 'tokens', 'micro-dollars', 'bytes'] as const;

export const limitFields = {
  /** UNKNOWN if there is no unit, or if the written text names none: see `unitText`. */
  unit: {
    kind: 'unit',
    max: 16,
    pattern: unitPattern,
    description:
      'Unit of the window: second, minute, hour, day, week, month or year, in any letter case. Required without unlimited and window.',
    example: 'minute',
  },
  window: {
    kind: 'text',
    isSpelling: true,
    isOwn: true,
    ifUnknown: { withhold: 'windows' },
    sentAs: [],
    insteadOf: ['unit', 'unitMultiplier'],
    max: 32,
    pattern: '^([0-9]+(w|d|h|m|s|mo|y))+$',
    description:
      'Window such as 1h30m or 1mo. Replaces unit and unitMultiplier. At most ten years. If it includes hours, at most 390w15h; minutes, 6w3d12h15m; seconds, 18h12m15s. Supported only by Weir.',
    example: '1h30m',
  },
  /** A calendar in place of a window of the unit's length. `unit` is then the unit of the calendar. */
  calendar: {
    kind: 'calendar',
    isOptional: true,
    isOwn: true,
    ifUnknown: { withhold: 'calendar' },
    insteadOf: ['unit', 'unitMultiplier', 'window'],
    isFor: ({ steady }) => steady === undefined,
    description:
      'Windows of the calendar in a time zone, in place of unit, unitMultiplier and window. Only with FixedWindow. Supported only by Weir.',
    example: { unit: 'month', timezone: 'Europe/Zurich', startsOn: 15 },
  },
  /** The number of units in a window; 1 if it is not written. */
  unitMultiplier: {
    kind: 'uint32',
    isOwn: true,
    ifUnknown: { withhold: 'windows' },
    min: 1,
    max: 65_535,
    description: 'Number of units in the window, at most ten years. Defaults to 1. Supported only by Weir.',
    example: 5,
  },
  /** The number of hits that each window allows, from 0 to 2^53 - 1. 0 blocks everything. */
  requestsPerUnit: {
    kind: 'requests',
    ifMissing: { unless: 'unlimited', text: 'is required (0 blocks everything)' },
    sentAs: ['requestsPerUnit', 'largeRequestsPerUnit'],
    ifWide: { withhold: 'wide-numbers' },
    description: 'Requests that each window allows; 0 blocks all. Required without unlimited.',
    example: 20,
  },
  hitsUnit: {
    kind: 'unitOfHits',
    forQuotaClients: {
      unassignable: 'its limit counts hits other than requests, and quota clients count only requests',
    },
    change: { set: 'its hits are called {}', unset: 'its hits are called {}' },
    isOwn: true,
    ifUnknown: 'ignore',
    words: hitsUnits,
    description:
      'Label for one hit, shown to people. It does not affect counting. Defaults to requests. Supported only by Weir.',
    example: 'tokens',
  },
  /** Percentages of the limit from which on responses carry a mark: 1 to 100, ascending, without repetition. */
  warnAt: {
    kind: 'percents',
    phrase: 'marks at {}%',
    change: { set: 'answers have warnings from {}% on', unset: 'answers have no warnings' },
    isOwn: true,
    ifUnknown: 'ignore',
    max: 8,
    description:
      'Percentages of the limit, ascending. When one is reached, the answer and the log contain a warning. Supported only by Weir.',
    element: 'A percentage of the limit.',
    example: [50, 80, 95],
  },
  algorithm: {
    kind: 'algorithm',
    isOwn: true,
    ifUnknown: { withhold: 'algorithms' },
    words: algorithmNames,
    description: 'How to count hits. Defaults to FixedWindow. Only Weir supports others.',
    example: algorithmNames[1],
  },
  /** The burst of a token bucket, if it is written: see `burstOf`. */
  burst: {
    kind: 'requests',
    isOptional: true,
    isOwn: true,
    ifUnknown: { withhold: 'algorithms' },
    sentAs: ['burst', 'largeBurst'],
    ifWide: { withhold: 'wide-numbers' },
    isFor: ({ hasBurst }) => hasBurst,
    description: 'Hits that a token bucket allows at once. Defaults to requestsPerUnit.',
    example: 40,
  },
  unlimited: {
    kind: 'boolean',
    description: 'Whether requests are neither limited nor counted.',
    example: true,
    amongSeveral: { description: 'Must be false with several limits.', example: false },
  },
  /** The limit's name. If it is empty, no rule can replace this limit. */
  name: {
    kind: 'text',
    max: 253,
    description: 'Name by which other limits can replace this one.',
    example: 'per_client',
  },
  /** Names of limits of other rules. */
  replaces: {
    kind: 'names',
    max: 64,
    description: 'Limits that this one replaces if both apply to one request.',
    element: 'A limit, by its name.',
    example: [{ name: 'per_client' }],
  },
} as const satisfies FieldRows;

export const calendarFields = {
  unit: {
    kind: 'text',
    isRequired: true,
    max: 16,
    pattern: '^(?i:day|week|month|year)$',
    description: 'day, week, month or year, in any letter case.',
    example: 'month',
  },
  timezone: {
    kind: 'text',
    max: 64,
    pattern: '^[A-Za-z][A-Za-z0-9_+/-]*$',
    description: 'Name of the time zone in the IANA database, such as Europe/Zurich. Defaults to UTC.',
    example: 'Europe/Zurich',
  },
  startsOn: {
    kind: 'day',
    min: 1,
    max: 31,
    pattern: '^([0-9]{1,2}|(?i:monday|tuesday|wednesday|thursday|friday|saturday|sunday))$',
    description:
      'First day of windows, 1 by default. In a month, 1 to 31, at most its last day. In a week, monday to sunday, or 1 to 7.',
    example: 15,
  },
} as const satisfies FieldRows;

export const reserveFields = {
  ttl: {
    kind: 'text',
    sentAs: ['ttlSeconds'],
    max: 32,
    pattern: '^([0-9]+(d|h|m|s))+$',
    description: 'How long a reservation lasts, 1s to 24h. Defaults to 60s.',
    example: '60s',
  },
  estimate: {
    kind: 'requests',
    description: 'Amount to reserve if a request does not give one. Defaults to its hits.',
    example: 2000,
  },
  onExpiry: {
    kind: 'text',
    words: ['release', 'charge'],
    description:
      'What happens to a reservation that expires: it is released (the default), or stays charged.',
    example: 'release',
  },
} as const satisfies FieldRows;

/** An element of `replaces`. */
export const replacesFields = {
  name: {
    kind: 'text',
    isRequired: true,
    min: 1,
    max: limitFields.name.max,
    description: 'Name of the limit.',
    example: 'per_client',
  },
} as const satisfies FieldRows;

/** An entry of `match` of an override. */
export const entryFields = {
  key: { ...ruleFields.key, description: 'Key of the entry. Case-sensitive.' },
  value: {
    ...ruleFields.value,
    isRequired: true, // Without a value, an entry would only match the empty one.
    description: 'Value of the entry; * matches any text, anywhere and several times.',
  },
} as const satisfies FieldRows;

/** A field of an override. Ends and effects exclude each other. */
export interface OverrideRow extends ValueFacts {
  readonly kind: 'text' | 'requests' | 'boolean' | 'entries';
  readonly says?: 'effect' | 'end';
}
export type OverrideRows = Readonly<Record<string, OverrideRow>>;

/** Fields of an override, regardless of its source. An `id` may be present with them if the source is not an object. */
export const overrideFields = {
  domain: {
    kind: 'text',
    isRequired: true,
    min: 1,
    max: domainFields.domain.max,
    // A field of the message that an override is in.
    sentAs: [],
    description: 'Domain whose rules it changes. The namespace of the object must have a right to it.',
    example: 'shop',
  },
  match: {
    kind: 'entries',
    isRequired: true,
    min: 1,
    max: 32,
    description:
      "All entries of a request's descriptor, in order. An exact match takes precedence over one with *, then the longer text.",
    element: "An entry of a request's descriptor.",
    example: [{ key: 'tenant', value: 'acme' }],
  },
  limit: {
    kind: 'text',
    max: limitFields.name.max,
    description: 'Name of the limit to change, if the matched rule has several.',
    example: 'daily',
  },
  requestsPerUnit: {
    kind: 'requests',
    says: 'effect',
    sentAs: ['changedLimit'],
    description:
      'Replaces the number of requests of the matched limit. Window, algorithm and counter stay. 0 blocks all.',
    example: 20,
  },
  unlimited: {
    kind: 'boolean',
    says: 'effect',
    description: 'No request is limited.',
    example: true,
  },
  shadow: {
    kind: 'boolean',
    says: 'effect',
    description: 'Requests are counted, but never over limit.',
    example: true,
  },
  block: { kind: 'boolean', says: 'effect', description: 'All requests are over limit.', example: true },
  grant: {
    kind: 'requests',
    says: 'effect',
    sentAs: ['grant', 'largeGrant'],
    min: 1,
    description: 'Number of further requests until the end of the window in which the object was created.',
    example: 1000,
  },
  unit: {
    kind: 'text',
    max: limitFields.unit.max,
    pattern: unitPattern,
    sentAs: ['changedLimit'],
    description: 'Window of requestsPerUnit. Required if no rule matches.',
    example: 'minute',
  },
  expiresAt: {
    kind: 'text',
    says: 'end',
    max: 64,
    format: 'date-time',
    sentAs: ['endsMs'],
    description: 'End of the override.',
    example: '2026-12-24T18:00:00Z',
  },
  for: {
    kind: 'text',
    says: 'end',
    max: 32,
    pattern: '^([0-9]+(mo|w|d|h|m|s|y))+$',
    sentAs: ['endsMs'],
    description: 'Duration from the creation of the object: 30m, 2h, 1d.',
    example: '2h',
  },
  permanent: {
    kind: 'boolean',
    says: 'end',
    sentAs: [],
    description: 'Whether the override lasts until the object is deleted.',
    example: true,
  },
  reason: {
    kind: 'text',
    isRequired: true,
    min: 1,
    max: 1024,
    pattern: '\\S',
    description: 'Reason, for people who find the override.',
    example: 'ticket 4711',
  },
} as const satisfies OverrideRows;
