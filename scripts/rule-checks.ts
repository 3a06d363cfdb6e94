/**
 * The checks of the CRD for fields that exclude each other: as JSON Schema (`structuralChecks`), and as expressions (CEL) with a message
 * each (`sentenceChecks`).
 */
import { algorithmNames, algorithmsWith } from '../rules/algorithms/registry.ts';
import { limitFields, ruleFields } from '../rules/language/fields.ts';
import { enumName, ownLimitFields } from '../rules/language/tables.ts';

const algorithmEnum = algorithmNames.map(enumName);
const calendarAlgorithms = algorithmsWith(limitFields.calendar.isFor).map(enumName);
const burstAlgorithms = algorithmsWith(limitFields.burst.isFor).map(enumName);
const leasedAlgorithms = algorithmsWith(ruleFields.lease.isFor).map(enumName);

export interface RuleChecks {
  readonly descriptor: Record<string, unknown>;
  readonly rateLimit: Record<string, unknown>;
  /** The checks of each element of `rateLimits`. */
  readonly limitOfSeveral: Record<string, unknown>;
  /** The check of `unlimited` there. */
  readonly unlimitedOfSeveral: Record<string, unknown>;
}

const counted = { properties: { unlimited: { enum: [false] } } };
const windowSpellings = [
  { required: ['unit', 'requestsPerUnit'], ...counted },
  { required: ['window', 'requestsPerUnit'], ...counted, not: { required: ['unitMultiplier'] } },
  {
    required: ['calendar', 'requestsPerUnit'],
    properties: { ...counted.properties, algorithm: { enum: calendarAlgorithms } },
    not: { required: ['unitMultiplier'] },
  },
];
const burstOfBuckets = [
  { not: { required: ['burst'] } },
  { required: ['algorithm'], properties: { algorithm: { enum: burstAlgorithms } } },
];

/** The number 0 needs no pattern, because no other number is allowed. */
const noLease = { pattern: '^0[0.]*%?$' };

/** The fields that a lease may be combined with. */
const leasable = [
  { not: { required: ['lease'] } },
  { required: ['rateLimits'], properties: { lease: noLease } },
  { required: ['rateLimit'], properties: { lease: noLease, rateLimit: counted } },
  {
    required: ['rateLimit'],
    properties: {
      rateLimit: { properties: { ...counted.properties, algorithm: { enum: leasedAlgorithms } } },
    },
  },
];

/** The fields that `reserve` may be combined with. */
const reservable = [
  { not: { required: ['reserve'] } },
  { required: ['rateLimits'] },
  { required: ['rateLimit'], properties: { rateLimit: counted } },
];

/**
 * The checks for editors, and for rules below the first level. For these, the API server's messages name the keyword, as in "must
 * validate one and only one schema (oneOf)", and rarely the mistake.
 */
export const structuralChecks: RuleChecks = {
  descriptor: {
    not: { required: ['rateLimit', 'rateLimits'] },
    anyOf: [
      { properties: { shareThreshold: { enum: [false] } } },
      { properties: { value: { pattern: '[*]' } }, required: ['value'] },
      { properties: { key: { pattern: '[*]' } } },
    ],
    allOf: [{ anyOf: leasable }, { anyOf: reservable }],
  },
  rateLimit: {
    oneOf: [...windowSpellings, { required: ['unlimited'], properties: { unlimited: { enum: [true] } } }],
    // Separate from oneOf, because the API server then names the superfluous field.
    anyOf: [counted, { properties: { unit: { maxLength: 0 } } }],
    allOf: [
      { anyOf: [counted, { not: { anyOf: ownLimitFields.map((name) => ({ required: [name] })) } }] },
      { anyOf: burstOfBuckets },
    ],
  },
  limitOfSeveral: { oneOf: windowSpellings, anyOf: burstOfBuckets },
  unlimitedOfSeveral: { enum: [false] },
};

interface Sentence {
  /** True if there is no mistake. */
  condition: string;
  message: string;
}

/** The conditions on a field that is present. */
interface Case {
  written: string;
  sentences: Sentence[];
}

const sentence = (condition: string, message: string): Sentence => ({ condition, message });

function where(written: string, ...sentences: Sentence[]): Case {
  return { written, sentences };
}

/**
 * Returns one validation, whose message names the first condition that does not hold. Several validations take the API server longer for
 * each of 10,000 rules.
 */
function together(...cases: Case[]) {
  const rules = cases.map(({ written, sentences }) => {
    return `(!${written} || (${sentences.map(({ condition }) => condition).join(' && ')}))`;
  });
  const messages = cases.flatMap(({ written, sentences }) =>
    sentences.map(({ condition, message }) => `${written} && !${condition} ? ${JSON.stringify(message)} : `),
  );
  return {
    rule: rules.join(' && '),
    messageExpression: `${messages.join('')}'invalid'`,
  };
}

