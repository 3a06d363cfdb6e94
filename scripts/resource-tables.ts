/** Creates tables of all fields of a custom resource for docs/custom-resources.md, from its CustomResourceDefinition. */
import { readFileSync } from 'node:fs';
import { load } from 'js-yaml';

interface FieldSchema {
  type?: string;
  description?: string;
  enum?: readonly string[];
  default?: unknown;
  required?: readonly string[];
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  maxItems?: number;
  properties?: Record<string, FieldSchema>;
  items?: FieldSchema;
  additionalProperties?: FieldSchema;
}

interface Definition {
  spec: { versions: readonly [{ schema: { openAPIV3Schema: { properties: Record<string, FieldSchema> } } }] };
}

/** Fields of objects in a list are `list[].field`. */
function pathOf(parent: string, name: string, { type }: FieldSchema): string {
  return `${parent}.${name}${type === 'array' ? '[]' : ''}`;
}

function fieldsOf(schema: FieldSchema): [string, FieldSchema][] {
  return Object.entries((schema.items ?? schema).properties ?? {});
}

function boundsOf({ minimum, maximum, maxLength, maxItems }: FieldSchema): string {
  if (maximum !== undefined && maximum > 0)
    return maximum === Number.MAX_SAFE_INTEGER ? '' : `, ${minimum ?? 0} to ${maximum}`;
  if (maxLength !== undefined) return `, at most ${maxLength} characters`;
  return maxItems === undefined ? '' : `, at most ${maxItems}`;
}

function typeOf(schema: FieldSchema): string {
  if (schema.enum !== undefined && schema.type === 'string')
    return schema.enum.map((word) => `\`${word}\``).join(', ');
  const type = schema.type ?? 'integer or string';
  const kind = type === 'array' ? `list of ${schema.items?.type ?? 'values'}s` : type;
  const value = schema.default === undefined ? '' : `; default \`${String(schema.default)}\``;
  return `${kind}${boundsOf(schema)}${value}`;
}

/**
 * Creates a table for each object, except for nested rules, which have the fields of the first ones. `shown` has the path of each table
 * by the names of its fields, because objects with the same fields share a table.
 */
function tablesOf(path: string, schema: FieldSchema, shown: Map<string, string>): string[] {
  const fields = fieldsOf(schema);
  const names = fields.map(([name]) => name).join();
  const same = shown.get(names);
  if (same !== undefined) return [`### \`${path}\`\n\nThe fields are those of \`${same}\`.`];
  shown.set(names, path);
  const required = (schema.items ?? schema).required ?? [];
  const rows = fields.map(([name, field]) => {
    const text = (field.description ?? '').replaceAll(/\s+/g, ' ').replaceAll('|', '\\|');
    return `| \`${name}\` | ${typeOf(field)} | ${required.includes(name) ? 'Required. ' : ''}${text} |`;
  });
  const table = [`### \`${path}\``, '', '| field | type | meaning |', '|---|---|---|', ...rows].join('\n');
  const below = fields
    .filter(([name, field]) => fieldsOf(field).length > 0 && !path.endsWith(`.${name}[]`))
    .flatMap(([name, field]) => tablesOf(pathOf(path, name, field), field, shown));
  return [table, ...below];
}

export function resourceTables(file: string): string {
  const text = readFileSync(new URL(`../crds/${file}`, import.meta.url), 'utf8');
  const { spec } = load(text) as Definition;
  const { properties } = spec.versions[0].schema.openAPIV3Schema;
  const shown = new Map<string, string>();
  return (['spec', 'status'] as const)
    .flatMap((name) => tablesOf(name, properties[name]!, shown))
    .join('\n\n');
}
