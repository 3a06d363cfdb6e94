/**
 * The models of a RateLimitFleet (the limiters that should run the rules of a fleet, the namespaces that may provide them, and
 * the limiters that run them) and of `status` of all objects. The CRDs are generated from them, and objects are read by them.
 */
import { z } from 'zod';
import { domainFields } from '../../rules/language/fields.ts';
import { dnsLabelLength, dnsLabelPattern } from '../../rules/language/kinds.ts';

const label = (description: string) =>
  z.string().regex(new RegExp(dnsLabelPattern)).max(dnsLabelLength).meta({ description });

const serviceModel = z
  .object({
    namespace: label('Namespace of the Service.'),
    name: label('Name of the Service.'),
  })
  .meta({ description: 'The Service whose endpoints are the limiters.' });

/** The CRD reports this for new objects. The control plane reports it for objects that are older than this rule of the CRD. */
export const selectorValuesProblem = 'values are needed with In and NotIn, and with nothing else';

const labelValue = z
  .string()
  .max(63)
  .regex(/^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$/);

/** The same fields as in metav1.LabelSelector. */
const selectorModel = z
  .object({
    matchLabels: z
      .record(z.string(), labelValue)
      .meta({ maxProperties: 100, description: 'Labels that a namespace must have, all of them.' })
      .exactOptional(),
    matchExpressions: z
      .array(
        z
          .object({
            key: z.string().min(1).max(317).meta({ description: 'Key of the label.' }),
            operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']).meta({
              description: 'How to compare. NotIn also matches without the label.',
            }),
            values: z
              .array(labelValue)
              .max(100)
              .meta({ description: 'Values for In and NotIn.', 'x-kubernetes-list-type': 'atomic' })
              .exactOptional(),
          })
          .meta({
            'x-kubernetes-validations': [
              {
                rule: "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
                message: selectorValuesProblem,
              },
            ],
          }),
      )
      .max(100)
      .meta({ description: 'Further conditions on its labels.', 'x-kubernetes-list-type': 'atomic' })
      .exactOptional(),
  })
  .meta({ description: 'Selects namespaces by their labels. Empty: all of them.' });

export type NamespaceSelector = z.infer<typeof selectorModel>;

const allowedNamespacesModel = z
  .object({
    from: z
      .enum(['All', 'Selector'])
      .default('All')
      .meta({ description: 'Whether all namespaces, or those that the selector chooses.' }),
    selector: selectorModel.exactOptional(),
  })
  .meta({
    description: 'Namespaces whose objects may use the fleet. Defaults to all.',
    'x-kubernetes-validations': [
      {
        rule: "(self.from == 'Selector') == has(self.selector)",
        message: 'selector is needed with from: Selector, and with nothing else',
      },
    ],
  });

const domainEntryModel = z
  .object({
    match: z.string().min(1).max(domainFields.domain.max).meta({
      description: 'A domain; * matches any characters.',
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
        description: 'A namespace that may use the domain; * matches any characters.',
        'x-kubernetes-list-type': 'atomic',
      }),
  })
  .meta({ description: 'Namespaces for a domain. The first matching entry decides.' });

export type DomainEntry = z.infer<typeof domainEntryModel>;

/** The default is longer than the time that a limiter takes to reconnect to another replica. */
export const defaultGraceSeconds = 30;

/** The model of `spec` of a fleet. */
export const fleetSpecModel = z
  .object({
    service: serviceModel.exactOptional(),
    count: z.int().min(0).max(100_000).exactOptional().meta({
      type: 'integer',
      format: 'int64',
      description:
        'Expected number of limiters, in place of service. With neither, those connected within the grace are expected.',
    }),
    disconnectedGraceSeconds: z.int().min(0).max(86_400).default(defaultGraceSeconds).meta({
      type: 'integer',
      format: 'int64',
      description:
        'How long a disconnected limiter is still expected. One with a ready endpoint is always expected.',
    }),
    onDisconnected: z.enum(['Unknown', 'Ignore']).default('Unknown').meta({
      description:
        'Effect of an expected limiter that is disconnected: changed objects are Unknown, or only connected limiters count.',
    }),
    allowedNamespaces: allowedNamespacesModel.exactOptional(),
    domains: z
      .array(domainEntryModel)
      .max(1_000)
      .meta({
        description:
          'Namespaces that may use domains of the fleet, as DOMAIN_OWNERS for all fleets. Both must allow an object.',
        'x-kubernetes-list-type': 'atomic',
      })
      .exactOptional(),
  })
  .meta({
    description:
      "The limiters that should apply the fleet's rules, and the namespaces that may have such rules. The object has the name of the fleet.",
    'x-kubernetes-validations': [
      { rule: '!(has(self.service) && has(self.count))', message: 'service and count exclude each other' },
    ],
  });

