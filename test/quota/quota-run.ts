/** Real Envoys that share one limit through the quota service of two limiters on one Redis, under the demand of a run. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { seededRandom } from '../../bench/zipf.ts';
import { type EnvoyProcess, startEnvoy } from '../support/envoy.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';
import { deniedAfterwards, deniedAtFirst, quotaEnvoyConfig } from '../support/quota-envoy.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

/** Of what Envoys send, and of what limiters send. */
const delays = { 'messages 2.5 s late': [2_500, 2_500], 'pushes 5 s late': [0, 5_000] } as const;

export interface QuotaRun {
  readonly limit: number;
  readonly windowSeconds: number;
  /** Of the limit, of all Envoys together. */
  readonly demand: number;
  /** Parts of the demand, one for each Envoy. */
  readonly skew: readonly number[];
  /** Requests come at random times, instead of evenly. */
  readonly isPoisson: boolean;
  /** Of these times. */
  readonly seed: number;
  /** Whole windows that are measured, once all Envoys have an assignment. */
  readonly windows: number;
  /** What happens in the middle of the last window; messages are slow from the first on. */
  readonly fault?: 'limiter killed' | 'Redis restarted' | keyof typeof delays;
}

export interface QuotaFigures {
  /** Of each window, in its order: requests that passed. */
  readonly admitted: readonly number[];
  /** The most that passed beyond the limit in a window. */
  readonly over: number;
  /** Of the limit, from the second window on. */
  readonly used: number;
  /** Seconds of one Envoy in which it had demand, and nothing passed, from the second window on. */
  readonly emptySeconds: number;
  /** Of what each Envoy got, from the second window on: 1 where all got the same part of their demand. */
  readonly jain: number;
  /** Until the first request passed, and how many were rejected before. */
  readonly firstMs: number;
  readonly firstOverLimit: number;
  /** Limiters that had ended when the last window was over. */
  readonly limitersEnded: number;
}

export interface QuotaPrograms {
  readonly envoy: string;
  readonly redis: string;
}

export async function runQuota(run: QuotaRun, programs: QuotaPrograms): Promise<QuotaFigures> {
  const site = await QuotaSite.open(run, programs);
  try {
    return await site.measure();
  } finally {
    await site.close();
  }
}

/** What one Envoy was asked. */
interface Asked {
  readonly port: number;
  readonly agent: Agent;
  /** By the second: requests, and those that passed. */
  readonly asked: Map<number, number>;
  readonly passed: Map<number, number>;
}

class QuotaSite {
  readonly #run: QuotaRun;
  readonly #folder = mkdtempSync(join(tmpdir(), 'weir-quota-'));
  #redis: RedisServer | undefined;
  readonly #limiters: LimiterProcess[] = [];
  readonly #proxies: TcpProxy[] = [];
  readonly #envoys: EnvoyProcess[] = [];
  readonly #clients: Asked[] = [];

  constructor(run: QuotaRun) {
    this.#run = run;
  }

  static async open(run: QuotaRun, { envoy, redis }: QuotaPrograms): Promise<QuotaSite> {
    const site = new QuotaSite(run);
    try {
      await site.#start(envoy, redis);
      return site;
    } catch (error) {
      await site.close();
      throw error;
    }
  }

