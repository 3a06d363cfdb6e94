/** The long tests of `npm run nightly`, its command line, and the texts of its report. Pure. */
import { defineFlags, FlagError, type ScriptFlags } from '../test/support/script-flags.ts';

export interface NightlyPart {
  /** The name that selects the part on the command line. */
  name: string;
  what: string;
  /** The arguments of `npm run`. */
  args(seed: number): string[];
  /** Additional environment variables. */
  env?(seed: number): Record<string, string>;
  /**
   * The time after which a part counts as hanging: it is stopped and fails. Chosen: about three times its usual time on two cores, or
   * twice for parts with a fixed duration of minutes.
   */
  maxMinutes: number;
}

export const nightlyParts: readonly NightlyPart[] = [
  {
    name: 'truth',
    what: 'statuses are true while API server, replicas and limiters fail',
    args: (seed) => ['truth', '--', '--minutes', '10', '--seed', `${seed}`],
    maxMinutes: 20,
  },
  {
    name: 'simulate',
    what: 'a control plane holds what it must through 20,000 changes and faults on virtual time',
    args: (seed) => ['simulate', '--', '--faults', '20000', '--seed', `${seed}`],
    maxMinutes: 5,
  },
  {
    name: 'truth-defect',
    what: 'the truth test finds a known defect of the control plane',
    args: (seed) => ['truth', '--', '--seconds', '30', '--with-defect', '--seed', `${seed}`],
    maxMinutes: 10,
  },
  {
    name: 'soak',
    what: 'a limiter under load answers rightly and its memory does not grow',
    args: (seed) => ['soak', '--', '--minutes', '10', '--seed', `${seed}`],
    maxMinutes: 20,
  },
  {
    name: 'attacks',
    what: 'a limiter with little memory serves its callers while it is attacked',
    args: (seed) => ['attacks', '--', '--seed', `${seed}`],
    maxMinutes: 30,
  },
  {
    name: 'budgets',
    what: 'reservations keep budgets while limiters and Redis die',
    args: (seed) => ['budgets', '--', '--seed', `${seed}`],
    maxMinutes: 15,
  },
  {
    name: 'quota',
    what: 'three Envoys share limits through the quota service while limiters and Redis die',
    args: (seed) => ['quota', '--', '--seed', `${seed}`],
    maxMinutes: 20,
  },
  {
    name: 'faults',
    what: 'hits are neither lost nor counted twice while a store fails',
    args: (seed) => ['faults', '--', '--seed', `${seed}`],
    maxMinutes: 15,
  },
  {
    name: 'fuzz',
    what: 'mutated bytes from the network crash nothing',
    args: (seed) => ['fuzz', '--', '--rounds', '1', '--seed', `${seed}`],
    maxMinutes: 15,
  },
  {
    name: 'tests',
    what: 'releases, named defects, figures of documents, shared API servers, and a control plane with hundreds of limiters',
    args: () => ['test:nightly'],
    env: (seed) => ({ PROPERTY_SEED: `${seed}` }),
    maxMinutes: 30,
  },
  {
    name: 'redis-versions',
    what: 'limiters count and reserve in Redis 6.2 and 7.0 and in Valkey 8 and 9 alike',
    args: () => [
      'test',
      '--',
      'test/stores',
      'test/limiter/key-lifetimes',
      'test/limiter/over-limit',
      'test/e2e/compose',
    ],
    env: (seed) => ({ PROPERTY_SEED: `${seed}`, EACH_REDIS: 'true' }),
    maxMinutes: 10,
  },
  {
    name: 'kubernetes-versions',
    what: 'the chart and the control plane work with the oldest Kubernetes that the chart names',
    args: () => ['test:kubernetes-versions'],
    env: (seed) => ({ PROPERTY_SEED: `${seed}` }),
    maxMinutes: 35,
  },
  {
    name: 'properties',
    what: 'property, model and fuzz tests hold for 20 times their cases',
    args: (seed) => ['properties', '--', '--times', '20', '--seed', `${seed}`],
    maxMinutes: 60,
  },
  {
    name: 'mutants',
    what: 'tests of limiter/decide find 80% of small defects',
    args: (seed) => ['mutants', '--', 'limiter/decide', '--least', '80', '--seed', `${seed}`],
    maxMinutes: 30,
  },
  {
    name: 'mutants-of-rules',
    what: 'tests of rules/table find 80% of small defects',
    // Most tests of rules use a table, and each night has another seed.
    args: (seed) => ['mutants', '--', 'rules/table', '--count', '200', '--least', '80', '--seed', `${seed}`],
    maxMinutes: 30,
  },
];

export interface NightlyOptions {
  parts: readonly NightlyPart[];
  seed: number;
  /** The path of the report. */
  report: string | undefined;
  list: boolean;
}

