/**
 * `npm run bench`: measures decisions per second, CPU time per decision and latency of a running limiter. The same runs also measure an
 * empty unary echo on `node:http2` and a fixed answer on `node:net`; the servers alternate. If the system has two cores and `taskset`,
 * the servers run on one core, and the load generator and Redis on the other. Redis and h2load are used if they are installed.
 * docs/performance.md explains the figures.
 * `npm run bench:check` is the same with `--check`: five runs, whose ratios to the echo are compared with ratios.json.
 */
import { hash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { create, toBinary } from '@bufbuild/protobuf';

import { RateLimitRequestSchema } from '../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { shouldRateLimitPath } from '../limiter/service/should-rate-limit.ts';
import { findServer, h2loadProgram } from '../test/support/find-server.ts';
import { defineFlags, FlagError, scriptFlags } from '../test/support/script-flags.ts';
import {
  callByCallLoads,
  costlyLimits,
  type Figures,
  fixedWindowLoad,
  floorLines,
  leaseLines,
  mediansOf,
  type Ratios,
  ratiosOf,
  ratiosToFixedWindow,
  regressions,
  tableOf,
} from './bench-figures.ts';
import { scriptsRun, startRedisIfFound } from './bench-redis.ts';
import {
  keepOffServerCore,
  startLeasing,
  startWeir,
  startYardstick,
  type Target,
  type TargetName,
  targetTitles,
  type Yardstick,
  yardsticks,
} from './bench-targets.ts';
import { besideCheckout } from './beside.ts';
import { type HotKeyFigures, measureHotKey } from './hot-key.ts';
import { envoyCalls } from './http2-frames.ts';
import { type LoadOptions, runLoad } from './http2-load.ts';
import { type LatencyFigures, measureLatency } from './latency.ts';
import {
  costlyOverLimit,
  measureOverLimit,
  type OverLimitFigures,
  overLimitLine,
  overLimitRule,
} from './over-limit.ts';
import { processCpuUs } from './process-cpu.ts';
import { seededRandom, zipfSequence } from './zipf.ts';

const keyCount = 10_000;
const warmUpMs = 1_000;
/** Chosen: about 200,000 calls. */
const optimizingMs = 2_000;
const hotKeyCalls = 1_000_000;
const overLimitLoad = 'over limit';
const ratiosFile = new URL('./ratios.json', import.meta.url);
/**
 * Rules of the limiter other than the default one, by the key of their requests. Their cost is compared with that of the default
 * rule.
 */
const otherLimits = {
  sliding: '    rate_limit: { unit: hour, requests_per_unit: 1000000000, algorithm: sliding_window }\n',
  bucket:
    '    rate_limit: { unit: second, requests_per_unit: 1000000, algorithm: token_bucket, burst: 1000000000 }\n',
  three: `    rate_limits:
      - { unit: second, requests_per_unit: 1000000, algorithm: token_bucket, burst: 1000000000 }
      - { unit: minute, unit_multiplier: 5, requests_per_unit: 1000000000 }
      - { unit: day, requests_per_unit: 1000000000, algorithm: sliding_window }\n`,
  leased: '    rate_limit: { unit: hour, requests_per_unit: 1000000 }\n',
} as const;

interface Load {
  name: string;
  options: Pick<LoadOptions, 'connections' | 'streams' | 'perSecond' | 'oneWriteACall' | 'allAtOnce'>;
  /** The limits of the load; undefined for a fixed window. Only the limiter without options has other limits. */
  limits?: keyof typeof otherLimits;
}

const busy = { connections: 8, streams: 50 };
const allLoads: Load[] = [
  { name: fixedWindowLoad, options: busy },
  { name: `${fixedWindowLoad}, sliding window`, options: busy, limits: 'sliding' },
  { name: `${fixedWindowLoad}, token bucket`, options: busy, limits: 'bucket' },
  { name: `${fixedWindowLoad}, three limits on a key`, options: busy, limits: 'three' },
  { name: '5,000/s on a schedule', options: { connections: 8, streams: 200, perSecond: 5_000 } },
  { name: callByCallLoads[0], options: { ...busy, oneWriteACall: true } },
  { name: callByCallLoads[1], options: { connections: 4, streams: 1, oneWriteACall: true } },
  {
    name: callByCallLoads[2],
    options: { connections: 8, streams: 200, perSecond: 5_000, oneWriteACall: true },
  },
  {
    name: callByCallLoads[3],
    options: { connections: 8, streams: 200, perSecond: 5_000, oneWriteACall: true, allAtOnce: true },
  },
];

const flags = scriptFlags(
  defineFlags({
    help: `Usage: npm run bench -- [flags]

  --seconds <n>    how long each load lasts, 0.1 to 3600 (default 5)
  --runs <n>       each figure is the median of this number of runs, 1 to 1000 (default 3; 5 with --check and --write-ratios)
  --only <a,b>     some of echo, floor, floor-redis, memory, callers, redis, leases
  --load <text>    the loads with this in their name, such as "each alone"; "over limit" measures only hits over limit
  --beside <other> the limiter of another checkout, or of a commit, takes turns with this one
  --json           prints the figures as JSON
  --check          fails if a ratio is more than 25% above bench/ratios.json
  --write-ratios   writes bench/ratios.json

docs/performance.md describes what is measured.
`,
    rows: {
      seconds: { type: 'number', min: 0.1, max: 3600, default: 5 },
      runs: { type: 'number', min: 1, max: 1000, whole: true },
      json: { type: 'boolean' },
      only: { type: 'string' },
      load: { type: 'string', default: '' },
      beside: { type: 'string' },
      check: { type: 'boolean' },
      'write-ratios': { type: 'boolean' },
    },
    read: (values) => {
      const comparing = values.check || values['write-ratios'];
      const only = values.only?.split(',');
      const unknown = only?.find((name) => !(name in targetTitles));
      if (unknown !== undefined)
        throw new FlagError(
          `--only: there is no "${unknown}"; there are ${Object.keys(targetTitles).join(', ')}`,
        );
      if (values.load !== overLimitLoad && !allLoads.some(({ name }) => name.includes(values.load)))
        throw new FlagError(`--load: no load has "${values.load}" in its name`);
      if (comparing && (only !== undefined || values.load !== '' || values.beside !== undefined))
        throw new FlagError('--check and --write-ratios take no --only, --load or --beside');
      return { ...values, only, runs: values.runs ?? (comparing ? 5 : 3), comparing };
    },
  }),
);
const durationMs = flags.seconds * 1000;
const loads = allLoads.filter(({ name }) => name.includes(flags.load));

const cores = keepOffServerCore();
const values = Array.from({ length: keyCount }, (_, i) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`);
const messages = messagesOf('remote_address');
/** The token for the limiter with CALLERS_FILE. It is only valid in this measurement. */
const callersToken = `bench.${'x'.repeat(43)}`;
const knownCalls = envoyCalls(shouldRateLimitPath, messages, ['authorization', `Bearer ${callersToken}`]);
const load = {
  ...envoyCalls(shouldRateLimitPath, messages),
  sequence: zipfSequence({ count: keyCount, length: 1 << 16, random: seededRandom(20_240_601) }),
};

function messagesOf(key: string): Uint8Array[] {
  return values.map((value) => {
    const descriptors = [{ entries: [{ key, value }] }];
    return toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, { domain: 'bench', descriptors }));
  });
}

const otherCalls = Object.fromEntries(
  Object.keys(otherLimits).map((key) => [key, envoyCalls(shouldRateLimitPath, messagesOf(key))]),
);

/** Returns rules with a few hundred unused ones, so that reloading them takes some time. */
function rulesText(version: number): string {
  const others = Array.from(
    { length: 500 },
    (_, i) =>
      `  - { key: path, value: /${i}, rate_limit: { unit: hour, requests_per_unit: ${1_000 + version} } }\n`,
  );
  const used = '  - key: remote_address\n    rate_limit: { unit: hour, requests_per_unit: 4000000000 }\n';
  const algorithms = Object.entries(otherLimits).map(([key, limits]) => `  - key: ${key}\n${limits}`);
  return `domain: bench\ndescriptors:\n${used}${overLimitRule}${algorithms.join('')}${others.join('')}`;
}

async function measure(target: Target, { name, options, limits }: Load, run: number): Promise<Figures> {
  const all = {
    port: target.port,
    ...load,
    ...(target.name === 'callers' && knownCalls),
    ...(target.name === 'leases' && otherCalls['leased']),
    ...(limits !== undefined && otherCalls[limits]),
    ...options,
  };
  const warmUp = () => runLoad({ ...all, durationMs: warmUpMs });
  // Counting uses CPU time of the floor, so it happens before the measurement.
  const alone = target.aloneDuring === undefined ? undefined : await target.aloneDuring(warmUp);
  if (alone === undefined) await warmUp();
  const counted = async () => ({
    scripts: redis === undefined ? 0 : await scriptsRun(redis.port),
    leased: (await target.leasedCalls?.()) ?? 0,
  });
  const before = await counted();
  const cpuBeforeUs = processCpuUs(target.pid);
  const { answered, failed, seconds, latency } = await runLoad({ ...all, durationMs });
  const cpuUs = (processCpuUs(target.pid) - cpuBeforeUs) / answered;
  const after = await counted();
  return {
    target: target.name,
    load: name,
    run,
    perSecond: answered / seconds,
    cpuUs,
    p50Ms: latency.quantileMs(0.5),
    p99Ms: latency.quantileMs(0.99),
    p999Ms: latency.quantileMs(0.999),
    failed,
    alone,
    scripts: (after.scripts - before.scripts) / answered,
    leased: (after.leased - before.leased) / answered,
  };
}

/**
 * Measures every target under every load in each run, so that the load of the machine affects all of them. First, it lets V8 optimize
 * each program, which would take longer than a measurement with few calls per second.
 */
async function measureAll(targets: readonly Target[]): Promise<Figures[]> {
  const all: Figures[] = [];
  for (const { port } of targets) {
    await runLoad({ port, ...load, ...busy, oneWriteACall: true, durationMs: optimizingMs });
  }
  for (let run = 0; run < flags.runs; run++) {
    for (const one of loads) {
      for (const target of targets) {
        const fits =
          target.name === 'leases'
            ? one.options.oneWriteACall === true
            : (one.limits !== undefined) === (target.forLimits ?? false);
        if (fits) all.push(await measure(target, one, run));
      }
    }
  }
  return all;
}

/** Writes a callers file with everything that can make a decision more expensive: a token, a pattern of domains, and a rate. */
function writeCallersFile(): string {
  const file = join(folder, 'callers.yaml');
  const digest = hash('sha256', callersToken.slice('bench.'.length));
  writeFileSync(
    file,
    `callers:\n  - { name: bench, token_sha256: ${digest}, domains: [ben*], requests_per_second: 1000000 }\n`,
  );
  return file;
}

async function hotKeyOf(target: Target | undefined): Promise<HotKeyFigures | undefined> {
  const found = findServer(h2loadProgram);
  if ('missing' in found || target === undefined || flags.comparing || flags.load !== '') return undefined;
  const { pid, port } = target;
  const message = messages[0] as Uint8Array;
  const bodyFile = join(folder, 'hot-key');
  return measureHotKey({ h2load: found.path, pid, port, message, bodyFile, calls: hotKeyCalls });
}

/** Measures requests over limit for each limiter with Redis and default rules. */
async function overLimitOf(all: readonly Target[]): Promise<Map<TargetName, OverLimitFigures[]>> {
  const measured = new Map<TargetName, OverLimitFigures[]>();
  const pid = redis?.pid;
  if (pid === undefined || (flags.load !== '' && flags.load !== overLimitLoad)) return measured;
  const { sequence } = load;
  const { runs } = flags;
  for (const target of all) {
    if (!/^redis(-beside)?$/.test(target.name) || target.forLimits === true) continue;
    measured.set(
      target.name,
      await measureOverLimit({ target, redisPid: pid, values, sequence, durationMs, runs }),
    );
  }
  return measured;
}

async function latencyBesideIdle(): Promise<LatencyFigures | undefined> {
  if (flags.comparing || flags.only !== undefined || flags.load !== '') return undefined;
  const redisPort = redis?.port;
  mkdirSync(join(folder, 'latency', 'rules'), { recursive: true });
  const own = join(folder, 'latency');
  return measureLatency({ folder: own, rulesText, redisPort, cores, load, durationMs: 2 * durationMs });
}

function hotKeyLine({ perSecond, cpuUs, cores: used, failed }: HotKeyFigures): string {
  return `hot key, Redis, h2load -c 8 -m 50: ${perSecond} decisions/s, ${cpuUs.toFixed(1)} µs CPU each, ${used.toFixed(2)} of its core (a whole one: ${Math.round(1e6 / cpuUs)}/s), ${failed} failed`;
}

function latencyLine(figures: LatencyFigures): string {
  const { perSecond, p50Ms, p99Ms, p999Ms, limiter, idle, reloads, failed } = figures;
  const pauses = ({ p99Ms: p99, largestMs }: typeof idle): string =>
    `p99 ${p99.toFixed(1)}, largest ${largestMs.toFixed(1)} ms`;
  return [
    `latency: ${perSecond}/s with ${reloads} loads of rules and metrics sent each second: p50 ${p50Ms.toFixed(2)}, p99 ${p99Ms.toFixed(2)}, p99.9 ${p999Ms.toFixed(2)} ms, ${failed} failed`,
    `pauses: the limiter's event loop ${pauses(limiter)}; an idle process beside it ${pauses(idle)}`,
  ].join('\n');
}

