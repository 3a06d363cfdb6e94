/**
 * Writes what of charts/weir is made from other files: values.schema.json and the table of values in README.md from
 * values.yaml, and the CustomResourceDefinition. With `--check`, writes nothing and fails when one is stale.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { type ChartValue, readChartValues } from './chart-values.ts';

const chart = new URL('../charts/weir/', import.meta.url);
const definition = 'ratelimit.weir.dev_ratelimitconfigs.yaml';
const begin = '<!-- Made from values.yaml by "npm run generate". -->';
const end = '<!-- End of what is made. -->';

const { schema, values } = readChartValues(readFileSync(new URL('values.yaml', chart), 'utf8'));
const readme = readFileSync(new URL('README.md', chart), 'utf8');

const wanted: Record<string, string> = {
  'values.schema.json': `${JSON.stringify(schema, null, 2)}\n`,
  'README.md': withTables(readme),
  [`files/${definition}`]: readFileSync(new URL(`../crds/${definition}`, import.meta.url), 'utf8'),
};

function withTables(text: string): string {
  const [head, rest] = text.split(begin);
  const tail = rest?.split(end)[1];
  if (tail === undefined) throw new Error(`charts/weir/README.md has no "${begin}" and "${end}"`);
  return `${head}${begin}\n\n${tables()}\n\n${end}${tail}`;
}

/** One for each group of values: the first name of the path. */
function tables(): string {
  const groups = Map.groupBy(values, ({ path }) =>
    path.includes('.') ? (path.split('.')[0] as string) : '',
  );
  const names = [...groups.keys()].sort((a, b) => Number(a !== '') - Number(b !== ''));
  return names.map((name) => tableOf(name, groups.get(name) as ChartValue[])).join('\n\n');
}

function tableOf(name: string, group: readonly ChartValue[]): string {
  const rows = group.map(({ path, description, default: value }) => {
    return `| \`${path}\` | ${cell(value)} | ${description.replaceAll('|', '\\|')} |`;
  });
  const title = name === '' ? '### General' : `### ${name}`;
  return [title, '', '| value | default | meaning |', '| --- | --- | --- |', ...rows].join('\n');
}

function cell(value: unknown): string {
  return value === '' ? 'empty' : `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``;
}

function committed(file: string): string {
  try {
    return readFileSync(new URL(file, chart), 'utf8');
  } catch {
    return '';
  }
}

for (const [file, text] of Object.entries(wanted)) {
  if (!process.argv.includes('--check')) {
    writeFileSync(new URL(file, chart), text);
  } else if (committed(file) !== text) {
    console.error(`charts/weir/${file} is stale, run "npm run generate"`);
    process.exitCode = 1;
  }
}
