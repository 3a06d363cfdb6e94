/**
 * Writes the tables of documents whose rows are in the code: all fields in docs/rules.md and docs/custom-resources.md, and all reasons in
 * docs/status.md. With `--check`, it writes nothing and fails if they are out of date.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { type ReasonRow, reasons } from '../control-plane/model/reasons.ts';
import {
  calendarFields,
  domainFields,
  type FieldRows,
  limitFields,
  replacesFields,
  reserveFields,
  ruleFields,
} from '../rules/language/fields.ts';
import { fleetPlural, group, overridePlural, plural } from '../rules/language/kinds.ts';
import { ruleFileName } from '../rules/language/tables.ts';
import { resourceTables } from './resource-tables.ts';
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

const reasonRows: [string, ReasonRow][] = Object.entries(reasons);

function conditionTable(): string {
  const lines = reasonRows.flatMap(([name, { of, status, text }]) => {
    const places = of.map((place) => place.replace(/^Fleet (.*)/, '$1 of a RateLimitFleet'));
    return of.length === 0 ? [] : [`| ${places.join(', ')} | ${status} \`${name}\` | ${text} |`];
  });
  return ['| condition | status, reason | what it says |', '|---|---|---|', ...lines].join('\n');
}

/** Reasons with the same conditions share a row. */
function eventTable(): string {
  const ofConditions = (['Normal', 'Warning'] as const).map((type) => {
    const names = reasonRows.filter(([, { of, event }]) => of.length > 0 && event === type);
    const listed = names.map(([name]) => `\`${name}\``).join(', ');
    return `| ${type} | ${listed} | a condition got this reason |`;
  });
  const others = reasonRows.flatMap(([name, { of, event, text }]) =>
    of.length > 0 || event === undefined ? [] : [`| ${event} | \`${name}\` | ${text} |`],
  );
  return ['| type | reason | what happened |', '|---|---|---|', ...ofConditions, ...others].join('\n');
}

/** Returns the contents between the marks of each document, in their order, by path. */
const documents: readonly [path: string, parts: readonly string[]][] = [
  ['docs/rules.md', [maps.map(table).join('\n\n')]],
  ['docs/status.md', [conditionTable(), eventTable()]],
  [
    'docs/custom-resources.md',
    [plural, fleetPlural, overridePlural].map((name) => resourceTables(`${group}_${name}.yaml`)),
  ],
];

const [begin, end] = ['<!-- npm run generate writes these tables -->', '<!-- up to here -->'];
for (const [path, parts] of documents) {
  const target = new URL(`../${path}`, import.meta.url);
  const document = readFileSync(target, 'utf8');
  const [first = '', ...rest] = document.split(begin);
  if (rest.length !== parts.length)
    throw new Error(`${path} has ${rest.length} marks for ${parts.length} parts`);
  const written = rest.map((text, index) => `${begin}\n\n${parts[index]}\n\n${end}${text.split(end)[1]}`);
  const wanted = [first, ...written].join('');
  if (!process.argv.includes('--check')) {
    writeFileSync(target, wanted);
  } else if (document !== wanted) {
    console.error(`${path} is stale, run "npm run generate"`);
    process.exitCode = 1;
  }
}