const folder = mkdtempSync(join(tmpdir(), 'weir-bench-'));
const rules = join(folder, 'rules');
mkdirSync(rules);
writeFileSync(join(rules, 'bench.yaml'), rulesText(0));
const redis = await startRedisIfFound(cores?.others);
const targets: Target[] = [];
const wanted = (name: TargetName): boolean => flags.only?.includes(name) ?? true;
try {
  const checkout = flags.beside === undefined ? undefined : besideCheckout(flags.beside, folder);
  for (const name of Object.keys(yardsticks) as Yardstick[]) {
    if (wanted(name) && (name !== 'floor-redis' || redis !== undefined))
      targets.push(await startYardstick(name, cores, redis?.port));
  }
  if (wanted('memory')) {
    targets.push(await startWeir({ rules, redisPort: undefined, cores }));
    targets.push({ ...(await startWeir({ rules, redisPort: undefined, cores })), forLimits: true });
  }
  if (wanted('callers') && !flags.check) {
    const env = { CALLERS_FILE: writeCallersFile() };
    targets.push({ ...(await startWeir({ rules, redisPort: undefined, cores, env })), name: 'callers' });
  }
  if (wanted('redis') && redis !== undefined) {
    targets.push(await startWeir({ rules, redisPort: redis.port, cores }));
    targets.push({ ...(await startWeir({ rules, redisPort: redis.port, cores })), forLimits: true });
  }
  if (wanted('leases') && redis !== undefined) {
    targets.push(await startLeasing({ rules, redisPort: redis.port, cores }));
  }
  if (checkout !== undefined) {
    if (wanted('memory')) targets.push(await startWeir({ rules, redisPort: undefined, cores, checkout }));
    if (wanted('redis') && redis !== undefined)
      targets.push(await startWeir({ rules, redisPort: redis.port, cores, checkout }));
  }
  const machine = `${cpus()[0]?.model}, ${cpus().length} cores, node ${process.versions.node}; ${keyCount} keys by Zipf; medians of ${flags.runs} runs of ${flags.seconds} s`;
  const figures = await measureAll(targets);
  const rows = mediansOf(figures);
  const leases = leaseLines(figures);
  const toFixedWindow = ratiosToFixedWindow(figures);
  const overLimit = await overLimitOf(targets);
  const hotKey = await hotKeyOf(targets.find(({ name }) => name === 'redis'));
  const latency = await latencyBesideIdle();
  if (flags.json)
    console.log(
      JSON.stringify(
        {
          machine,
          rows,
          ratios: ratiosOf(rows),
          leases,
          toFixedWindow,
          overLimit: [...overLimit],
          hotKey,
          latency,
        },
        null,
        2,
      ),
    );
  else {
    console.log(machine);
    if (redis === undefined) console.log('redis-server not found: measured without Redis');
    console.log(tableOf(rows));
    for (const line of [...floorLines(rows), ...leases.map(({ line }) => line)]) console.log(line);
    for (const [what, ratio] of Object.entries(toFixedWindow)) {
      console.log(`${what}: ${ratio.toFixed(2)} of the CPU of a fixed window`);
    }
    for (const [name, of] of overLimit) console.log(overLimitLine({ target: targetTitles[name] }, of));
    if (hotKey !== undefined) console.log(hotKeyLine(hotKey));
    if (latency !== undefined) console.log(latencyLine(latency));
  }
  if (flags['write-ratios']) writeFileSync(ratiosFile, `${JSON.stringify(ratiosOf(rows), null, 2)}\n`);
  if (flags.check) {
    const committed = JSON.parse(readFileSync(ratiosFile, 'utf8')) as Ratios;
    const problems = [
      ...regressions(ratiosOf(rows), committed),
      ...costlyLimits(toFixedWindow),
      ...leases.filter(({ holds }) => !holds).map(({ line }) => line),
      ...costlyOverLimit(overLimit.get('redis') ?? []),
    ];
    for (const problem of problems) console.error(`bench:check: ${problem}`);
    if (problems.length > 0) process.exitCode = 1;
  }
} finally {
  for (const target of targets) await target.stop();
  await redis?.stop();
  rmSync(folder, { recursive: true, force: true });
}
