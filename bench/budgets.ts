/**
 * What a reserve and its commit cost in Redis, as against a plain decision: `node bench/budgets.ts [--seconds N] [--rounds N]
 * [--check]`, medians of the rounds, in each of which every row has its turn. One counter a call, keys by Zipf's law, a fixed
 * number of calls under way, Redis over a unix socket: CPU µs of ours and of the server for each, of the stores alone, without the
 * requests that ask for them. With --check it fails where both together cost more than `mostTimes` a plain decision.
 */
import { parseArgs } from 'node:util';
import { FixedWindow } from '../limiter/stores/bound.ts';
import { unboundAnswer } from '../limiter/stores/counter-store.ts';
import { parseRedisAddress } from '../limiter/stores/redis/redis-address.ts';
import { RedisStore } from '../limiter/stores/redis/redis-store.ts';
import type { ReservedCounter } from '../limiter/stores/reservations/reservation-store.ts';
import { systemClock } from '../process/time/clock.ts';
import { findServer, redisProgram } from '../test/support/find-server.ts';
import { startRedis } from '../test/support/redis-server.ts';
import { processCpuUs } from './process-cpu.ts';
import { seededRandom, zipfSequence } from './zipf.ts';

const mostTimes = 2.5;
const { values: flags } = parseArgs({
  options: {
    seconds: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '3' },
    check: { type: 'boolean', default: false },
  },
});
const durationMs = Number(flags.seconds) * 1000;
const random = seededRandom(20_240_601);
const keyCount = 10_000;
const sequence = zipfSequence({ count: keyCount, length: 1 << 16, random });
const stems = Array.from({ length: keyCount }, (_, i) => `1{bench;user=${i};path=/api/v1/items}`);
const bound = new FixedWindow(Number.MAX_SAFE_INTEGER);

const found = findServer(redisProgram);
if ('missing' in found) throw new Error(found.missing);
const server = await startRedis({ path: found.path, unixSocket: true });
const address = parseRedisAddress({ socketType: 'unix', url: server.socketPath, auth: '' });
const store = new RedisStore({ address, timeoutMs: 10_000, random });
await store.connect({
  monotonicMs: systemClock.monotonicMs,
  sleep: () => Promise.reject(new Error('no Redis')),
});
const { reservations } = store;

let made = 0;

function counterOf(stem: string, amount: number): ReservedCounter {
  return {
    key: `${stem}86400:1735689600`,
    stem,
    isTagged: true,
    earlierKeys: () => [],
    ttlSeconds: 86_400,
    bound,
    windowEndSeconds: 1_735_776_000,
    perSecond: false,
    isShadow: false,
    isQuota: false,
    group: 0,
    amount,
    ttlMs: 60_000,
    onExpiry: 'release',
    outcome: 'untouched',
    ...{ used: 0, reserved: 0, open: 0, oldestMs: 0, changed: 0, givenBack: 0, waitMicros: 0 },
  };
}

function decide(stem: string, done: () => void): void {
  const op = {
    ...unboundAnswer,
    ...{ key: `${stem}86400:1735689600`, hits: 1, negative: false, ttlSeconds: 86_400, limit: 1e15 },
    ...{ lookOnly: false, holdsBack: 'alone' as const, perSecond: false },
  };
  store.submit([op], { stopWhenOver: false }, done);
}

function reserveAndCommit(stem: string, done: () => void): void {
  made += 1;
  const id = `bench-${made}`;
  const call = { id, isMarker: false, error: undefined };
  const reserve = { ...call, kind: 'reserve' as const, counters: [counterOf(stem, 1000)] };
  const asked = {
    ...reserve,
    otherQuotaPasses: false,
    note: undefined,
    outcome: 'full' as const,
    expiresAtMs: 0,
  };
  reservations.submit(asked, () => {
    if (asked.error !== undefined) throw asked.error;
    const settle = { ...call, kind: 'settle' as const, counters: [counterOf(stem, 800)] };
    const told = { unknown: 'tell' as const, outcome: 'unknown' as const, charged: 0, amount: 0 };
    reservations.submit({ ...settle, ...told }, done);
  });
}

function run(work: typeof decide, underWay: number): Promise<number> {
  const endMs = performance.now() + durationMs;
  let next = 0;
  let calls = 0;
  let running = underWay;
  return new Promise((resolve) => {
    const start = () =>
      work(stems[sequence[next++ & 0xffff] as number]!, () => {
        calls += 1;
        if (performance.now() < endMs) setImmediate(start);
        else if (--running === 0) resolve(calls);
      });
    for (let i = 0; i < underWay; i += 1) start();
  });
}

/** CPU µs of ours and of the server for each. */
async function measure(work: typeof decide, underWay: number): Promise<[ours: number, servers: number]> {
  const cpu = process.cpuUsage();
  const serverCpuUs = processCpuUs(server.pid!);
  const calls = await run(work, underWay);
  const { user, system } = process.cpuUsage(cpu);
  return [(user + system) / calls, (processCpuUs(server.pid!) - serverCpuUs) / calls];
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)] as number;
}

const works = { 'plain decision': decide, 'reserve and commit': reserveAndCommit };
let isOver = false;
console.log(`Node ${process.version}, ${keyCount} keys; CPU µs of ours and of Redis`);
for (const underWay of [1, 16, 256]) {
  const rounds: Record<string, [number, number][]> = { 'plain decision': [], 'reserve and commit': [] };
  for (let round = 0; round < Number(flags.rounds); round += 1) {
    for (const [name, work] of Object.entries(works)) rounds[name]!.push(await measure(work, underWay));
  }
  const [plain, both] = Object.entries(rounds).map(([name, figures]) => {
    const [ours, servers] = [0, 1].map((of) => median(figures.map((one) => one[of]!))) as [number, number];
    console.log(
      `${name}, ${underWay} under way`.padEnd(40),
      ours.toFixed(1).padStart(8),
      servers.toFixed(1).padStart(8),
    );
    return ours + servers;
  }) as [number, number];
  const times = both / plain;
  console.log(`  together ${times.toFixed(2)} times`);
  if (times > mostTimes) isOver = true;
}
await store.close();
await server.stop();
if (flags.check && isOver) {
  console.error(`a reserve and its commit cost more than ${mostTimes} times a plain decision`);
  process.exitCode = 1;
}
