/**
 * Writes the CustomResourceDefinitions: `spec` from the rows of rules and overrides, the rest from the models in
 * control-plane/model/. With `--check`, writes nothing and fails when a committed file is stale.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dump } from 'js-yaml';
import { z } from 'zod';
import {
  fleetSpecModel,
  fleetStatusModel,
  overrideStatusModel,
  statusModel,
} from '../control-plane/model/object-models.ts';
import {
  fleetKind,
  fleetPlural,
  group,
  kind,
  listKind,
  overrideKind,
  overridePlural,
  plural,
  singular,
  version,
} from '../rules/language/kinds.ts';
import { overrideSpecSchema, type Schema, specSchema } from './spec-schema.ts';

const weir = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

/** Keywords of a structural schema in the order in which people read them. All others follow. */
const order = ['description', 'type', 'format', 'default', 'enum', 'required', 'properties', 'items'];

/** Keywords that zod adds, but that a structural schema does not have because it always lists all fields. */
const foreign = ['$schema', 'additionalProperties', 'propertyNames', 'nullable', 'id'];

/** Returns the schema of `status`, or of a fleet. */
function openApiSchema(model: z.ZodType): Schema {
  const schema = z.toJSONSchema(model, { target: 'openapi-3.0', io: 'input', unrepresentable: 'any' });
  return structural(schema as Schema);
}

function structural(schema: Schema): Schema {
  const entries = Object.entries(schema)
    .filter(([word, value]) => !foreign.includes(word) || isMapOfValues(word, value))
    // The API server knows the two types by itself, and would name `anyOf` beside them in its messages.
    .filter(([word]) => word !== 'anyOf' || schema['x-kubernetes-int-or-string'] !== true)
    .sort(([a], [b]) => rank(a) - rank(b))
    .map(([word, value]) => [word, below(word, value)]);
  return Object.fromEntries(entries);
}

/** Whose values have a schema; those of any content need other words. */
function isMapOfValues(word: string, value: unknown): boolean {
  return word === 'additionalProperties' && Object.keys(value as object).length > 0;
}

function below(word: string, value: unknown): unknown {
  if (word === 'items' || word === 'additionalProperties') return structural(value as Schema);
  if (word !== 'properties') return value;
  const fields = Object.entries(value as Record<string, Schema>);
  return Object.fromEntries(fields.map(([field, schema]) => [field, structural(schema)]));
}

function rank(word: string): number {
  const position = order.indexOf(word);
  return position === -1 ? order.length : position;
}

function condition(type: string, field = 'status'): string {
  return `.status.conditions[?(@.type=="${type}")].${field}`;
}

