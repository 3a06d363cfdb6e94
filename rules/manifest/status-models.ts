/** The models of `status` of objects with rules and overrides: the CRDs are generated from them, and what comes back is read by them. */
import { z } from 'zod';

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

/** The model of `status` of an override. */
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
