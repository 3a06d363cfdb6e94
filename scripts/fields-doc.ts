/**
 * Writes the tables of all fields in docs/rules.md from the rows of the rule language. With `--check`, writes nothing and fails when
 * they are stale.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import {
  calendarFields,
  domainFields,
  type FieldRows,
  limitFields,
  replacesFields,
  reserveFields,
  ruleFields,
} from '../rules/language/fields.ts';
import { ruleFileName } from '../rules/language/tables.ts';
import { snakeKeys } from './schema-examples.ts';
import { ruleFileWords } from './spec-schema.ts';

const maps: readonly [string, FieldRows][] = [
  ['The file', domainFields],
  ['A rule: an element of `descriptors`', ruleFields],
  ['A limit: `rate_limit`, or an element of `rate_limits`', limitFields],
  ['An element of `replaces`', replacesFields],
  ['`calendar`', calendarFields],
  ['`reserve`', reserveFields],
];

/** `{ unit: minute, requests_per_unit: 20 }`. */
function flowText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(flowText).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return String(value);
  const fields = Object.entries(value).map(([name, one]) => `${name}: ${flowText(one)}`);
  return `{ ${fields.join(', ')} }`;
}

function table([title, rows]: (typeof maps)[number]): string {
  const lines = Object.entries(rows).map(([name, { example, description, isRequired }]) => {
    const meaning = `${isRequired ? 'Required. ' : ''}${ruleFileWords(description)}`;
    return `| \`${ruleFileName(name)}\` | \`${flowText(snakeKeys(example))}\` | ${meaning} |`;
  });
  return [`| ${title} | example | |`, '|---|---|---|', ...lines].join('\n');
}

const target = new URL('../docs/rules.md', import.meta.url);
const [begin, end] = ['<!-- npm run generate writes these tables -->', '<!-- up to here -->'];
const document = readFileSync(target, 'utf8');
const [before = '', rest = ''] = document.split(begin);
const wanted = [before, begin, `\n\n${maps.map(table).join('\n\n')}\n\n`, end, rest.split(end)[1]].join('');
if (!process.argv.includes('--check')) {
  writeFileSync(target, wanted);
} else if (document !== wanted) {
  console.error('docs/rules.md is stale, run "npm run generate"');
  process.exitCode = 1;
}
