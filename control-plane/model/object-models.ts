/**
 * The models of a RateLimitFleet (who should run the rules of a fleet, who may bring them, and who runs them) and of `status` of all
 * objects. The CRDs are generated from them, and objects are read by them.
 */
import { z } from 'zod';
import { domainFields } from '../../rules/language/fields.ts';
import { dnsLabelLength, dnsLabelPattern } from '../../rules/language/kinds.ts';

const label = (description: string) =>
  z.string().regex(new RegExp(dnsLabelPattern)).max(dnsLabelLength).meta({ description });

const serviceModel = z
  .object({
    namespace: label('Of the Service.'),
    name: label('Of the Service.'),
  })
  .meta({ description: 'The Service in front of the limiters: they are its endpoints.' });

const labelValue = z
  .string()
  .max(63)
  .regex(/^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$/);

/** As metav1.LabelSelector. */
const selectorModel = z
  .object({
    matchLabels: z
      .record(z.string(), labelValue)
      .meta({ maxProperties: 100, description: 'Labels that a namespace has, all of them.' })
      .exactOptional(),
    matchExpressions: z
      .array(
        z
          .object({
            key: z.string().min(1).max(317).meta({ description: 'Of the label.' }),
            operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']).meta({
              description: 'NotIn holds without the label, too.',
            }),
            values: z
              .array(labelValue)
              .max(100)
              .meta({ description: 'Of In and NotIn.', 'x-kubernetes-list-type': 'atomic' })
              .exactOptional(),
          })
          .meta({
            'x-kubernetes-validations': [
              {
                rule: "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
                message: 'values are needed with In and NotIn, and with nothing else',
              },
            ],
          }),
      )
      .max(100)
      .meta({ description: 'What else has to hold of its labels.', 'x-kubernetes-list-type': 'atomic' })
      .exactOptional(),
  })
  .meta({ description: 'Of namespaces, by their labels; empty: all of them.' });

export type NamespaceSelector = z.infer<typeof selectorModel>;

const allowedNamespacesModel = z
  .object({
    from: z.enum(['All', 'Selector']).default('All').meta({ description: 'Whether labels choose them.' }),
    selector: selectorModel.exactOptional(),
  })
  .meta({
    description: 'Namespaces whose objects may be of the fleet; all of them by default.',
    'x-kubernetes-validations': [
      {
        rule: "(self.from == 'Selector') == has(self.selector)",
        message: 'selector is needed with from: Selector, and with nothing else',
      },
    ],
  });

const domainEntryModel = z
  .object({
    match: z.string().min(1).max(domainFields.domain.most).meta({
      description: 'A domain; * stands for any characters.',
    }),
    namespaces: z
      .array(
        z
          .string()
          .max(63)
          .regex(/^[a-z0-9*-]+$/),
      )
      .min(1)
      .max(100)
      .meta({
        description: 'That may use the domain; * stands for any characters.',
        'x-kubernetes-list-type': 'atomic',
      }),
  })
  .meta({ description: 'The first entry that matches a domain decides.' });

export type DomainEntry = z.infer<typeof domainEntryModel>;

/** Chosen: longer than a limiter takes to come back to another replica, by default. */
export const usualGraceSeconds = 30;

/** The model of `spec` of a fleet. */
export const fleetSpecModel = z
  .object({
    service: serviceModel.exactOptional(),
    count: z.int().min(0).max(100_000).exactOptional().meta({
      type: 'integer',
      format: 'int64',
      description:
        'How many limiters there should be, where no Service says it. Without either, whoever was connected within the grace.',
    }),
    disconnectedGraceSeconds: z.int().min(0).max(86_400).default(usualGraceSeconds).meta({
      type: 'integer',
      format: 'int64',
      description:
        'How long a limiter that went away is still expected. One whose endpoint is ready is expected for ever.',
    }),
    onDisconnected: z.enum(['Unknown', 'Ignore']).default('Unknown').meta({
      description:
        'What becomes of objects that changed since an expected limiter went away: Programmed is Unknown, or only who is connected counts.',
    }),
    allowedNamespaces: allowedNamespacesModel.exactOptional(),
    domains: z
      .array(domainEntryModel)
      .max(1_000)
      .meta({
        description:
          'Which namespaces may use which domains of the fleet, as DOMAIN_OWNERS says it for all fleets: both have to allow it.',
        'x-kubernetes-list-type': 'atomic',
      })
      .exactOptional(),
  })
  .meta({
    description:
      'Who should run the rules of the fleet, and who may bring them. The name of the object is that of the fleet.',
    'x-kubernetes-validations': [
      { rule: '!(has(self.service) && has(self.count))', message: 'service and count exclude each other' },
    ],
  });

export type FleetSpec = z.infer<typeof fleetSpecModel>;

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

const fleetConditionModel = conditionModel.extend({
  type: z.string().meta({ minLength: 1, maxLength: 316, description: 'What is said.' }),
});

/** The model of `status` of a fleet. */
export const fleetStatusModel = z
  .object({
    observedGeneration: count('The generation that this status speaks of.'),
    limiters: z.string().meta({ description: 'connected/expected, such as 3/3.' }),
    expected: count('Limiters that should run the rules.'),
    connected: count('Limiters of these that are connected.'),
    current: count('Limiters of these that run the newest version.'),
    joining: count('Limiters that are coming and have not answered yet.'),
    refusing: z
      .array(
        z.object({
          name: z.string().meta({ description: 'Of the limiter.' }),
          message: z.string().meta({ maxLength: 1_024, description: 'Its words.' }),
        }),
      )
      .meta({
        'x-kubernetes-list-type': 'atomic',
        description: 'The first five limiters that refuse the newest version.',
      }),
    version: z
      .string()
      .exactOptional()
      .meta({ description: 'Of the rules that are served; missing while there are none.' }),
    conditions: z.array(fleetConditionModel).meta({
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['type'],
      description: 'Ready, Progressing.',
    }),
  })
  .meta({
    description: 'Who runs the rules of the fleet. Written by the control plane once a second at most.',
  });

export type FleetStatusModel = z.infer<typeof fleetStatusModel>;

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