  async #start(envoyPath: string, redisPath: string): Promise<void> {
    const { limit, windowSeconds, skew } = this.#run;
    mkdirSync(join(this.#folder, 'config'));
    const rule = `{ requests_per_unit: ${limit}, window: ${windowSeconds}s }`;
    const rules = `domain: edge\ndescriptors:\n  - key: name\n    rate_limit: ${rule}\n`;
    writeFileSync(join(this.#folder, 'config/edge.yaml'), rules);
    this.#redis = await startRedis({ path: redisPath, args: ['--appendonly', 'yes'] });
    for (let n = 0; n < 2; n++) {
      this.#limiters.push(
        await startLimiter({
          env: {
            ...{
              BACKEND_TYPE: 'redis',
              REDIS_SOCKET_TYPE: 'tcp',
              REDIS_URL: `127.0.0.1:${this.#redis.port}`,
            },
            ...{ RLQS: 'true', RUNTIME_ROOT: this.#folder, RUNTIME_APPDIRECTORY: 'config' },
          },
        }),
      );
    }
    const kinds = { '': { ...deniedAtFirst, ...deniedAfterwards } };
    for (const n of skew.keys()) {
      const port = await freePort();
      const proxy = await TcpProxy.to(this.#limiters[n % this.#limiters.length]!.ports.grpc);
      this.#proxies.push(proxy);
      this.#envoys.push(
        await startEnvoy(
          envoyPath,
          quotaEnvoyConfig({ listenPort: port, serverPort: proxy.port, domain: 'edge', kinds }),
        ),
      );
      const agent = new Agent({ keepAlive: true, maxSockets: 16 });
      this.#clients.push({ port, agent, asked: new Map(), passed: new Map() });
    }
  }

  async measure(): Promise<QuotaFigures> {
    const { limit, windowSeconds, windows, fault } = this.#run;
    const { firstMs, firstOverLimit } = await this.#open();
    const windowMs = windowSeconds * 1_000;
    const beginMs = Math.ceil(Date.now() / windowMs) * windowMs;
    const endMs = beginMs + windows * windowMs;
    if (fault === 'messages 2.5 s late' || fault === 'pushes 5 s late') {
      const [there, back] = delays[fault];
      for (const proxy of this.#proxies) proxy.delay(there, back);
    }
    const faulted = this.#faultAt(endMs - windowMs / 2);
    await Promise.all(this.#clients.map((client, n) => this.#demand(client, this.#run.skew[n]!, endMs)));
    await faulted;
    const limitersEnded = this.#limiters.filter(({ program }) => !program.running).length;
    const [first, last] = [beginMs / 1_000, endMs / 1_000];
    const passedIn = (from: number, to: number, client?: Asked): number =>
      (client === undefined ? this.#clients : [client]).reduce(
        (sum, { passed }) => sum + sumBetween(passed, from, to),
        0,
      );
    const admitted = Array.from({ length: windows }, (_, n) =>
      passedIn(first + n * windowSeconds, first + (n + 1) * windowSeconds),
    );
    // The first window is the one in which what is needed was learned.
    const from = windows > 1 ? first + windowSeconds : first;
    const parts = this.#clients.map(
      (client) => passedIn(from, last, client) / Math.max(1, sumBetween(client.asked, from, last)),
    );
    const squares = parts.reduce((sum, part) => sum + part ** 2, 0);
    const sum = parts.reduce((total, part) => total + part, 0);
    return {
      admitted,
      over: Math.max(0, ...admitted.map((one) => one - limit)),
      used: passedIn(from, last) / (limit * Math.round((last - from) / windowSeconds)),
      emptySeconds: this.#clients.reduce((total, client) => total + emptySeconds(client, from, last), 0),
      jain: sum ** 2 / (parts.length * squares),
      ...{ firstMs, firstOverLimit, limitersEnded },
    };
  }

  /** Until each Envoy has its first assignment. */
  async #open(): Promise<Pick<QuotaFigures, 'firstMs' | 'firstOverLimit'>> {
    const beginMs = performance.now();
    let firstOverLimit = 0;
    await Promise.all(
      this.#clients.map((client) =>
        eventually(
          async () => {
            if (await this.#ask(client)) return;
            firstOverLimit += 1;
            throw new Error('no assignment came');
          },
          { intervalMs: 5, timeoutMs: 20_000 },
        ),
      ),
    );
    return { firstMs: performance.now() - beginMs, firstOverLimit };
  }

  /** Begins before the first window, so that what is needed is known. */
  async #demand(client: Asked, part: number, endMs: number): Promise<void> {
    const { limit, windowSeconds, demand, isPoisson, seed } = this.#run;
    const random = seededRandom(seed);
    const perMs = (limit * demand * part) / windowSeconds / 1_000;
    let nextMs = Date.now();
    const under: Promise<unknown>[] = [];
    while (Date.now() < endMs) {
      for (; nextMs <= Date.now(); nextMs += (isPoisson ? -Math.log(1 - random()) : 1) / perMs)
        under.push(this.#ask(client));
      await sleep(5);
      if (under.length > 1_000) await Promise.all(under.splice(0));
    }
    await Promise.all(under);
  }

  #ask({ port, agent, asked, passed }: Asked): Promise<boolean> {
    add(asked);
    return new Promise((resolve) => {
      get({ host: '127.0.0.1', port, agent, headers: { 'x-bucket': 'x' } }, (response) => {
        const isPassed = response.statusCode === 200;
        if (isPassed) add(passed);
        response.resume();
        response.on('end', () => resolve(isPassed));
      }).on('error', () => resolve(false));
    });
  }

  async #faultAt(atMs: number): Promise<void> {
    const { fault } = this.#run;
    await sleep(Math.max(0, atMs - Date.now()));
    if (fault === 'limiter killed') await this.#limiters[0]!.program.stop('SIGKILL');
    else if (fault === 'Redis restarted') {
      await this.#redis!.kill('SIGKILL');
      await this.#redis!.start();
    }
  }

  async close(): Promise<void> {
    for (const { agent } of this.#clients) agent.destroy();
    await Promise.all(this.#envoys.map((envoy) => envoy.stop()));
    await Promise.all(this.#proxies.map((proxy) => proxy.close()));
    await Promise.all(this.#limiters.map((limiter) => limiter.stop()));
    await this.#redis?.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function add(counts: Map<number, number>): void {
  const second = Math.floor(Date.now() / 1_000);
  counts.set(second, (counts.get(second) ?? 0) + 1);
}

function sumBetween(counts: ReadonlyMap<number, number>, from: number, to: number): number {
  let sum = 0;
  for (let second = from; second < to; second++) sum += counts.get(second) ?? 0;
  return sum;
}

/** With enough demand that some of it should have passed. */
function emptySeconds({ asked, passed }: Asked, from: number, to: number): number {
  let empty = 0;
  for (let second = from; second < to; second++) {
    if ((asked.get(second) ?? 0) >= 2 && (passed.get(second) ?? 0) === 0) empty += 1;
  }
  return empty;
}