const printerColumns = [
  { name: 'Domain', type: 'string', jsonPath: '.spec.domain' },
  { name: 'Rules', type: 'integer', jsonPath: '.status.rules', description: 'Number of served rules.' },
  { name: 'Accepted', type: 'string', jsonPath: condition('Accepted') },
  { name: 'Programmed', type: 'string', jsonPath: condition('Programmed') },
  { name: 'Ready', type: 'string', jsonPath: condition('Ready') },
  { name: 'Fleet', type: 'string', jsonPath: '.spec.fleet', priority: 1 },
  { name: 'Reason', type: 'string', jsonPath: condition('Ready', 'reason'), priority: 1 },
  { name: 'Message', type: 'string', jsonPath: condition('Ready', 'message'), priority: 1 },
  { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
];

const fleetColumns = [
  {
    name: 'Limiters',
    type: 'string',
    jsonPath: '.status.limiters',
    description: 'Connected limiters, of the expected ones.',
  },
  {
    name: 'Current',
    type: 'integer',
    jsonPath: '.status.current',
    description: 'Limiters that apply the newest rules.',
  },
  {
    name: 'Refusing',
    type: 'string',
    jsonPath: '.status.refusing[0].name',
    description: 'The first limiter that rejects the newest rules.',
  },
  { name: 'Ready', type: 'string', jsonPath: condition('Ready') },
  { name: 'Reason', type: 'string', jsonPath: condition('Ready', 'reason'), priority: 1 },
  { name: 'Message', type: 'string', jsonPath: condition('Ready', 'message'), priority: 1 },
  { name: 'Version', type: 'string', jsonPath: '.status.version', priority: 1 },
  { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
];

const overrideColumns = [
  { name: 'Domain', type: 'string', jsonPath: '.spec.domain' },
  { name: 'Match', type: 'string', jsonPath: '.status.match' },
  { name: 'Effect', type: 'string', jsonPath: '.status.effect' },
  {
    name: 'Ends',
    type: 'string',
    jsonPath: '.status.endsAt',
    description: 'Empty: it does not end by itself.',
  },
  { name: 'Ready', type: 'string', jsonPath: condition('Ready') },
  { name: 'Fleet', type: 'string', jsonPath: '.spec.fleet', priority: 1 },
  { name: 'Reason', type: 'string', jsonPath: condition('Ready', 'reason'), priority: 1 },
  { name: 'Message', type: 'string', jsonPath: condition('Ready', 'message'), priority: 1 },
  { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
];

interface Definition {
  names: { kind: string; listKind: string; plural: string; singular: string; shortNames: string[] };
  description: string;
  spec: Schema;
  status: Schema;
  columns: object[];
  /** Fields for `kubectl get --field-selector`. Kubernetes 1.30 silently drops them. */
  selectableFields?: { jsonPath: string }[];
}

function definitionText({ names, description, spec, status, columns, selectableFields }: Definition): string {
  const schema: Schema = {
    description,
    type: 'object',
    required: ['spec'],
    properties: {
      apiVersion: { type: 'string', description: `${group}/${version}` },
      kind: { type: 'string', description: names.kind },
      metadata: { type: 'object' },
      spec,
      // Older and newer control planes can then write this status: server-side apply rejects a field that no schema has.
      status: { ...status, 'x-kubernetes-preserve-unknown-fields': true },
    },
  };
  const definition = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    // Helm never deletes a definition, even if it installed it, because that would delete all objects of the kind.
    metadata: {
      name: `${names.plural}.${group}`,
      // The chart sets the same labels, so that both ways to install agree on the version.
      labels: {
        'app.kubernetes.io/name': 'weir',
        'app.kubernetes.io/part-of': 'weir',
        'app.kubernetes.io/version': weir.version,
      },
      annotations: { 'helm.sh/resource-policy': 'keep' },
    },
    spec: {
      group,
      names: { ...names, categories: ['weir'] },
      scope: 'Namespaced',
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: columns,
          ...(selectableFields && { selectableFields }),
          schema: { openAPIV3Schema: schema },
        },
      ],
    },
  };
  const text = dump(definition, { noRefs: true, lineWidth: 110 });
  return `# Generated by "npm run generate", in scripts/crd.ts; do not edit.\n${text}`;
}

const definitions: Definition[] = [
  {
    names: { kind, listKind, plural, singular, shortNames: ['rlc'] },
    description: 'Rate limits of one domain, for the limiters of one fleet.',
    spec: structural(specSchema),
    status: openApiSchema(statusModel),
    columns: printerColumns,
    selectableFields: [{ jsonPath: '.spec.domain' }],
  },
  {
    names: {
      kind: fleetKind,
      listKind: `${fleetKind}List`,
      plural: fleetPlural,
      singular: fleetKind.toLowerCase(),
      shortNames: ['rlf'],
    },
    description:
      'The limiters that should apply the rules of a fleet, and those that do. In the namespace of the control plane.',
    spec: openApiSchema(fleetSpecModel),
    status: openApiSchema(fleetStatusModel),
    columns: fleetColumns,
  },
  {
    names: {
      kind: overrideKind,
      listKind: `${overrideKind}List`,
      plural: overridePlural,
      singular: overrideKind.toLowerCase(),
      shortNames: ['rlo'],
    },
    description: 'A temporary change of limits of a domain.',
    spec: structural(overrideSpecSchema),
    status: openApiSchema(overrideStatusModel),
    columns: overrideColumns,
    selectableFields: [{ jsonPath: '.spec.domain' }],
  },
];

for (const definition of definitions) {
  const file = `crds/${group}_${definition.names.plural}.yaml`;
  const target = new URL(`../${file}`, import.meta.url);
  const wanted = definitionText(definition);
  if (!process.argv.includes('--check')) {
    mkdirSync(new URL('.', target), { recursive: true });
    writeFileSync(target, wanted);
  } else if (!existsSync(target) || readFileSync(target, 'utf8') !== wanted) {
    console.error(`${file} is stale, run "npm run generate"`);
    process.exitCode = 1;
  }
}
