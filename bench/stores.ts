/**
 * `npx node bench/stores.ts`: measures the CPU time per counter of the stores alone, without gRPC and rules. Figures are medians of
 * rounds, and each round runs every row. Requests have two counters, keys follow Zipf's law, and the number of concurrent requests is
 * fixed. If `redis-server` is installed, Redis is measured over a Unix socket, with its own CPU time.
 */
import type { AlgorithmBound } from '../limiter/algorithms/algorithm-bound.ts';
import { FixedWindow } from '../limiter/algorithms/fixed-window.ts';
import { SlidingWindow } from '../limiter/algorithms/sliding-window.ts';
import { TokenBucket } from '../limiter/algorithms/token-bucket.ts';
import { BreakerStore } from '../limiter/stores/failure/breaker-store.ts';
import { newOperation, type Operation, plainCounter } from '../limiter/stores/operation.ts';
import { RedisStore } from '../limiter/stores/redis/redis-store.ts';
import { parseRedisAddress } from '../limiter/stores/redis/wire/redis-address.ts';
import type { Store } from '../limiter/stores/store.ts';
import { systemClock, systemTimers } from '../process/time/clock.ts';
import { kindOf } from '../test/support/bound-kind.ts';
import { findServer, redisProgram } from '../test/support/find-server.ts';
import { openMemoryStore } from '../test/support/open-memory-store.ts';
import { startRedis } from '../test/support/redis-server.ts';
import { defineFlags, scriptFlags } from '../test/support/script-flags.ts';
import { median } from './bench-figures.ts';
import { processCpuUs } from './process-cpu.ts';
import { seededRandom, zipfSequence } from './zipf.ts';

const countersPerRequest = 2;
const keyCount = 10_000;
const random = seededRandom(20_240_601);
const sequence = zipfSequence({ count: keyCount, length: 1 << 16, random });
const keysOf = (end: string) =>
  Array.from({ length: keyCount }, (_, i) => `bench_user_${i}_path_/api/v1/items_${end}`);
const keys = { fixed: keysOf('1735689600'), sliding: keysOf('60:sliding'), bucket: keysOf('60:bucket') };
const { seconds, rounds } = scriptFlags(
  defineFlags({
    help: `Usage: npx node bench/stores.ts [--seconds <n>] [--rounds <n>]

Prints the CPU time per counter of the stores alone.

  --seconds <n>  how long each load lasts, 0.1 to 3600 (default 3)
  --rounds <n>   each figure is the median of this number of rounds, 1 to 1000 (default 1)
`,
    rows: {
      seconds: { type: 'number', min: 0.1, max: 3600, default: 3 },
      rounds: { type: 'number', min: 1, max: 1000, whole: true, default: 1 },
    },
  }),
);
const durationMs = seconds * 1000;

/** The kind of each counter of a request: the bounds of its limits. A plain fixed window has none. */
type Limits = readonly AlgorithmBound[];

const windowMicros = 60_000_000;
const sliding = new SlidingWindow({ requests: 1e6, windowMicros });
const bucket = new TokenBucket({ requests: 1e6, burst: 1e6, windowMicros });
const several: Limits = [new FixedWindow(1e6), sliding, bucket];

interface Load {
  store: Store;
  underWay: number;
  stopWhenOver: boolean;
  /** Undefined for plain fixed windows. */
  limits?: Limits;
}

/** Runs `underWay` concurrent requests until the time ends. Returns requests and latencies. */
function run(load: Load): Promise<{ requests: number; latenciesMs: Float64Array }> {
  const { store, underWay, stopWhenOver, limits = [] } = load;
  const latenciesMs = new Float64Array(1 << 16);
  const endMs = performance.now() + durationMs;
  let requests = 0;
  let next = 0;
  let running = underWay;
  return new Promise((resolve) => {
    const start = () => {
      const ops: Operation[] = [];
      for (let i = 0; i < countersPerRequest; i += 1)
        pushOps(ops, sequence[next++ & 0xffff] as number, limits);
      const startedMs = performance.now();
      store.submit(ops, { stopWhenOver }, () => {
        const nowMs = performance.now();
        latenciesMs[requests & 0xffff] = nowMs - startedMs;
        requests += 1;
        for (const op of ops) if (op.error !== undefined) throw op.error;
        if (nowMs < endMs) setImmediate(start);
        else if (--running === 0) resolve({ requests, latenciesMs: latenciesMs.slice(0, requests).sort() });
      });
    };
    for (let i = 0; i < underWay; i += 1) start();
  });
}