export type FleetSpec = z.infer<typeof fleetSpecModel>;

export const count = (description: string) =>
  z.int().min(0).meta({ type: 'integer', format: 'int64', minimum: 0, description });

/** The values that this version writes. The CRD accepts all values, so that a newer control plane can write with an older CRD. */
export const conditionTypes = ['Accepted', 'Programmed', 'Ready', 'Supported', 'Stalled'] as const;

export const conditionModel = z
  .object({
    type: z
      .custom<(typeof conditionTypes)[number]>((value) => conditionTypes.some((type) => type === value))
      .meta({ type: 'string', minLength: 1, maxLength: 316, description: 'Type of the condition.' }),
    status: z.enum(['True', 'False', 'Unknown']).meta({ description: 'Status of the condition.' }),
    reason: z.string().meta({
      minLength: 1,
      maxLength: 1024,
      pattern: '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$',
      description: 'Reason for programs, in one word.',
    }),
    message: z.string().meta({ maxLength: 32768, description: 'Reason for people.' }),
    lastTransitionTime: z.string().meta({ format: 'date-time', description: 'When status last changed.' }),
    observedGeneration: count('The generation that this condition describes.'),
  })
  .meta({ description: 'One fact about the object, as metav1.Condition.' });

const fleetConditionModel = conditionModel.extend({
  type: z.string().meta({ minLength: 1, maxLength: 316, description: 'Type of the condition.' }),
});

/** The model of `status` of a fleet. */
export const fleetStatusModel = z
  .object({
    observedGeneration: count('The generation that this status describes.'),
    limiters: z.string().meta({ description: 'Connected and expected limiters, such as 3/3.' }),
    expected: count('Number of limiters that should apply the rules.'),
    connected: count('Number of these that are connected.'),
    current: count('Number of connected limiters that apply the newest version.'),
    joining: count('Number of new limiters that have not answered yet.'),
    refusing: z
      .array(
        z.object({
          name: z.string().meta({ description: 'Name of the limiter.' }),
          message: z.string().meta({ maxLength: 1_024, description: 'Message of the limiter.' }),
        }),
      )
      .meta({
        'x-kubernetes-list-type': 'atomic',
        description: 'The first five limiters that reject the newest version.',
      }),
    version: z
      .string()
      .exactOptional()
      .meta({ description: 'Version of the served rules. Missing if there are none.' }),
    conditions: z.array(fleetConditionModel).meta({
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['type'],
      description: 'Ready and Progressing; Stalled only while it is True.',
    }),
  })
  .meta({
    description:
      "The limiters that apply the fleet's rules, written by the control plane at most once a second.",
  });

/** The model of `status`, for the CRD and for programs that read a status. */
export const statusModel = z
  .object({
    observedGeneration: count('The generation that this status describes.'),
    controllerName: z.string().exactOptional().meta({
      description:
        'The control plane that wrote this, as <namespace>/<LEASE_NAME>. Missing if it no longer serves the object.',
    }),
    domain: z.string().exactOptional().meta({ description: 'Domain of the last accepted generation.' }),
    fleet: z.string().exactOptional().meta({ description: 'Fleet of the last accepted generation.' }),
    rules: count('Number of served rules, of all levels.').exactOptional(),
    servedVersion: z.string().exactOptional().meta({ description: 'Hash of the served rules.' }),
    servedGeneration: count(
      'The served generation. It is older than observedGeneration while a newer one is not accepted.',
    ).exactOptional(),
    overrides: count(
      'Number of RateLimitOverrides in force for the domain. Missing if there are none.',
    ).exactOptional(),
    conditions: z.array(conditionModel).meta({
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['type'],
      description:
        'Accepted, Programmed and Ready; Supported only while it is False, Stalled only while it is True.',
    }),
  })
  .meta({ description: 'State of the rules, written by the control plane.' });

/** The model of `status` of an override. */
export const overrideStatusModel = statusModel
  .omit({ rules: true, overrides: true })
  .extend({
    servedVersion: z.string().exactOptional().meta({ description: 'Hash of the served override.' }),
    match: z.string().exactOptional().meta({ description: 'The matched entries, for people.' }),
    effect: z.string().exactOptional().meta({ description: 'The effect, for people.' }),
    endsAt: z.string().exactOptional().meta({
      format: 'date-time',
      description: 'End of the override, from spec and creation. Missing if it is permanent or a grant.',
    }),
  })
  .meta({ description: 'State of the override, written by the control plane.' });
