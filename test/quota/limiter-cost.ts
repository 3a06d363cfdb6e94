/** What quota clients cost a limiter and its Redis, beside what a call per request costs. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';
import { commandCalls, type RedisServer, startRedis } from '../support/redis-server.ts';
import type { LoadNews, LoadOrder } from './load-process.ts';

/** Of the time in which a load lasted. */
export interface Cost {
  /** Of a core. */
  readonly limiter: number;
  readonly redis: number;
  /** Messages or calls that were sent, and calls of scripts that Redis got. */
  readonly sent: number;
  readonly failed: number;
  readonly redisCalls: number;
  /** What the limiter took at the begin of the load, each 10 s, and at its end. */
  readonly residentMb: readonly number[];
}

const sampleMs = 10_000;

/** One limiter with one Redis, under one load after the other. */
export class CostSite {
  readonly #folder: string;
  readonly #redis: RedisServer;
  readonly #limiter: LimiterProcess;

  private constructor(folder: string, redis: RedisServer, limiter: LimiterProcess) {
    this.#folder = folder;
    this.#redis = redis;
    this.#limiter = limiter;
  }

  static async open(redisPath: string): Promise<CostSite> {
    const folder = mkdtempSync(join(tmpdir(), 'weir-quota-cost-'));
    mkdirSync(join(folder, 'config'));
    const rule = '{ requests_per_unit: 2000000, unit: minute }';
    const rules = `domain: edge\ndescriptors:\n  - key: name\n    rate_limit: ${rule}\n`;
    writeFileSync(join(folder, 'config/edge.yaml'), rules);
    const redis = await startRedis({ path: redisPath });
    const store = {
      BACKEND_TYPE: 'redis',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${redis.port}`,
    };
    const limiter = await startLimiter({
      env: { ...store, RLQS: 'true', RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: 'config' },
    });
    return new CostSite(folder, redis, limiter);
  }

  async measure(order: Omit<LoadOrder, 'port'>): Promise<Cost> {
    const load = fork(fileURLToPath(new URL('load-process.ts', import.meta.url)), { execArgv: [] });
    load.send({ ...order, port: this.#limiter.ports.grpc });
    await newsOf(load);
    const before = await this.#used();
    const megabytes = [residentMb(this.#limiter.pid)];
    const sampling = setInterval(() => megabytes.push(residentMb(this.#limiter.pid)), sampleMs);
    const news = await newsOf(load).finally(() => clearInterval(sampling));
    const after = await this.#used();
    megabytes.push(residentMb(this.#limiter.pid));
    const { sent, failed } = news as Exclude<LoadNews, { begun: true }>;
    return { ...shareOf(before, after), sent, failed, residentMb: megabytes };
  }

  /** Of the core, when nobody asks. */
  async idle(seconds: number): Promise<number> {
    await sleep(2_000);
    const before = await this.#used();
    await sleep(seconds * 1_000);
    return shareOf(before, await this.#used()).limiter;
  }

  async close(): Promise<void> {
    await this.#limiter.stop();
    await this.#redis.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #used(): Promise<Used> {
    const client = new Redis(this.#redis.port, '127.0.0.1', { protocol: 2 });
    const stats = await client.info('commandstats');
    client.disconnect();
    return {
      atMs: performance.now(),
      limiterMs: cpuMs(this.#limiter.pid),
      redisMs: cpuMs(this.#redis.pid!),
      redisCalls: commandCalls(stats, 'evalsha'),
    };
  }
}

interface Used {
  readonly atMs: number;
  readonly limiterMs: number;
  readonly redisMs: number;
  readonly redisCalls: number;
}

function shareOf(before: Used, after: Used): Pick<Cost, 'limiter' | 'redis' | 'redisCalls'> {
  const ms = after.atMs - before.atMs;
  return {
    limiter: (after.limiterMs - before.limiterMs) / ms,
    redis: (after.redisMs - before.redisMs) / ms,
    redisCalls: after.redisCalls - before.redisCalls,
  };
}

async function newsOf(load: ReturnType<typeof fork>): Promise<LoadNews> {
  const ended = once(load, 'exit').then(() => {
    throw new Error('the load ended before it said anything');
  });
  ended.catch(() => {});
  const [news] = await Promise.race([once(load, 'message'), ended]);
  return news as LoadNews;
}

/** Of all threads that there are, in nanoseconds each: Linux's /proc/<pid>/task/<tid>/schedstat. */
function cpuMs(pid: number): number {
  let sum = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`))
    sum += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'latin1').split(' ')[0]);
  return sum / 1e6;
}

function residentMb(pid: number): number {
  const [, kb] = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))!;
  return Math.round((Number(kb) * 1_024) / 1e6);
}
