/**
 * `npm run bench:library`: compares the library with rate-limiter-flexible and @upstash/ratelimit, on one Redis and in memory. It
 * measures decisions per CPU second of the process and Redis together. Figures are medians of rounds, and each round runs every library.
 * Memory counts only the CPU time of the process.
 */
import { execFileSync, fork, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../scripts/commands.ts';
import { defineFlags, scriptFlags } from '../../test/support/script-flags.ts';
import { median } from '../bench-figures.ts';
import { startRedisIfFound } from '../bench-redis.ts';
import { processCpuUs } from '../process-cpu.ts';

interface Measured {
  decisions: number;
  cpuSeconds: number;
  p50Ms: number;
  p99Ms: number;
}

const { seconds, rounds } = scriptFlags(
  defineFlags({
    help: `Usage: npm run bench:library -- [--seconds <n>] [--rounds <n>]

Compares the library with others, on one Redis and in memory.

  --seconds <n>  how long each load lasts, 0.1 to 3600 (default 2)
  --rounds <n>   each figure is the median of this number of rounds, 1 to 1000 (default 5)
`,
    rows: {
      seconds: { type: 'number', min: 0.1, max: 3600, default: 2 },
      rounds: { type: 'number', min: 1, max: 1000, whole: true, default: 5 },
    },
  }),
);
const durationMs = seconds * 1000;

/** Installs the packages once for each lock file. */
function installed(): string {
  const folder = join(projectRoot, '.cache/bench-library');
  const lock = 'package-lock.json';
  const source = join(projectRoot, 'bench/library');
  const isCurrent =
    existsSync(join(folder, 'node_modules')) &&
    readFileSync(join(folder, lock), 'utf8') === readFileSync(join(source, lock), 'utf8');
  if (isCurrent) return folder;
  mkdirSync(folder, { recursive: true });
  for (const file of ['package.json', lock]) copyFileSync(join(source, file), join(folder, file));
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--silent'], { cwd: folder, stdio: 'inherit' });
  return folder;
}

/** CPU time of the process and, if there is one, of Redis. */
async function load(
  library: string,
  where: { port: number; pid: number } | undefined,
  open: number,
): Promise<Measured> {
  const args = [library, modules, String(where?.port ?? 0), String(open), String(durationMs)];
  const child = fork(join(projectRoot, 'bench/library/load.ts'), args);
  let redisBefore = 0;
  return await new Promise<Measured>((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`${library} ended with ${code}`)));
    child.on('message', (message) => {
      if (message === 'begin') {
        redisBefore = where === undefined ? 0 : processCpuUs(where.pid);
        child.send('go');
        return;
      }
      const measured = message as Measured;
      const redisSeconds = where === undefined ? 0 : (processCpuUs(where.pid) - redisBefore) / 1e6;
      resolve({ ...measured, cpuSeconds: measured.cpuSeconds + redisSeconds });
    });
  });
}

/** Returns the median start time of Node with this code instead of a program, in milliseconds. */
function startMs(script: string): number {
  const times = Array.from({ length: 20 }, () => {
    const beganMs = performance.now();
    spawnSync(process.execPath, ['--input-type=module', '-e', script]);
    return performance.now() - beganMs;
  });
  return median(times);
}

const modules = installed();
execFileSync(process.execPath, [join(projectRoot, 'scripts/build-library.ts')], { stdio: 'inherit' });
const server = await startRedisIfFound(undefined);
const redis = server?.pid === undefined ? undefined : { port: server.port, pid: server.pid };
const inRedis = ['weir', 'rate-limiter-flexible', '@upstash/ratelimit'];
const rows: [
  store: string,
  where: { port: number; pid: number } | undefined,
  open: number,
  libraries: string[],
][] = [
  ...[1, 16, 256].map((open): [string, typeof redis, number, string[]] => ['Redis', redis, open, inRedis]),
  ['memory', undefined, 1, ['weir', 'rate-limiter-flexible']],
];
console.log(
  '| store, open calls | library | decisions per CPU second | of rate-limiter-flexible | p50 | p99 |',
);
console.log('|---|---|---|---|---|---|');
for (const [store, where, open, libraries] of rows) {
  if (store === 'Redis' && where === undefined) continue;
  const measured = new Map<string, Measured[]>(libraries.map((library) => [library, []]));
  for (let round = 0; round < rounds; round++)
    for (const library of libraries) measured.get(library)!.push(await load(library, where, open));
  const rate = (library: string): number =>
    median(measured.get(library)!.map(({ decisions, cpuSeconds }) => decisions / cpuSeconds));
  for (const library of libraries) {
    const all = measured.get(library)!;
    const ratio = (rate(library) / rate('rate-limiter-flexible')).toFixed(2);
    const [p50, p99] = [median(all.map(({ p50Ms }) => p50Ms)), median(all.map(({ p99Ms }) => p99Ms))];
    console.log(
      `| ${store}, ${open} | ${library} | ${Math.round(rate(library)).toLocaleString('en')} | ${ratio} | ${p50.toFixed(3)} ms | ${p99.toFixed(3)} ms |`,
    );
  }
}
await server?.stop();
const built = JSON.stringify(join(projectRoot, 'packages/limiter/dist/index.js'));
const [bare, library] = [startMs('0'), startMs(`await import(${built})`)];
console.log(
  `\nimport: ${(library - bare).toFixed(0)} ms above \`node -e 0\` (${bare.toFixed(0)} ms), median of 20`,
);
