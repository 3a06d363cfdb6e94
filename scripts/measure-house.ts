/**
 * `npm run measure-house`: measures the size of the sources, and how many files a request and a change of rules pass through, and
 * compares the results with the targets in house.json. It only reports, and never fails.
 */
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import {
  apiServerProgram,
  etcdProgram,
  findServer,
  kubectlProgram,
  redisProgram,
} from '../test/support/find-server.ts';
import { defineFlags, FlagError, scriptFlags } from '../test/support/script-flags.ts';
import { projectRoot, run } from './commands.ts';
import { type Walk, walkOfRequest, walkOfRuleChange } from './house-walks.ts';

export interface HouseLimits {
  /** The size before the redesigns, for comparison. */
  start: { files: number; lines: number };
  /** The target sizes: after the redesigns of rules, stores, control plane and command line, and with later additions. */
  lines: { afterRedesigns: number; end: number };
  filesInAFolder: { min: number; max: number };
  medianLines: { min: number; max: number };
  linesOfAFile: number;
  smallFiles: { lines: number; percent: number };
  request: { files: number; functions: number };
  ruleChange: { files: number };
  /** Folders that may have fewer files than others; `*` is one segment. */
  fewFilesIn: string[];
  /** The walks, as `--write` last measured them. */
  walks: { request: WalkSize; ruleChange: WalkSize };
}

type WalkSize = Pick<Walk, 'files' | 'functions'>;

export interface HouseRow {
  what: string;
  measured: string;
  limit: string;
  isWithin: boolean;
}

/** Returns the number of lines of each source file, by its path in the project, without tests and generated files. */
export function sourceLines(root = projectRoot): Map<string, number> {
  const paths = globSync('{limiter,control-plane,rules,cli,process,replay,packages}/**/*.ts', { cwd: root });
  const sources = paths.filter((path) => !/\.(?:test|suite)\.ts$/.test(path)).sort();
  return new Map(
    sources.map((path) => [path, readFileSync(join(root, path), 'utf8').trimEnd().split('\n').length]),
  );
}

export function houseRows(lines: ReadonlyMap<string, number>, limits: HouseLimits): HouseRow[] {
  const sizes = [...lines.values()].sort((a, b) => a - b);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const median = sizes[Math.floor(sizes.length / 2)] ?? 0;
  const [longest] = [...lines].sort(([, a], [, b]) => b - a);
  const small = sizes.filter((size) => size <= limits.smallFiles.lines).length;
  const smallPercent = (100 * small) / sizes.length;
  const folders = new Map<string, number>();
  for (const path of lines.keys()) folders.set(dirname(path), (folders.get(dirname(path)) ?? 0) + 1);
  const mayBeFew = (folder: string) =>
    limits.fewFilesIn.some((form) => new RegExp(`^${form.replace('*', '[^/]+')}$`).test(folder));
  const { min, max } = limits.filesInAFolder;
  const few = [...folders].filter(([folder, count]) => count < min && !mayBeFew(folder));
  const many = [...folders].filter(([, count]) => count > max);
  const named = (list: readonly (readonly [string, number])[]) =>
    list.length === 0 ? 'none' : list.map(([name, count]) => `${name} (${count})`).join(', ');
  const { medianLines } = limits;
  return [
    {
      what: 'source files',
      measured: `${sizes.length} (${limits.start.files} at the start)`,
      limit: '',
      isWithin: true,
    },
    {
      ...atMost('lines after the redesigns', total, limits.lines.afterRedesigns),
      measured: `${total} (${limits.start.lines} at the start)`,
    },
    atMost('lines in the end', total, limits.lines.end),
    {
      what: 'lines of the median file',
      measured: String(median),
      limit: `${medianLines.min} to ${medianLines.max}`,
      isWithin: median >= medianLines.min && median <= medianLines.max,
    },
    {
      ...atMost('lines of the longest file', longest?.[1] ?? 0, limits.linesOfAFile),
      measured: longest === undefined ? '0' : `${longest[1]} (${longest[0]})`,
    },
    {
      what: `files of ${limits.smallFiles.lines} lines or fewer`,
      measured: `${small} (${smallPercent.toFixed(1)}%)`,
      limit: `${limits.smallFiles.percent}%`,
      isWithin: smallPercent <= limits.smallFiles.percent,
    },
    {
      what: `folders with fewer than ${min} files`,
      measured: named(few),
      limit: 'none',
      isWithin: few.length === 0,
    },
    {
      what: `folders with more than ${max} files`,
      measured: named(many),
      limit: 'none',
      isWithin: many.length === 0,
    },
  ];
}

