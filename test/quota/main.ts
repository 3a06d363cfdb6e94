/** `npm run quota`: measures limits that three Envoys share through the quota service. Takes 12 minutes. */
import { endScript } from '../support/end-script.ts';
import { envoyProgram, programPath, redisProgram } from '../support/find-server.ts';
import { defineFlags, FlagError, scriptFlags } from '../support/script-flags.ts';
import setup from '../support/weir-program.ts';
import { CostSite } from './limiter-cost.ts';
import { type QuotaFigures, type QuotaRun, runQuota } from './quota-run.ts';

const skewed = [0.8, 0.15, 0.05];
const equal = [1 / 3, 1 / 3, 1 / 3];

const flags = defineFlags({
  help: `Usage: npm run quota -- [--only <part>] [--seed <n>]

Measures what quota clients cost a limiter and its Redis, then limits that three Envoys share through two limiters. It takes some
12 minutes, on a machine that does nothing else, and needs envoy and redis-server.

  --only <part>  costs (4 minutes) or limits
  --seed <n>     of the times at which requests come (default 1)

Exit status: 0 when no limit was exceeded, 1 when one was or a limiter was not killed as planned, 2 for a wrong command line.
`,
  rows: {
    only: { type: 'string' },
    seed: { type: 'number', min: 1, max: 2 ** 31 - 1, whole: true, default: 1 },
  },
  read: (values) => {
    if (![undefined, 'costs', 'limits'].includes(values.only))
      throw new FlagError(`--only must be costs or limits, not ${values.only}`);
    return values;
  },
});

const { only, seed } = scriptFlags(flags);
const usual = { demand: 1.5, windows: 2, isPoisson: false, seed } as const;

/** Those of a group run at the same time, as one of them needs little of a core. */
const groups: readonly (readonly QuotaRun[])[] = [
  [
    { ...usual, limit: 3_000, windowSeconds: 60, skew: skewed },
    { ...usual, limit: 3_000, windowSeconds: 60, skew: skewed, isPoisson: true },
    { ...usual, limit: 3_000, windowSeconds: 60, skew: equal, fault: 'limiter killed' },
    { ...usual, limit: 3_000, windowSeconds: 60, skew: equal, fault: 'Redis restarted' },
    { ...usual, limit: 3_000, windowSeconds: 60, skew: equal, fault: 'messages 2.5 s late' },
    { ...usual, limit: 3_000, windowSeconds: 60, skew: equal, fault: 'pushes 5 s late' },
  ],
  [{ ...usual, limit: 60_000, windowSeconds: 60, skew: skewed }],
  [
    { ...usual, limit: 1_000, windowSeconds: 20, skew: skewed, windows: 4 },
    { ...usual, limit: 1_000, windowSeconds: 20, skew: equal, windows: 4, isPoisson: true },
  ],
];

/** Chosen: of a core; less cannot be distinguished from what an idle limiter does. */
const minMeasured = 0.0005;

const removeProgram = await setup();
const programs = { envoy: programPath(envoyProgram), redis: programPath(redisProgram) };
if (only !== 'limits') await printCosts(programs.redis);
if (only === undefined) console.log();
const measured = only === 'costs' ? [] : groups;
if (measured.length > 0)
  console.log(
    '| run | over | used | empty seconds | Jain | first, ms | first refused |\n|---|---|---|---|---|---|---|',
  );
let isExceeded = false;
let isKillMissing = false;
for (const group of measured) {
  const figures = await Promise.all(group.map((run) => runQuota(run, programs)));
  for (const [n, run] of group.entries()) printRun(run, figures[n]!);
}
await removeProgram?.();
if (isExceeded) {
  console.error('a limit was exceeded');
  process.exitCode = 1;
}
if (isKillMissing) {
  console.error('a run without a limiter killed, or with one that ended by itself');
  process.exitCode = 1;
}
endScript();

function printRun(run: QuotaRun, figures: QuotaFigures): void {
  const { over, used, emptySeconds, jain, firstMs, firstOverLimit, limitersEnded } = figures;
  if (over > 0) isExceeded = true;
  if (limitersEnded !== (run.fault === 'limiter killed' ? 1 : 0)) isKillMissing = true;
  const parts = run.skew.map((part) => Math.round(part * 100)).join('/');
  const name = `${run.limit} in ${run.windowSeconds} s, ${parts}, ${run.isPoisson ? 'Poisson' : 'constant'}`;
  const cells = [
    run.fault === undefined ? name : `${name}, ${run.fault}`,
    ...[
      over,
      `${(100 * used).toFixed(1)}%`,
      emptySeconds,
      jain.toFixed(3),
      Math.round(firstMs),
      firstOverLimit,
    ],
  ];
  console.log(`| ${cells.join(' | ')} |`);
}

/** In the exact form, where quota clients cost most: each grant is a number for a window. */
async function printCosts(redis: string): Promise<void> {
  const site = await CostSite.open(redis);
  const calls = await site.measure({ seconds: 10, calls: 5_000 });
  const idle = await site.idle(20);
  const few = await site.measure({ seconds: 60, reports: { streams: 3, buckets: 1, allowed: 8_333 } });
  const many = await site.measure({ seconds: 60, reports: { streams: 1_000, buckets: 100, allowed: 10 } });
  await site.close();
  const percent = (part: number): string => `${(100 * part).toFixed(part < 0.01 ? 3 : 1)}%`;
  const row = (what: string, { limiter, redis: ofRedis, ...cost }: typeof many): void =>
    console.log(
      `| ${what} | ${percent(limiter)} | ${percent(ofRedis)} | ${cost.sent} | ${cost.redisCalls} | ${Math.max(...cost.residentMb)} | ${cost.failed} |`,
    );
  console.log('| load | limiter, of a core | Redis | messages | calls of Redis | MB | failed |');
  console.log('|---|---|---|---|---|---|---|');
  row('RLS, 5,000 calls a second', calls);
  row('3 quota clients that let 5,000 requests a second pass', few);
  row('1,000 quota clients with 100 buckets', many);
  console.log(`memory with 1,000 quota clients, each 10 s, in MB: ${many.residentMb.join(', ')}`);
  const protecting = Math.max(minMeasured, few.limiter - idle);
  console.log(
    `an idle limiter takes ${percent(idle)}; beyond that a protected request takes 1/${Math.round((calls.limiter - idle) / protecting)} of what a call does`,
  );
}
