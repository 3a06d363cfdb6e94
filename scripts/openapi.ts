/**
 * Writes docs/openapi.json, which programs serve at /v1/openapi.json, from docs/openapi.yaml: what the tests ask become the
 * examples of a path. With `--check`, writes nothing and fails when it is stale.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { projectRoot } from './commands.ts';

interface Operation {
  requestBody?: { content: Record<string, { examples?: object }> };
  'x-asked'?: { body?: unknown; status: number }[];
}

const [source, target] = ['docs/openapi.yaml', 'docs/openapi.json'].map((path) =>
  join(projectRoot, path),
) as [string, string];
const document = load(readFileSync(source, 'utf8')) as { paths: Record<string, Record<string, Operation>> };
for (const { 'x-asked': asked = [], ...rest } of Object.values(document.paths).flatMap(
  Object.values<Operation>,
)) {
  const examples = asked.flatMap(({ body, status }, n) =>
    body === undefined ? [] : [[`${n + 1}`, { summary: `Answered with ${status}`, value: body }]],
  );
  for (const media of Object.values(rest.requestBody?.content ?? {}))
    media.examples = Object.fromEntries(examples);
}
const text = `${JSON.stringify(document, (key, value) => (key === 'x-asked' ? undefined : value), 1)}\n`;
if (!process.argv.includes('--check')) writeFileSync(target, text);
else if (!existsSync(target) || readFileSync(target, 'utf8') !== text) {
  console.error('docs/openapi.json is stale: run "npm run generate"');
  process.exit(1);
}
