/**
 * Writes docs/openapi.json, which programs serve at /v1/openapi.json, from docs/openapi.yaml. Requests of the tests become the examples
 * of a path, and rows of the rule language replace `x-rows`. With `--check`, it writes nothing and fails if the file is out of date.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { algorithmNames } from '../rules/algorithms/registry.ts';
import { hitsUnits, type OverrideRow, overrideFields } from '../rules/language/fields.ts';
import { isObject } from '../rules/model.ts';
import { projectRoot } from './commands.ts';

interface Operation {
  requestBody?: { content: Record<string, { examples?: object }> };
  'x-asked'?: { body?: unknown; status: number }[];
}

const [source, target] = ['docs/openapi.yaml', 'docs/openapi.json'].map((path) =>
  join(projectRoot, path),
) as [string, string];
const document = load(readFileSync(source, 'utf8')) as {
  info: { version: string };
  paths: Record<string, Record<string, Operation>>;
};
document.info.version = (
  JSON.parse(readFileSync(join(projectRoot, 'package.json'), 'utf8')) as { version: string }
).version;
for (const { 'x-asked': asked = [], ...rest } of Object.values(document.paths).flatMap(
  Object.values<Operation>,
)) {
  const examples = asked.flatMap(({ body, status }, n) =>
    body === undefined ? [] : [[`${n + 1}`, { summary: `Answered with ${status}`, value: body }]],
  );
  for (const media of Object.values(rest.requestBody?.content ?? {}))
    media.examples = Object.fromEntries(examples);
}

/** The parts that can replace `x-rows: NAME`. */
const ofRows: Readonly<Record<string, object>> = {
  algorithm: { enum: algorithmNames },
  hitsUnit: { enum: hitsUnits.filter((unit) => unit !== hitsUnits[0]) },
  override: Object.fromEntries(
    Object.entries(overrideFields).map(([name, row]) => [name, schemaOf(row)] as const),
  ),
};

function schemaOf({ kind, format, min }: OverrideRow): object {
  const entry = { $ref: '#/components/schemas/Entry' };
  if (kind === 'entries') return { type: 'array', minItems: min, items: entry };
  if (kind === 'text') return { type: 'string', ...(format !== undefined && { format }) };
  return { type: kind === 'boolean' ? 'boolean' : 'integer' };
}

function expanded(key: string, value: unknown): unknown {
  if (key === 'x-asked') return undefined;
  if (!isObject(value) || !('x-rows' in value)) return value;
  const entries = Object.entries(value).flatMap(([name, own]) =>
    name === 'x-rows' ? Object.entries(ofRows[String(own)]!) : [[name, own] as const],
  );
  return Object.fromEntries(entries);
}

const text = `${JSON.stringify(document, expanded, 1)}\n`;
if (!process.argv.includes('--check')) writeFileSync(target, text);
else if (!existsSync(target) || readFileSync(target, 'utf8') !== text) {
  console.error('docs/openapi.json is stale: run "npm run generate"');
  process.exit(1);
}
