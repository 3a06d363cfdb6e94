/**
 * `npm run bench`: decisions per second, CPU per decision and latency of a running limiter, beside an empty unary
 * echo on `node:http2` that is measured in the same run. The servers run on one core and the load generator on the
 * other, where the system has two and `taskset`. Redis is measured when `redis-server` is found.
 *
 *   npm run bench -- [--seconds N] [--json] [--only memory|redis|echo]
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { create, toBinary } from '@bufbuild/protobuf';

import { RateLimitRequestSchema } from '../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { shouldRateLimitPath } from '../limiter/service/should-rate-limit.ts';
import { ChildProgram } from '../test/support/child-program.ts';
import { startLimiter } from '../test/support/limiter-process.ts';
import { startRedisIfFound } from './bench-redis.ts';
import { type CallTemplate, callTemplate } from './http2-frames.ts';
import { type LoadOptions, runLoad } from './http2-load.ts';
import { processCpuUs } from './process-cpu.ts';
import { seededRandom, zipfSequence } from './zipf.ts';

/** Read before this process is kept on one of them. */
const cores = availableParallelism();
const keyCount = 10_000;
const warmUpMs = 2_000;

const usage = 'npm run bench -- [--seconds N] [--json] [--only memory|redis|echo]';
const flags = parseFlags();
const durationMs = Number(flags.seconds) * 1000;

function parseFlags(): { seconds: string; json?: boolean; only?: string } {
  try {
    const seconds = { type: 'string', default: '5' } as const;
    const { values } = parseArgs({
      options: { seconds, json: { type: 'boolean' }, only: { type: 'string' } },
    });
    if (Number(values.seconds) > 0) return values;
  } catch {
    // Told below.
  }
  console.error(usage);
  process.exit(2);
}

interface Target {
  name: string;
  pid: number;
  port: number;
  stop(): Promise<unknown>;
}

const loads: { name: string; options: Pick<LoadOptions, 'connections' | 'streams' | 'perSecond'> }[] = [
  { name: '8 connections x 50 streams', options: { connections: 8, streams: 50 } },
  { name: '4 x 1', options: { connections: 4, streams: 1 } },
  { name: '5,000/s on a schedule', options: { connections: 8, streams: 200, perSecond: 5_000 } },
];

interface Row {
  target: string;
  load: string;
  perSecond: number;
  cpuUs: number;
  p50Ms: number;
  p99Ms: number;
  p999Ms: number;
  failed: number;
}

const core = pinnedCore();
const random = seededRandom(20_240_601);
const sequence = zipfSequence({ count: keyCount, length: 1 << 16, random });
const calls: CallTemplate[] = Array.from({ length: keyCount }, (_, i) => {
  const descriptors = [
    { entries: [{ key: 'remote_address', value: `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}` }] },
  ];
  return callTemplate(
    shouldRateLimitPath,
    toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, { domain: 'bench', descriptors })),
  );
});

/** Keeps this process on the last core and returns the first one for the servers; undefined where that cannot be. */
function pinnedCore(): number | undefined {
  if (cores < 2) return undefined;
  try {
    execFileSync('taskset', ['-apc', String(cores - 1), String(process.pid)], {
      stdio: 'ignore',
    });
    return 0;
  } catch {
    return undefined;
  }
}

async function startEcho(): Promise<Target> {
  const script = new URL('./echo-server.ts', import.meta.url).pathname;
  const node = [process.execPath, script];
  const command = core === undefined ? node : ['taskset', '-c', String(core), ...node];
  const program = new ChildProgram({ command: command[0] as string, args: command.slice(1) });
  const [, port] = await program.printed(/listening (\d+)/);
  return {
    name: 'empty echo on node:http2',
    pid: program.pid,
    port: Number(port),
    stop: () => program.stop(),
  };
}

async function startWeir(name: string, rules: string, env: Record<string, string>): Promise<Target> {
  const limiter = await startLimiter({
    env: { RUNTIME_ROOT: rules, RUNTIME_APPDIRECTORY: '.', ...env },
    ...(core === undefined ? {} : { core }),
  });
  return { name, pid: limiter.pid, port: limiter.ports.grpc, stop: () => limiter.stop() };
}

async function measure(target: Target): Promise<Row[]> {
  const rows: Row[] = [];
  for (const { name, options } of loads) {
    const load = { port: target.port, calls, sequence, ...options };
    await runLoad({ ...load, durationMs: warmUpMs });
    const cpuBeforeUs = processCpuUs(target.pid);
    const result = await runLoad({ ...load, durationMs });
    const row: Row = {
      target: target.name,
      load: name,
      perSecond: Math.round(result.answered / result.seconds),
      cpuUs: (processCpuUs(target.pid) - cpuBeforeUs) / result.answered,
      p50Ms: result.latency.quantileMs(0.5),
      p99Ms: result.latency.quantileMs(0.99),
      p999Ms: result.latency.quantileMs(0.999),
      failed: result.failed,
    };
    rows.push(row);
    if (!flags.json) printRow(row);
  }
  return rows;
}

function printRow(row: Row): void {
  const cells = [
    row.perSecond,
    row.cpuUs.toFixed(1),
    row.p50Ms.toFixed(2),
    row.p99Ms.toFixed(2),
    row.p999Ms.toFixed(2),
    row.failed,
  ];
  console.log(`| ${row.target} | ${row.load} | ${cells.join(' | ')} |`);
}

const rules = mkdtempSync(join(tmpdir(), 'weir-bench-'));
writeFileSync(
  join(rules, 'bench.yaml'),
  'domain: bench\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: hour, requests_per_unit: 4000000000 }\n',
);
const redis = await startRedisIfFound(core === undefined ? undefined : cores - 1);
const starters: Record<string, () => Promise<Target>> = {
  echo: startEcho,
  memory: () => startWeir('weir, memory', rules, { BACKEND_TYPE: 'memory' }),
};
if (redis !== undefined) {
  starters['redis'] = () =>
    startWeir('weir, Redis', rules, { REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `127.0.0.1:${redis.port}` });
}
try {
  if (!flags.json) {
    console.log(
      `${cpus()[0]?.model}, ${cores} cores, node ${process.versions.node}; ${keyCount} keys by Zipf`,
    );
    if (redis === undefined) console.log('redis-server not found: measured without Redis');
    console.log('| server | load | answers/s | CPU µs an answer | p50 ms | p99 ms | p99.9 ms | failed |');
    console.log('|---|---|---|---|---|---|---|---|');
  }
  const all: Row[] = [];
  for (const [name, start] of Object.entries(starters)) {
    if (flags.only !== undefined && flags.only !== name) continue;
    const target = await start();
    try {
      all.push(...(await measure(target)));
    } finally {
      await target.stop();
    }
  }
  if (flags.json) console.log(JSON.stringify(all, null, 2));
} finally {
  await redis?.stop();
  rmSync(rules, { recursive: true, force: true });
}