/** Describes the command line. `anySeed` is the default. */
export function nightlyFlags(anySeed: number): ScriptFlags<NightlyOptions> {
  return defineFlags({
    help: `Usage: npm run nightly -- [name ...] [--seed <n>] [--report <file>] [--list]

Runs all long tests, or the named ones, one after the other. It continues after a failure. It needs the servers of
npm run test:servers.

  name             ${nightlyParts.map(({ name }) => name).join(', ')}
  --seed <n>       seed of every part, 1 to 2147483647 (default: random)
  --report <file>  writes the table, and the last lines of each part that failed, as Markdown
  --list           prints the parts with their descriptions, and runs nothing

At the end it prints a table with the result, the wall time and the seed of each part, and the commands that repeat failed parts.
Ctrl-C stops the current part, and prints the table.
Exit status: 0 if all parts passed, 1 if a part failed, 2 for a wrong command line, 130 after Ctrl-C.
`,
    rows: {
      seed: { type: 'number', min: 1, max: 2 ** 31 - 1, whole: true, default: anySeed },
      report: { type: 'string' },
      list: { type: 'boolean' },
    },
    takesWords: true,
    read: (values, names) => {
      const known = nightlyParts.map(({ name }) => name);
      const unknown = names.filter((name) => !known.includes(name));
      if (unknown.length > 0)
        throw new FlagError(`there is no part ${unknown.join(', ')}; there are ${known.join(', ')}`);
      return {
        ...values,
        parts: nightlyParts.filter(({ name }) => names.length === 0 || names.includes(name)),
      };
    },
  });
}

export interface PartOutcome {
  part: NightlyPart;
  seed: number;
  /** The reason why it failed, such as `exit status 1`. Undefined if it passed. */
  failure: string | undefined;
  seconds: number;
  /** The last lines of its output. */
  output: string;
}

/** Returns the command that runs a part again with its seed. */
export function repeating({ part, seed }: Pick<PartOutcome, 'part' | 'seed'>): string {
  const env = Object.entries(part.env?.(seed) ?? {}).map(([name, value]) => `${name}=${value} `);
  return `${env.join('')}npm run ${part.args(seed).join(' ')}`;
}

const heading = ['part', 'result', 'wall time', 'seed'];

function cellsOf(outcome: PartOutcome): string[] {
  const { part, failure, seconds, seed } = outcome;
  const result = failure === undefined ? 'passed' : `FAILED: ${failure}`;
  return [part.name, result, wallTime(seconds), `${seed}`];
}

/** Returns the lines for the terminal, without their ends. */
export function nightlyTable(outcomes: readonly PartOutcome[]): string[] {
  const rows = [heading, ...outcomes.map(cellsOf)];
  const widths = heading.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const line = (row: readonly string[]): string =>
    row.map((cell, column) => cell.padEnd(widths[column]!)).join('  ');
  return [
    ...rows.map((row) => line(row).trimEnd()),
    ...failedOf(outcomes).map((outcome) => `repeat ${outcome.part.name} with: ${repeating(outcome)}`),
  ];
}

/** Returns the same as Markdown, with the last lines of the parts that failed. */
export function nightlyReport(outcomes: readonly PartOutcome[]): string {
  const rows = [heading, heading.map(() => '---'), ...outcomes.map(cellsOf)];
  return [
    ...rows.map((row) => `| ${row.join(' | ')} |`),
    ...failedOf(outcomes).flatMap((outcome) => [
      '',
      `### ${outcome.part.name}`,
      '',
      `Repeat it with \`${repeating(outcome)}\`. The last lines of its output:`,
      '',
      ...quoted(outcome.output),
    ]),
    '',
  ].join('\n');
}

function failedOf(outcomes: readonly PartOutcome[]): PartOutcome[] {
  return outcomes.filter(({ failure }) => failure !== undefined);
}

function wallTime(seconds: number): string {
  const [minutes, rest] = [Math.floor(Math.round(seconds) / 60), Math.round(seconds) % 60];
  return minutes > 0 ? `${minutes} min ${rest} s` : `${rest} s`;
}

/** The size of one part's output, in characters. Chosen: an issue on GitHub has at most 65,536, even if all parts fail. */
const maxQuoted = 4_000;

/** Indents the block, because no text can end an indented block. */
function quoted(output: string): string[] {
  const lines: string[] = [];
  let room = maxQuoted;
  for (const line of output.trimEnd().split('\n').reverse()) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colors of a terminal, ECMA-48, section 5.4.
    const text = `    ${line.replaceAll(/\u001b\[[0-9;]*m|\r/g, '').slice(0, 500)}`;
    room -= text.length + 1;
    if (room < 0) break;
    lines.unshift(text);
  }
  return lines;
}