export function walkRows(request: WalkSize, ruleChange: WalkSize, limits: HouseLimits): HouseRow[] {
  return [
    atMost('files of one warm request', request.files, limits.request.files),
    atMost('functions of one warm request', request.functions, limits.request.functions),
    atMost('files of one change of rules', ruleChange.files, limits.ruleChange.files),
    {
      what: 'functions of one change of rules',
      measured: String(ruleChange.functions),
      limit: '',
      isWithin: true,
    },
  ];
}

function atMost(what: string, measured: number, limit: number): HouseRow {
  return { what, measured: String(measured), limit: String(limit), isWithin: measured <= limit };
}

export function tableOf(rows: readonly HouseRow[]): string {
  const cells = [
    ['', 'measured', 'target'],
    ...rows.map(({ what, measured, limit, isWithin }) => [
      what,
      measured,
      isWithin ? limit : `${limit} <- missed`,
    ]),
  ];
  const widths = [0, 1].map((column) => Math.max(...cells.map((row) => (row[column] as string).length)));
  return cells
    .map(([what = '', measured = '', limit = '']) =>
      `${what.padEnd(widths[0] as number)}  ${measured.padEnd(widths[1] as number)}  ${limit}`.trimEnd(),
    )
    .join('\n');
}

const houseFlags = defineFlags({
  help: `Usage: npm run measure-house -- [--no-walks | --write] [--paths]

Counts source files and lines, and follows one warm request and one change of rules through real processes (they need
redis-server, etcd, kube-apiserver and kubectl, which \`npm run test:servers\` gets). If one of these is missing, it uses the
walks in house.json, which also has the targets.

  --no-walks   starts no processes, and uses the walks in house.json
  --write      writes the walks to house.json
  --paths      also prints the files of both walks, with the functions that ran
Exit status: 0; 1 if a server for --write or --paths is missing; 2 for a wrong command line.
`,
  rows: { 'no-walks': { type: 'boolean' }, write: { type: 'boolean' }, paths: { type: 'boolean' } },
  read: ({ 'no-walks': noWalks, write, paths }) => {
    if (noWalks && (write || paths))
      throw new FlagError('--no-walks measures no walk that --write or --paths could use');
    return { noWalks, write, paths };
  },
});

async function main(): Promise<void> {
  const { noWalks, write, paths } = scriptFlags(houseFlags);
  const file = join(projectRoot, 'house.json');
  const limits = JSON.parse(readFileSync(file, 'utf8')) as HouseLimits;
  const rows = houseRows(sourceLines(), limits);
  const missing = noWalks ? [] : missingServers();
  if (missing.length > 0 && (write || paths)) {
    process.stderr.write(`the walks cannot be measured: ${missing.join('; ')}\n`);
    process.exitCode = 1;
    return;
  }
  if (noWalks || missing.length > 0) {
    for (const reason of missing) process.stderr.write(`the walks are recorded ones: ${reason}\n`);
    const { request, ruleChange } = limits.walks;
    const recorded = walkRows(request, ruleChange, limits);
    rows.push(...recorded.map((row) => ({ ...row, measured: `${row.measured} (recorded)` })));
  } else {
    const [request, ruleChange] = [await walkOfRequest(), await walkOfRuleChange()];
    rows.push(...walkRows(request, ruleChange, limits));
    if (paths) printPaths({ request, 'change of rules': ruleChange });
    if (write) {
      const sizeOf = ({ files, functions }: Walk): WalkSize => ({ files, functions });
      const walks = { request: sizeOf(request), ruleChange: sizeOf(ruleChange) };
      // The formatter keeps an object on the lines that it has.
      const entries = Object.entries({ ...limits, walks }).map(
        ([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`,
      );
      writeFileSync(file, `{\n${entries.join(',\n')}\n}`);
      run('biome', ['format', '--write', 'house.json']);
    }
  }
  console.log(tableOf(rows));
}

/** Returns the reasons why walks cannot be measured, one sentence for each missing server. */
export function missingServers(environment = process.env): string[] {
  const programs = [redisProgram, etcdProgram, apiServerProgram, kubectlProgram];
  return programs.flatMap((program) => {
    const found = findServer(program, environment);
    return 'missing' in found ? found.missing : [];
  });
}

function printPaths(walks: Readonly<Record<string, Walk>>): void {
  for (const [name, { byFile }] of Object.entries(walks)) {
    const files = Object.entries(byFile).sort(([a], [b]) => (a < b ? -1 : 1));
    console.log(
      `one ${name}:\n${files.map(([path, names]) => `  ${path} ${names.length}: ${names.join(', ')}`).join('\n')}\n`,
    );
  }
}

if (import.meta.main) await main();
