/** The models of a RateLimitOverride: what lies over the rules of a domain for a time. The CRD is generated from them; specs are read by `readOverride`. */
import { z } from 'zod';
import { bounds } from './manifest-bounds.ts';
import { flag, list, object, text, whole } from './model-values.ts';
import { statusModel, whoServes } from './spec-model.ts';

export const overrideEffects = ['requestsPerUnit', 'unlimited', 'shadow', 'block', 'grant'];
export const overrideEnds = ['expiresAt', 'for', 'permanent'];

/** In the Common Expression Language (CEL), whose word `for` Kubernetes 1.30 takes as a field in this spelling alone. */
const spelled = (field: string): string => (field === 'for' ? '__for__' : field);

/** In CEL: that so many of these fields are there. */
function howMany(fields: readonly string[], count: number): string {
  return `[${fields.map((field) => `has(self.${spelled(field)})`).join(', ')}].filter(one, one).size() == ${count}`;
}

const onlyTrue = (description: string) => flag({ enum: [true], description }).optional();

const entryModel = object(
  {
    key: text(bounds.keyLength, { minLength: 1, description: 'Key of the entry; compared as written.' }),
    value: text(bounds.valueLength, {
      description: 'Value of the entry; * stands for any text, anywhere and several times.',
    }).optional(),
  },
  { description: "An entry of a request's descriptor." },
);

/** The model of `spec`. */
export const overrideSpecModel: z.ZodType = object(
  {
    ...whoServes('this override'),
    domain: text(bounds.domainLength, {
      minLength: 1,
      description: 'The domain over whose rules it lies: one that the namespace of the object may have.',
    }),
    match: list(entryModel, 32, {
      minItems: 1,
      description:
        "All entries of a request's descriptor, in their order. An exact match goes before one with *, then the longer text.",
    }),
    limit: text(bounds.limitNameLength, {
      description: 'Name of the limit that it is for, where the matched rule has several.',
    }).optional(),
    requestsPerUnit: whole({
      description:
        "In place of the matched limit's requests; window, algorithm and counter stay. 0 refuses everything.",
    }).optional(),
    unit: text(16, {
      pattern: '^(?i:second|minute|hour|day|week|month|year)$',
      description: 'Window of requestsPerUnit where no rule matches; needed there.',
    }).optional(),
    unlimited: onlyTrue('Requests are never limited.'),
    shadow: onlyTrue('Requests are counted and never refused.'),
    block: onlyTrue('All requests are refused.'),
    grant: whole({
      minimum: 1,
      description: 'So many requests more, until the window ends in which the object was created.',
    }).optional(),
    expiresAt: text(64, { format: 'date-time', description: 'When it ends.' }).optional(),
    for: text(32, {
      pattern: '^([0-9]+(w|d|h|m|s))+$',
      description: 'How long it lasts, from the creation of the object on: 30m, 2h, 1d.',
    }).optional(),
    permanent: onlyTrue('It lasts until the object is deleted.'),
    reason: text(1024, {
      minLength: 1,
      pattern: '\\S',
      description: 'Why, for whoever finds it.',
    }),
  },
  {
    description: 'What lies over the rules of a domain for a time.',
    'x-kubernetes-validations': [
      {
        rule: howMany(overrideEffects, 1),
        message: `exactly one effect is needed: ${overrideEffects.join(', ')}`,
      },
      {
        rule: `has(self.grant) || ${howMany(overrideEnds, 1)}`,
        message: `exactly one end is needed: ${overrideEnds.join(', ')}`,
      },
      {
        rule: `!has(self.grant) || ${howMany(overrideEnds, 0)}`,
        message: 'a grant ends with its window: no other end is taken',
      },
      {
        rule: "!has(self.grant) || self.match.all(entry, !has(entry.value) || !entry.value.contains('*'))",
        message: 'a grant is for exactly these entries: no * in values',
      },
      {
        rule: '!has(self.unit) || has(self.requestsPerUnit)',
        message: 'unit is for requestsPerUnit alone',
      },
    ],
  },
);

/** The model of `status`. */
export const overrideStatusModel = statusModel
  .omit({ rules: true, overrides: true })
  .extend({
    servedVersion: z.string().exactOptional().meta({ description: 'Hash of what is served.' }),
    match: z.string().exactOptional().meta({ description: 'The entries, for people.' }),
    effect: z.string().exactOptional().meta({ description: 'What it does, for people.' }),
    endsAt: z.string().exactOptional().meta({
      format: 'date-time',
      description: 'When it ends, fixed by spec and creation; missing where it is permanent or a grant.',
    }),
  })
  .meta({ description: 'What became of the override. Written by the control plane.' });

export type OverrideStatusModel = z.infer<typeof overrideStatusModel>;

export const overrideKind = 'RateLimitOverride' as const;
export const overridePlural = 'ratelimitoverrides';
