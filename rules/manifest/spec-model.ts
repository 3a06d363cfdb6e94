/**
 * The model of `spec`: what it may hold, level by level. The CRD is generated from it, and `readSpec` reads by it. What
 * `validate-sources.ts` says of a rule stands here as metadata only, so that it is said once, in its words. Null is refused as the API server
 * refuses it, so that `rateLimit:` with nothing below is no rule without a limit.
 */
import { z } from 'zod';
import { defaultAlgorithm } from '../algorithms/registry.ts';
import { mostMarks, unknownExpiry, unknownHitsUnit } from '../budget-fields.ts';
import { ruleFields } from '../language/fields.ts';
import { ruleFlags } from '../language/tables.ts';
import { leaseForm, leaseFromText, leasePattern } from '../lease.ts';
import { weekdays } from '../model.ts';
import { fewestLimits, mostLimits, unknownAlgorithm } from '../validate-limits.ts';
import { largestMultiplier } from '../window.ts';
import { algorithmEnum, expiryEnum, hitsUnitEnum } from './enum-words.ts';
import { bounds, defaultClass, defaultFleet, dnsLabelPattern } from './manifest-bounds.ts';
import {
  emptyList,
  enumOf,
  flag,
  freeObject,
  kindOf,
  list,
  object,
  patternText,
  text,
  typed,
  uint32,
  whole,
} from './model-values.ts';
import { type RuleChecks, sentenceChecks, structuralChecks } from './rule-checks.ts';

const replacesModel = object(
  { name: text(bounds.limitNameLength, { minLength: 1, description: 'Name of the limit.' }) },
  { description: 'A limit, by its name.' },
);

const algorithmModel = enumOf(algorithmEnum, (found) => unknownAlgorithm(found, algorithmEnum), {
  description: `How hits are counted; ${algorithmEnum[defaultAlgorithm]} where it is not written. Others are known to Weir's limiters only.`,
});

const calendarModel = object(
  {
    unit: text(16, {
      pattern: '^(?i:day|week|month|year)$',
      description: 'day, week, month or year, in any letter case.',
    }),
    timezone: text(64, {
      pattern: '^[A-Za-z][A-Za-z0-9_+/-]*$',
      description:
        'Name of the time zone in the IANA database, as Europe/Zurich; UTC where it is not written.',
    }).optional(),
    startsOn: z
      .union([z.string(), z.number()], typed('a day'))
      .meta({
        'x-kubernetes-int-or-string': true,
        anyOf: [{ type: 'integer' }, { type: 'string' }],
        minimum: 1,
        maximum: 31,
        pattern: `^([0-9]{1,2}|(?i:${weekdays.join('|')}))$`,
        description:
          'The day that windows begin with: 1 to 31 of a month, or its last where it is shorter; monday to sunday of a week, or 1 to 7. The first where it is not written.',
      })
      .optional(),
  },
  {
    description:
      "Windows of the calendar as it is in a place, in place of unit, unitMultiplier and window; with FixedWindow alone. Known to Weir's limiters only.",
  },
);

const markModel = z.number(typed('a whole number')).meta({
  type: 'integer',
  format: 'int64',
  minimum: 1,
  maximum: 100,
  description: 'Percents of the limit.',
});

/** Of one limit, but for `unlimited`. */
const limitFields = {
  unit: text(16, {
    pattern: '^(?i:second|minute|hour|day|week|month|year)$',
    description:
      'Length of the window: second, minute, hour, day, week, month or year, in any letter case. Required unless unlimited or window is written.',
  }).optional(),
  unitMultiplier: uint32({
    minimum: 1,
    maximum: largestMultiplier,
    description:
      "How many units the window has, ten years at most; 1 where it is not written. Known to Weir's limiters only.",
  }).optional(),
  window: text(32, {
    pattern: '^([0-9]+(w|d|h|m|s|mo|y))+$',
    description:
      "Length of the window as 30s, 5m, 1h30m, 1d, 2w, 1mo or 1y, in place of unit and unitMultiplier; at most ten years, with hours in it 390w15h, with minutes 6w3d12h15m, with seconds 18h12m15s. Known to Weir's limiters only.",
  }).optional(),
  calendar: calendarModel.optional(),
  requestsPerUnit: whole({
    description: 'Requests that each window allows; 0 blocks everything. Required unless unlimited.',
  }).optional(),
  hitsUnit: enumOf(
    hitsUnitEnum,
    (found) => unknownHitsUnit(found, hitsUnitEnum).replace('hits_unit', 'hitsUnit'),
    {
      description:
        "What the hits are, for people; requests where it is not written. It changes nothing of how they are counted. Known to Weir's limiters only.",
    },
  ).optional(),
  warnAt: list(markModel, mostMarks, {
    description:
      "Percents of the limit from which on answers carry a mark, ascending. Known to Weir's limiters only.",
  }).optional(),
  algorithm: algorithmModel.optional(),
  burst: whole({
    description: 'The most that a token bucket lets come at once; requestsPerUnit where it is not written.',
  }).optional(),
  name: text(bounds.limitNameLength, {
    description: 'Name by which other limits can replace this one.',
  }).optional(),
  replaces: list(replacesModel, bounds.replaces, {
    description: 'Limits that this one takes the place of, when both apply to one request.',
  }).optional(),
};