const unlimited = '(has(self.unlimited) && self.unlimited)';

const ofUnlimited = where(
  unlimited,
  sentence('!has(self.unit)', 'should not specify rate limit unit when unlimited'),
  ...ownLimitFields.map((name) =>
    sentence(`!has(self.${name})`, `should not specify ${name} when unlimited`),
  ),
);

const neverUnlimited = where(
  'has(self.unlimited)',
  sentence('!self.unlimited', 'unlimited cannot be one of rateLimits'),
);

function instead(field: 'window' | 'calendar'): Sentence[] {
  const others = limitFields[field].insteadOf;
  const all = `${others.slice(0, -1).join(', ')} and ${others.at(-1)}`;
  const message = (other: string) => `${field} replaces ${all}, found ${other} beside it`;
  return others.map((other) => sentence(`!has(self.${other})`, message(other)));
}

const ofLimits = [
  where(
    `!${unlimited}`,
    sentence(
      '(has(self.unit) || has(self.window) || has(self.calendar))',
      'a limit needs unit, window or calendar, unless it is unlimited',
    ),
    sentence('has(self.requestsPerUnit)', 'requestsPerUnit is required (0 blocks everything)'),
  ),
  where('has(self.window)', ...instead('window')),
  where(
    'has(self.calendar)',
    ...instead('calendar'),
    sentence(
      `(!has(self.algorithm) || self.algorithm in ${JSON.stringify(calendarAlgorithms)})`,
      `calendar is only for algorithm ${calendarAlgorithms.join(' or ')}`,
    ),
  ),
  where(
    'has(self.burst)',
    sentence(
      `(has(self.algorithm) && self.algorithm in ${JSON.stringify(burstAlgorithms)})`,
      `burst works only with algorithm ${burstAlgorithms.join(' or ')}`,
    ),
  ),
];

const hasLimit = '(has(self.rateLimit) || has(self.rateLimits))';
const isLimited = '!(has(self.rateLimit) && has(self.rateLimit.unlimited) && self.rateLimit.unlimited)';

/** A lease that is a number is 0. Texts are compared, because a pattern would exceed the cost budget. */
const zeros = [
  '0',
  '0%',
  '00%',
  ...['.0', '.00', '.000', '.0000'].flatMap((end) => [`0${end}%`, `00${end}%`]),
];
const leasesNothing = `type(self.lease) == int || self.lease in ${JSON.stringify(zeros)}`;

function leasedWith(algorithm: string): Sentence {
  const other = `!has(self.rateLimit) || !has(self.rateLimit.algorithm) || self.rateLimit.algorithm != '${algorithm}'`;
  const message = `lease can only be 0 with algorithm ${algorithm}: only fixed windows are leased`;
  return sentence(`(${other} || ${leasesNothing})`, message);
}

const ofDescriptors = [
  where(
    'has(self.rateLimits)',
    sentence('!has(self.rateLimit)', 'a rule has either rateLimit or rateLimits, found both'),
  ),
  where(
    'has(self.lease)',
    sentence(hasLimit, 'lease needs a rateLimit beside it'),
    sentence(isLimited, 'should not specify lease when unlimited'),
    sentence(
      `(!has(self.rateLimits) || ${leasesNothing})`,
      'lease can only be 0 beside rateLimits, which one operation counts',
    ),
    ...algorithmEnum.filter((name) => !leasedAlgorithms.includes(name)).map(leasedWith),
  ),
  where(
    'has(self.reserve)',
    sentence(hasLimit, 'reserve needs a rateLimit beside it'),
    sentence(isLimited, 'should not specify reserve when unlimited'),
  ),
  where(
    '(has(self.shareThreshold) && self.shareThreshold)',
    sentence(
      "(has(self.value) || self.key.contains('*'))",
      "shareThreshold can only be used with wildcard values (containing '*')",
    ),
  ),
];

/**
 * The checks with the validator's messages. Only for the first level of rules, because each level may have 10,000 rules, and the API
 * server multiplies the cost of an expression by the maximum.
 */
export const sentenceChecks: RuleChecks = {
  descriptor: {
    'x-kubernetes-validations': [together(...ofDescriptors)],
    // A check for * in a value would exceed the cost budget of expressions, because a value may be long.
    anyOf: [
      { properties: { shareThreshold: { enum: [false] } } },
      { properties: { value: { pattern: '[*]' } } },
      { properties: { key: { pattern: '[*]' } } },
    ],
  },
  rateLimit: { 'x-kubernetes-validations': [together(ofUnlimited, ...ofLimits)] },
  limitOfSeveral: { 'x-kubernetes-validations': [together(neverUnlimited, ...ofLimits)] },
  unlimitedOfSeveral: {},
};
