/** Each row of the rule language has its field in every target that has the row's table, at each level, and nothing else is there. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { describe, expect, it } from 'vitest';
import {
  calendarFields,
  descriptorLevels,
  domainFields,
  entryFields,
  limitFields,
  overrideFields,
  replacesFields,
  reserveFields,
  ruleFields,
} from '../rules/language/fields.ts';
import { overrideSpecFields, specFields } from '../rules/language/kinds.ts';
import { fields, ruleFileName } from '../rules/language/tables.ts';
import { readSpec } from '../rules/reader/manifest-reader.ts';
import { readRuleFiles } from '../rules/reader/read-rule-files.ts';
import { projectRoot, readDocument } from './support/documents.ts';

interface Schema {
  properties?: Record<string, Schema>;
  items?: Schema;
  $ref?: string;
  definitions?: Record<string, Schema>;
}

/** Maps that hold fields, below a rule, and the names that they have there. */
const belowRule = {
  rateLimit: limitFields,
  'rateLimit.replaces[]': replacesFields,
  'rateLimit.calendar': calendarFields,
  'rateLimits[]': limitFields,
  'rateLimits[].replaces[]': replacesFields,
  'rateLimits[].calendar': calendarFields,
  reserve: reserveFields,
} as const;

/** By the path of each map of a spec, the names of its fields; metadata has any. */
function namesByMap(levels: number): Record<string, string[]> {
  const maps: Record<string, string[]> = { '': Object.keys(specFields) };
  for (let level = 1; level <= levels; level++) {
    const rule = Array<string>(level).fill('descriptors[]').join('.');
    maps[rule] = Object.keys(ruleFields);
    for (const [path, rows] of Object.entries(belowRule)) maps[`${rule}.${path}`] = Object.keys(rows);
  }
  return maps;
}

/** What a schema says, in the form of `namesByMap`. References are followed once. */
function namesIn(schema: Schema, root: Schema = schema, path = ''): Record<string, string[]> {
  const { properties, items, $ref } = schema;
  if ($ref !== undefined) {
    if (path.split('descriptors[]').length > 3) return {};
    return namesIn(root.definitions![$ref.split('/').at(-1)!]!, root, path);
  }
  if (items !== undefined) return namesIn(items, root, `${path}[]`);
  if (properties === undefined || Object.keys(properties).length === 0) return {};
  const below = Object.entries(properties).map(([name, one]) =>
    namesIn(one, root, path === '' ? name : `${path}.${name}`),
  );
  return Object.assign({ [path]: Object.keys(properties) }, ...below) as Record<string, string[]>;
}

function crdSpec(plural: string): Schema {
  const text = readFileSync(join(projectRoot, `crds/ratelimit.weir.dev_${plural}.yaml`), 'utf8');
  const { spec } = load(text) as { spec: { versions: { schema: { openAPIV3Schema: Schema } }[] } };
  return spec.versions[0]!.schema.openAPIV3Schema.properties!['spec']!;
}

function jsonSchema(name: string): Schema {
  return JSON.parse(readFileSync(join(projectRoot, `schemas/${name}.json`), 'utf8')) as Schema;
}

const inRuleFiles = (maps: Record<string, string[]>): Record<string, string[]> =>
  Object.fromEntries(
    Object.entries(maps).map(([path, names]) => [
      path.split('.').map(ruleFileName).join('.'),
      names.map(ruleFileName),
    ]),
  );

const objectsAlone = ['className', 'fleet'];
const overrideMaps = { '': Object.keys(overrideSpecFields), 'match[]': Object.keys(entryFields) };

describe('the fields of rules', () => {
  it('are in the CRDs, at each level', () => {
    expect(namesIn(crdSpec('ratelimitconfigs'))).toEqual(namesByMap(descriptorLevels));
    expect(namesIn(crdSpec('ratelimitoverrides'))).toEqual(overrideMaps);
  });

  it('are in the JSON Schemas', () => {
    const config = jsonSchema('ratelimitconfig');
    expect(namesIn(config.properties!['spec']!, config)).toEqual(namesByMap(2));
    expect(namesIn(jsonSchema('ratelimitoverride').properties!['spec']!)).toEqual(overrideMaps);
    const { '': top = [], ...below } = namesByMap(2);
    const ofFiles = { '': top.filter((name) => !objectsAlone.includes(name)), ...below };
    expect(namesIn(jsonSchema('rules'))).toEqual(inRuleFiles(ofFiles));
  });

  it('are in the field reference of the documents', () => {
    const [, reference = ''] = readDocument('docs/rules.md').split('## Field reference');
    const tables = reference.split(/\n\n(?=\|)/).slice(1);
    const names = tables.map((table) => [...table.matchAll(/^\| `(\w+)` \| `/gm)].map(([, name]) => name));
    const rows = [domainFields, ruleFields, limitFields, replacesFields, calendarFields, reserveFields];
    expect(names).toEqual(rows.map((row) => Object.keys(row).map(ruleFileName)));
  });

  it('are in the OpenAPI document, as far as it describes limits and overrides', () => {
    const { components } = JSON.parse(readDocument('docs/openapi.json')) as {
      components: { schemas: Record<string, { properties: object }> };
    };
    const { NewOverride, Calendar } = components.schemas;
    expect(Object.keys(NewOverride!.properties)).toEqual(['id', ...Object.keys(overrideFields)]);
    expect(Object.keys(Calendar!.properties)).toEqual(Object.keys(calendarFields));
  });

  const known = [...fields.values(), { name: 'unheard_of', manifestName: 'unheardOf' }];

  it.each([1, 2, descriptorLevels])('are read from manifests at level %i', (levels) => {
    for (const [path, names] of Object.entries(namesByMap(levels))) {
      for (const { manifestName } of [...known, ...objectsAlone.map((name) => ({ manifestName: name }))]) {
        const reading = readSpec(nested(path, manifestName), 'n');
        const unknown = reading.ok ? [] : reading.unknown;
        expect([path, manifestName, unknown.length === 0]).toEqual([
          path,
          manifestName,
          names.includes(manifestName),
        ]);
      }
    }
  });

  it.each([1, 2, descriptorLevels])('are read from rule files at level %i', (levels) => {
    for (const [path, names] of Object.entries(inRuleFiles(namesByMap(levels)))) {
      for (const { name } of known) {
        const text = JSON.stringify(nested(path, name));
        const { errors, warnings } = readRuleFiles([{ name: 'f', text }], { mergeDomains: false });
        const isFound = [...errors, ...warnings].every(
          ({ code }) => !/^(?:unknown|misplaced)-key$/.test(code),
        );
        expect([path, name, isFound]).toEqual([path, name, names.includes(name)]);
      }
    }
  });
});

/** A value with nothing but a null in this field of the map at `path`. */
function nested(path: string, field: string): unknown {
  const steps = path === '' ? [] : path.split('.');
  return steps.reduceRight<unknown>(
    (below, step) => {
      return step.endsWith('[]') ? { [step.slice(0, -2)]: [below] } : { [step]: below };
    },
    { [field]: null },
  );
}
