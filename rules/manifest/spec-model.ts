/**
 * The model of `spec`: what it may hold, level by level. The CRD is generated from it, and `readSpec` reads by it. What
 * `rules/validation` says of a rule stands here as metadata only, so that it is said once, in its words.
 */
import { z } from 'zod';
import { emptyList, flag, freeObject, list, object, patternText, text, uint32 } from './field-models.ts';
import { bounds, defaultFleet, dnsLabelPattern } from './manifest-bounds.ts';

const replacesModel = object(
  { name: text(bounds.limitNameLength, { minLength: 1, description: 'Name of the limit.' }) },
  { description: 'A limit, by its name.' },
);

const rateLimitModel = object(
  {
    unit: text(16, {
      pattern: '^(?i:second|minute|hour|day|week|month|year)$',
      description:
        'Length of the window: second, minute, hour, day, week, month or year, in any letter case. Required unless unlimited.',
    }).optional(),
    requestsPerUnit: uint32({
      description: 'Requests that each window allows; 0 blocks everything. Required unless unlimited.',
    }).optional(),
    unlimited: flag({ description: 'Whether requests are never limited and never counted.' }).optional(),
    name: text(bounds.limitNameLength, {
      description: 'Name by which other limits can replace this one.',
    }).optional(),
    replaces: list(replacesModel, bounds.replaces, {
      description: 'Limits that this one takes the place of, when both apply to one request.',
    }).optional(),
  },
  {
    description: 'The limit: either unit and requestsPerUnit, or unlimited.',
    oneOf: [
      { required: ['unit', 'requestsPerUnit'], properties: { unlimited: { enum: [false] } } },
      { required: ['unlimited'], properties: { unlimited: { enum: [true] } } },
    ],
    // Apart from oneOf, because the API server then names the one field that is too many.
    anyOf: [{ properties: { unlimited: { enum: [false] } } }, { properties: { unit: { maxLength: 0 } } }],
  },
);

const flags = {
  shadowMode: flag({
    description: 'Whether the limit is counted and reported, but never refuses.',
  }).optional(),
  quotaMode: flag({
    description:
      'Whether being over this limit alone does not refuse a request: it is refused when all its limits in quota mode are over.',
  }).optional(),
  detailedMetric: flag({
    description: 'Whether the values of a request go into the name of its metrics.',
  }).optional(),
  valueToMetric: flag({
    description:
      "Whether the value of this entry goes into the metric's name. Known to Weir's limiters only.",
  }).optional(),
  shareThreshold: flag({
    description:
      "Whether all values that fit the * in value share one counter. Known to Weir's limiters only.",
  }).optional(),
};

/** A rule, with as many levels of rules below it as `levelsBelow` says. */
function descriptorModel(levelsBelow: number): z.ZodType {
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
      rateLimit: rateLimitModel.optional(),
      ...flags,
      metadata: freeObject({
        description: "Any content, sent back in an answer's dynamic metadata where the limiter is set to.",
      }).optional(),
      descriptors: rulesBelow(levelsBelow).optional(),
    },
    {
      description: "A rule for one entry of a request's descriptor.",
      anyOf: [
        { properties: { shareThreshold: { enum: [false] } } },
        { properties: { value: { pattern: '[*]' } }, required: ['value'] },
        { properties: { key: { pattern: '[*]' } } },
      ],
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

export const specModel: z.ZodType = object(
  {
    fleet: patternText(
      {
        maxLength: bounds.fleetLength,
        pattern: dnsLabelPattern,
        rule: 'a DNS label (lower case letters, digits and inner hyphens)',
      },
      {
        default: defaultFleet,
        description:
          'The limiters that load these rules: those whose node metadata says fleet=<this name>. Defaults to "default".',
      },
    ).nullish(),
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

/** The model of `status`, for the CRD and for whoever reads one back. */

const count = (description: string) =>
  z.int().min(0).meta({ type: 'integer', format: 'int64', minimum: 0, description });

const conditionModel = z
  .object({
    type: z.enum(['Accepted', 'Programmed', 'Ready', 'Supported']).meta({ description: 'What is said.' }),
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

const limitersModel = z
  .object({
    inForce: count('Limiters of the fleet that have the served rules in force.'),
    refused: count('Limiters that refused them.'),
    total: count('Limiters of the fleet.'),
    summary: z.string().meta({ description: 'inForce/total, such as 3/3.' }),
  })
  .meta({ description: 'What the limiters of the fleet answered.' });

export const statusModel = z
  .object({
    observedGeneration: count('The generation that this status speaks of.'),
    domain: z.string().exactOptional().meta({ description: 'The domain it was last accepted for.' }),
    fleet: z.string().exactOptional().meta({ description: 'The fleet it was last accepted for.' }),
    rules: count('Rules that are served, of all levels.').exactOptional(),
    servedVersion: z.string().exactOptional().meta({ description: 'Hash of the rules that are served.' }),
    servedGeneration: count(
      'The generation that is served; older than observedGeneration while the newer one is not accepted.',
    ).exactOptional(),
    limiters: limitersModel.exactOptional(),
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
