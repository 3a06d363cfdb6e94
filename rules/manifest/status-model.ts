/** The model of `status`, for the CRD and for whoever reads one back. */
import { z } from 'zod';

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