/** `rateLimit` and `rateLimits`. */
function limitModels(checks: RuleChecks) {
  const rateLimit = object(
    {
      ...limitFields,
      unlimited: flag({ description: 'Whether requests are never limited and never counted.' }).optional(),
    },
    {
      description: 'The limit: either a window (unit, window or calendar) and requestsPerUnit, or unlimited.',
      ...checks.rateLimit,
    },
  );
  const oneOfSeveral = object(
    {
      ...limitFields,
      unlimited: flag({
        ...checks.unlimitedOfSeveral,
        description: 'Must be false where there are several limits.',
      }).optional(),
    },
    { description: 'One of the limits.', ...checks.limitOfSeveral },
  );
  const rateLimits = z.array(oneOfSeveral, typed('a list')).meta({
    minItems: fewestLimits,
    maxItems: mostLimits,
    'x-kubernetes-list-type': 'atomic',
    description:
      "In place of rateLimit, several limits that all have to allow; what one refuses counts in none. Known to Weir's limiters only.",
  });
  return { rateLimit: rateLimit.optional(), rateLimits: rateLimits.optional() };
}

const flags = Object.fromEntries(
  ruleFlags.map((name) => [name, flag({ description: ruleFields[name].description }).optional()]),
);

/** As rule files write it: a text, or the number 0. */
const leaseModel = z
  .union([z.string(), z.number()], { error: ({ input }) => `must be ${leaseForm}, found ${kindOf(input)}` })
  .refine((value) => leaseFromText(String(value)) !== undefined, {
    error: ({ input }) => `must be ${leaseForm}, found ${kindOf(input)}`,
  })
  .meta({
    'x-kubernetes-int-or-string': true,
    anyOf: [{ type: 'integer' }, { type: 'string' }],
    pattern: leasePattern,
    minimum: 0,
    maximum: 0,
    description:
      "The share of the limit that one limiter may take ahead and spend by itself, as 2%, or 0 for none; as the limiter is set where it is not written. Known to Weir's limiters only.",
  });

const reserveModel = object(
  {
    ttl: text(32, {
      pattern: '^([0-9]+(d|h|m|s))+$',
      description: 'How long a reservation is held, 1s to 24h; 60s where it is not written.',
    }).optional(),
    estimate: whole({
      description:
        'What is reserved where a request does not say how much; its hits where it is not written.',
    }).optional(),
    onExpiry: enumOf(
      expiryEnum,
      (found) => unknownExpiry(found, expiryEnum).replace('on_expiry', 'onExpiry'),
      {
        description:
          'What becomes of a reservation that nobody settled: it is given back, as where this is not written, or stays charged.',
      },
    ).optional(),
  },
  {
    description:
      "How entries reservation_id and settle of a request reserve against the rule's limits. Known to Weir's limiters only.",
  },
);

/** What a rule may say of its limits, at the first level of rules and below it. */
const firstLevel = { checks: sentenceChecks, limits: limitModels(sentenceChecks) };
const belowFirst = { checks: structuralChecks, limits: limitModels(structuralChecks) };

/** A rule, with as many levels of rules below it as `levelsBelow` says. */
function descriptorModel(levelsBelow: number): z.ZodType {
  const { checks, limits } = levelsBelow === bounds.descriptorLevels - 1 ? firstLevel : belowFirst;
  return object(
    {
      key: text(bounds.keyLength, {
        minLength: 1,
        description: 'Key of the entry that this rule is for; compared as written, case counts.',
      }),
      value: text(bounds.valueLength, {
        description:
          'Value of the entry; empty fits every value, and counts each apart. * stands for any text, anywhere and several times.',
      }).optional(),
      ...limits,
      lease: leaseModel.optional(),
      reserve: reserveModel.optional(),
      ...flags,
      metadata: freeObject({
        description: "Any content, sent back in an answer's dynamic metadata where the limiter is set to.",
      }).optional(),
      descriptors: rulesBelow(levelsBelow).optional(),
    },
    {
      description: "A rule for one entry of a request's descriptor.",
      ...checks.descriptor,
    },
  );
}

