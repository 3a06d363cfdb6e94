/**
 * `npm run record`: runs the commands of docs/start.md, and draws their output as docs/pictures/story.svg. With `--check`, it runs them
 * again, and fails if the output differs from the picture.
 *
 * Typing and reading times are invented, and the picture shows the limiter's default ports. Everything else is real.
 */
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { defineFlags, scriptFlags } from '../test/support/script-flags.ts';
import { projectRoot } from './commands.ts';
import { startProgram } from './started-program.ts';
import { drawTerminal, rowsOfPicture, type TerminalStep } from './terminal-picture.ts';

const target = join(projectRoot, 'docs/pictures/story.svg');
const columns = 124;

/** The beginnings of the commands, in the order of the story, each with the text before it. */
const story: readonly [comment: string, beginning: string, beforehand?: (site: Site) => Promise<void>][] = [
  [
    'npm start: a limiter, five requests a minute for each client address. Ask it until it says no:',
    'for i in 1 2',
    roomInMinute,
  ],
  ['Who was over limit, and by which rule?', 'bin/weir why'],
  ['Raise the limit in the file. What does that change?', 'perl -pi'],
  ['', 'git show HEAD'],
  ['The limiter has it already:', 'for i in 1 2', untilInForce],
  ['Which rule is it that applies?', 'bin/weir explain'],
  ['Undo the change:', 'git checkout'],
];

interface Site {
  folder: string;
  http: number;
  debug: number;
}

/** All requests must be in the same minute. */
async function roomInMinute(): Promise<void> {
  const second = new Date().getUTCSeconds();
  if (second > 45) await sleep((61 - second) * 1_000);
}

async function untilInForce({ debug }: Site): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    const rules = await (await fetch(`http://127.0.0.1:${debug}/rlconfig`)).text();
    if (rules.includes('shop.remote_address: unit=MINUTE requests_per_unit=50,')) return;
    await sleep(50);
  }
  throw new Error('the changed rule was not loaded');
}

function command(beginning: string): string {
  const blocks = readFileSync(join(projectRoot, 'docs/start.md'), 'utf8').matchAll(/```sh\n(.*?)\n```/gs);
  for (const [, text = ''] of blocks) {
    const line = text.split('\n').find((one) => one.startsWith(beginning));
    if (line !== undefined) return line;
  }
  throw new Error(`docs/start.md has no command "${beginning}"`);
}

async function play(): Promise<TerminalStep[]> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-story-'));
  try {
    prepare(folder);
    const limiter = await startProgram({
      command: process.execPath,
      args: [join(projectRoot, 'scripts/start.js')],
      env: {
        PATH: process.env['PATH'] ?? '',
        RUNTIME_ROOT: join(folder, 'examples'),
        PORT: '0',
        GRPC_PORT: '0',
        DEBUG_PORT: '0',
        POD_NAME: 'limiter-1',
      },
      until: /^Listening: .*debug on \d+/m,
    });
    try {
      const [, http = '', debug = ''] = /HTTP on (\d+), debug on (\d+)/.exec(limiter.output()) ?? [];
      return await playAt({ folder, http: Number(http), debug: Number(debug) });
    } finally {
      await limiter.stop();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Creates a repository with the rules of the examples, and programs as in a clone. */
function prepare(folder: string): void {
  cpSync(join(projectRoot, 'examples/rules'), join(folder, 'examples/rules'), { recursive: true });
  mkdirSync(join(folder, 'bin'));
  symlinkSync(join(projectRoot, 'bin/weir'), join(folder, 'bin/weir'));
  const git = 'git -c user.name=story -c user.email=story@localhost';
  const made = spawnSync('sh', ['-c', `git init -q && git add examples && ${git} commit -qm rules`], {
    cwd: folder,
    encoding: 'utf8',
  });
  if (made.status !== 0) throw new Error(made.stderr);
}

async function playAt(site: Site): Promise<TerminalStep[]> {
  const steps: TerminalStep[] = [];
  for (const [comment, beginning, beforehand] of story) {
    await beforehand?.(site);
    const typed = command(beginning);
    const { output, ms } = await run(typed, site);
    const lines = output.trim() === '' ? [] : output.trimEnd().split('\n');
    steps.push({
      lines: [
        ...(comment === '' ? [] : [{ kind: 'comment', text: `# ${comment}` } as const]),
        { kind: 'command', text: typed },
        ...lines.map((text) => ({ kind: 'output', text: text.trimEnd() }) as const),
        ...(lines.length > 0 ? [{ kind: 'output', text: '' } as const] : []),
      ],
      waitMs: ms,
      restMs: 900 + lines.length * 250,
    });
  }
  return steps;
}

async function run(typed: string, { folder, http, debug }: Site): Promise<{ output: string; ms: number }> {
  const startMs = performance.now();
  const text = typed
    .replaceAll('localhost:8080', `localhost:${http}`)
    .replaceAll('--limiter 127.0.0.1', `--limiter 127.0.0.1:${debug}`);
  const child = spawn('sh', ['-c', text], {
    cwd: folder,
    env: { ...process.env, NO_COLOR: '1' },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      output += String(chunk);
    });
  await new Promise<void>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', () => resolve());
  });
  return { output, ms: Math.round(performance.now() - startMs) };
}

/** Replaces text that differs from run to run: times, ends of windows, versions. */
function comparable(rows: readonly string[]): string {
  return rows
    .join('\n')
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, '<time>')
    .replaceAll(/(?<!\d)\d{10}(?!\d)/g, '<seconds>')
    .replaceAll(/\b[0-9a-f]{16}\b/g, '<version>');
}

const { check } = scriptFlags(
  defineFlags({
    help: `Usage: npm run record -- [--check]

Plays the first minutes with Weir and draws what they print as docs/pictures/story.svg.

  --check  writes nothing, and fails if the commands print something else than the picture shows
`,
    rows: { check: { type: 'boolean' } },
  }),
);
const picture = drawTerminal({
  title: 'The first minutes with Weir',
  description:
    'A terminal. The sixth request in a minute is answered 429; weir why names the rule; the limit is raised in the file, and weir ' +
    'diff says that it is looser; requests pass; weir explain says which rule applies; git checkout undoes the change.',
  columns,
  steps: await play(),
});
if (!check) {
  writeFileSync(target, picture);
} else {
  const [shown, printed] = [readFileSync(target, 'utf8'), picture].map((svg) =>
    comparable(rowsOfPicture(svg)),
  );
  if (shown !== printed) {
    console.error(
      `docs/pictures/story.svg is stale, run "npm run record". It shows\n\n${shown}\n\nand now it is\n\n${printed}`,
    );
    process.exitCode = 1;
  }
}
