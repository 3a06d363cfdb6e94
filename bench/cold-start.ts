/**
 * `npm run bench:cold-start`: measures the time from the spawn of a limiter to its last listener. The limiter starts as in the image: it
 * counts in memory, has a small rule file, and exports nothing. Prints medians with and without precompiled code, and the medians of an
 * empty Node program as a baseline.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mustRun } from '../scripts/commands.ts';
import { startProgram } from '../scripts/started-program.ts';
import { defineFlags, scriptFlags } from '../test/support/script-flags.ts';
import { processCpuUs } from './process-cpu.ts';

interface Start {
  ms: number;
  /** CPU time, which other work on the machine does not affect. */
  cpuMs: number;
}

const { runs } = scriptFlags(
  defineFlags({
    help: `Usage: npm run bench:cold-start -- [--runs <n>]

Measures how long a limiter takes from its spawn to its last listener.

  --runs <n>  the number of starts of each kind, from 1 to 1000 (default 11)
`,
    rows: { runs: { type: 'number', min: 1, max: 1000, whole: true, default: 11 } },
  }),
);

const root = mkdtempSync(join(tmpdir(), 'weir-image-'));
try {
  mustRun(process.execPath, [script('image-files.ts'), root]);
  const packed = megabytes(join(root, 'app'));
  mustRun(process.execPath, [script('image-warm-up.ts'), root]);
  console.log(
    `/app ${packed.toFixed(0)} MB, code compiled beforehand ${megabytes(join(root, 'app', 'compile-cache')).toFixed(0)} MB`,
  );
  console.log(`/nodejs ${megabytes(join(root, 'nodejs')).toFixed(0)} MB`);
  await measure();
} finally {
  rmSync(root, { recursive: true, force: true });
}

/** Alternates between the variants, so that other work on the machine affects all of them. */
async function measure(): Promise<void> {
  const cache = { NODE_COMPILE_CACHE: join(root, 'app', 'compile-cache') };
  const [empty, plain, compiled]: [number[], Start[], Start[]] = [[], [], []];
  for (let run = 0; run < runs; run++) {
    empty.push(emptyNode());
    plain.push(await limiter({}));
    compiled.push(await limiter(cache));
  }
  console.log(`an empty Node, start to end: ${summary(empty)}`);
  report('limiter, spawn to listening', plain);
  report('limiter as in the image, code compiled beforehand', compiled);
}

function emptyNode(): number {
  const startMs = performance.now();
  execFileSync(join(root, 'nodejs', 'bin', 'node'), ['-e', '0']);
  return performance.now() - startMs;
}

function report(what: string, starts: readonly Start[]): void {
  console.log(`${what}: ${summary(starts.map(({ ms }) => ms))}`);
  console.log(`  CPU of all its threads until then: ${summary(starts.map(({ cpuMs }) => cpuMs))}`);
}

async function limiter(env: Record<string, string>): Promise<Start> {
  const started = await startProgram({
    command: join(root, 'bin', 'ratelimit'),
    args: [],
    env: {
      ...env,
      HOST: '127.0.0.1',
      PORT: '0',
      GRPC_HOST: '127.0.0.1',
      GRPC_PORT: '0',
      DEBUG_HOST: '127.0.0.1',
      DEBUG_PORT: '0',
      BACKEND_TYPE: 'memory',
      DISABLE_STATS: 'true',
      RUNTIME_ROOT: join(root, 'app', 'examples'),
      RUNTIME_APPDIRECTORY: 'rules',
      RUNTIME_WATCH_ROOT: 'false',
    },
    until: /Listening for HTTP/,
  });
  const cpuMs = processCpuUs(started.pid) / 1_000;
  await started.stop();
  return { ms: started.ms, cpuMs };
}

function summary(ms: readonly number[]): string {
  const sorted = ms.toSorted((a, b) => a - b);
  const [min, middle, max] = [sorted[0]!, sorted[sorted.length >> 1]!, sorted.at(-1)!];
  return `median ${middle.toFixed(0)} ms (${min.toFixed(0)} to ${max.toFixed(0)}, ${runs} runs)`;
}

function megabytes(folder: string): number {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return names.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0) / 1e6;
}

function script(name: string): string {
  return join(import.meta.dirname, '..', 'scripts', name);
}