function rulesBelow(levelsBelow: number): z.ZodType<unknown[]> {
  if (levelsBelow === 0) {
    return emptyList(`must be empty: rules nest at most ${bounds.descriptorLevels} levels deep`, {
      description: `Must be empty: rules nest at most ${bounds.descriptorLevels} levels deep.`,
    });
  }
  return list(descriptorModel(levelsBelow - 1), bounds.descriptorsPerLevel, {
    description: "Rules for the next entry of the request's descriptor.",
  });
}

/** Fields of what is served: the control plane that serves it, and the limiters that load it. */
export const whoServes = (what: string) => ({
  className: patternText(
    {
      maxLength: bounds.classLength,
      pattern: dnsLabelPattern,
      rule: 'a DNS label (lower case letters, digits and inner hyphens)',
    },
    {
      default: defaultClass,
      description: `The control plane that serves ${what}: the one whose CLASS_NAME this is. Others leave the object alone. Defaults to "weir".`,
    },
  ).nullish(),
  fleet: patternText(
    {
      maxLength: bounds.fleetLength,
      pattern: dnsLabelPattern,
      rule: 'a DNS label (lower case letters, digits and inner hyphens)',
    },
    {
      default: defaultFleet,
      description: `The limiters that load ${what}: those whose node metadata says fleet=<this name>. Defaults to "default".`,
    },
  ).nullish(),
});

export const specModel: z.ZodType = object(
  {
    ...whoServes('these rules'),
    domain: text(bounds.domainLength, {
      minLength: 1,
      description:
        'The domain of the requests that these rules are for. Within a fleet one object holds it, unless the control plane merges domains.',
    }),
    descriptors: list(descriptorModel(bounds.descriptorLevels - 1), bounds.descriptorsPerLevel, {
      description: `Rules for the first entry of a request's descriptor. Rules nest at most ${bounds.descriptorLevels} levels deep; deeper ones are refused.`,
    }).optional(),
  },
  { description: 'Rate limits of one domain.' },
);

export const count = (description: string) =>
  z.int().min(0).meta({ type: 'integer', format: 'int64', minimum: 0, description });

/** What this version writes. The CRD takes any other one, so that a newer control plane can write on an older CRD. */
const conditionTypes = ['Accepted', 'Programmed', 'Ready', 'Supported'] as const;

export const conditionModel = z
  .object({
    type: z
      .custom<(typeof conditionTypes)[number]>((value) => conditionTypes.some((type) => type === value))
      .meta({ type: 'string', minLength: 1, maxLength: 316, description: 'What is said.' }),
    status: z.enum(['True', 'False', 'Unknown']).meta({ description: 'Whether it holds.' }),
    reason: z.string().meta({
      minLength: 1,
      maxLength: 1024,
      pattern: '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$',
      description: 'Why, in one word for programs.',
    }),
    message: z.string().meta({ maxLength: 32768, description: 'Why, for people.' }),
    lastTransitionTime: z.string().meta({ format: 'date-time', description: 'When status last changed.' }),
    observedGeneration: count('The generation that this condition speaks of.'),
  })
  .meta({ description: 'One fact about the object, as metav1.Condition.' });

/** The model of `status`, for the CRD and for whoever reads one back. */
export const statusModel = z
  .object({
    observedGeneration: count('The generation that this status speaks of.'),
    controllerName: z.string().exactOptional().meta({
      description:
        'The control plane that wrote this, as <namespace>/<LEASE_NAME>. Missing once it does not serve the object any more.',
    }),
    domain: z.string().exactOptional().meta({ description: 'The domain it was last accepted for.' }),
    fleet: z.string().exactOptional().meta({ description: 'The fleet it was last accepted for.' }),
    rules: count('Rules that are served, of all levels.').exactOptional(),
    servedVersion: z.string().exactOptional().meta({ description: 'Hash of the rules that are served.' }),
    servedGeneration: count(
      'The generation that is served; older than observedGeneration while the newer one is not accepted.',
    ).exactOptional(),
    overrides: count(
      'RateLimitOverrides in force over the domain; missing while there are none.',
    ).exactOptional(),
    conditions: z.array(conditionModel).meta({
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['type'],
      description: 'Accepted, Programmed, Ready; Supported only while it is False.',
    }),
  })
  .meta({ description: 'What became of the rules. Written by the control plane.' });

export type StatusModel = z.infer<typeof statusModel>;

/** The resource that carries rules in Kubernetes, as its API names it. */
export const group = 'ratelimit.weir.dev';
export const version = 'v1alpha1';
export const apiVersion = `${group}/${version}`;
export const kind = 'RateLimitConfig';
export const listKind = 'RateLimitConfigList';
export const plural = 'ratelimitconfigs';
export const singular = 'ratelimitconfig';