function pushOps(ops: Operation[], number: number, limits: Limits): void {
  if (limits.length === 0) ops.push(newOp(keys.fixed[number] as string, undefined, 1));
  for (const bound of limits) ops.push(newOp(keys[kindOf(bound)][number] as string, bound, limits.length));
}

function newOp(key: string, bound: AlgorithmBound | undefined, groupSize: number): Operation {
  const counter = { ...plainCounter(key, { perSecond: false, capacity: 1e6 }), bound };
  const op = newOperation(counter, key, 'add', 1, 60);
  op.groupSize = groupSize;
  return op;
}

interface Row extends Load {
  name: string;
  serverPid?: number | undefined;
}

/**
 * Counters per second, CPU time in µs of each, the server's CPU time, and p50 and p99 in ms. The server's CPU time is NaN without a
 * server.
 */
async function measure(load: Row): Promise<number[]> {
  const { serverPid } = load;
  await run(load);
  const cpu = process.cpuUsage();
  const serverCpuUs = serverPid === undefined ? 0 : processCpuUs(serverPid);
  const { requests, latenciesMs } = await run(load);
  const { user, system } = process.cpuUsage(cpu);
  const counters = requests * countersPerRequest;
  const percentile = (share: number) => latenciesMs[Math.floor(latenciesMs.length * share)] ?? 0;
  return [
    Math.round((counters / durationMs) * 1000),
    (user + system) / counters,
    serverPid === undefined ? Number.NaN : (processCpuUs(serverPid) - serverCpuUs) / counters,
    percentile(0.5),
    percentile(0.99),
  ];
}

async function report(rows: readonly Row[]): Promise<void> {
  const measured: number[][][] = rows.map(() => []);
  for (let round = 0; round < rounds; round += 1) {
    for (const [i, row] of rows.entries()) measured[i]?.push(await measure(row));
  }
  for (const [i, { name }] of rows.entries()) {
    const cells = [0, 1, 2, 3, 4].map((column) => {
      const value = median((measured[i] ?? []).map((figures) => figures[column] as number));
      if (Number.isNaN(value)) return ''.padStart(8);
      return column === 0 ? String(value).padStart(10) : value.toFixed(2).padStart(8);
    });
    console.log([name.padEnd(34), ...cells].join(' '));
  }
}

console.log(`Node ${process.version}, ${keyCount} keys, ${countersPerRequest} counters a request`);
console.log(`${'store, requests under way'.padEnd(34)} counters/s  us each server us   p50 ms   p99 ms`);
const kinds: readonly [name: string, limits: Limits][] = [
  ['sliding', [sliding]],
  ['bucket', [bucket]],
  ['three limits', several],
];
const memory = { store: openMemoryStore({ clock: systemClock }), underWay: 256, stopWhenOver: false };
const rows: Row[] = [{ ...memory, name: 'memory, 256' }];
for (const [name, limits] of kinds) rows.push({ ...memory, name: `memory, ${name}, 256`, limits });
const found = findServer(redisProgram);
if ('missing' in found) {
  await report(rows);
  console.log(`redis not measured: ${found.missing}`);
} else {
  const server = await startRedis({ path: found.path, unixSocket: true });
  const address = parseRedisAddress({ socketType: 'unix', url: server.socketPath, auth: '' });
  const store = new RedisStore({ address, timeoutMs: 10_000, random });
  await store.connect({
    monotonicMs: systemClock.monotonicMs,
    sleep: () => Promise.reject(new Error('no Redis')),
  });
  const breaker = new BreakerStore({
    store,
    timers: systemTimers,
    random,
    silenceMs: 700,
    probeIntervalMs: 250,
    patienceMs: 10_000,
    maxWaiting: 65_536,
    maxWaitingBytes: 64 * 1024 * 1024,
  });
  const redis = { store, stopWhenOver: false, serverPid: server.pid };
  for (const underWay of [1, 16, 64, 256, 1024]) {
    rows.push({ ...redis, name: `redis, ${underWay}`, underWay });
    rows.push({ ...redis, name: `redis behind its breaker, ${underWay}`, store: breaker, underWay });
  }
  rows.push({ ...redis, name: 'redis, stop when over, 256', underWay: 256, stopWhenOver: true });
  for (const [name, limits] of kinds) {
    for (const underWay of [16, 256])
      rows.push({ ...redis, name: `redis, ${name}, ${underWay}`, underWay, limits });
  }
  await report(rows);
  await breaker.close();
  await server.stop();
}
