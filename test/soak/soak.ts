/** A limiter under load: meanwhile its rules change six times and more, Redis goes away once, and its memory is measured. */
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { seededRandom } from '../../bench/zipf.ts';
import { eventually } from '../support/eventually.ts';
import { InspectedProcess, type LiveMemory } from '../support/inspected-process.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';
import { machineLoad } from '../support/machine-load.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { soakRules } from './soak-calls.ts';
import { SoakLoad } from './soak-load.ts';

export interface SoakReport {
  answered: number;
  /** While Redis was away. */
  failed: number;
  /** What was wrong, the first of them in words. */
  faultCount: number;
  faults: string[];
  connectionsOpened: number;
  /** At the end, that the limiter says. */
  connectionsLeft: number;
  rulesLoaded: number;
  /** What every run has to have at least once. */
  happened: SoakEvents;
  /** At equal distances, the first after a fifth of the time, with the caches full. */
  memory: LiveMemory[];
  exitCode: number | null;
  /** What the limiter printed that it does not print in peace. */
  complaints: string[];
}

export interface SoakEvents {
  /** Calls that failed while Redis was away. */
  failedCalls: number;
  /** Calls whose answer was decided by a version of the rules that came during the run. */
  newRules: number;
  /** Calls of counted keys that their limit rejected. */
  reachedLimits: number;
  /** Connections that took all their calls and ended before the load stopped. */
  connectionsEnded: number;
}

export interface SoakOptions {
  redisPath: string;
  seed: number;
  durationMs: number;
  /** Reported now and then. */
  progress?: (line: string) => void;
}

/** Rules change, and Redis is away, for a part of the run; in a long run, for so long at most. */
const reloadEvery = { part: 1 / 6, maxMs: 10_000 };
const samples = 5;
const redisAway = { part: 1 / 15, maxMs: 2_000 };
/** After Redis is back, until the limiter asks it again: connections are made anew, its breaker has to see it. */
const recovery = { part: 1 / 4, maxMs: 10_000 };

const spanOf = (durationMs: number, { part, maxMs }: { part: number; maxMs: number }): number =>
  Math.min(maxMs, durationMs * part);

export async function soak(options: SoakOptions): Promise<SoakReport> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-soak-'));
  const redis = await startRedis({ path: options.redisPath, args: ['--appendonly', 'yes'] });
  try {
    writeRules(folder, 0);
    const limiter = await startLimiter({
      env: {
        NODE_OPTIONS: '--inspect=127.0.0.1:0',
        REDIS_SOCKET_TYPE: 'tcp',
        REDIS_URL: `127.0.0.1:${redis.port}`,
        RUNTIME_ROOT: folder,
        RUNTIME_APPDIRECTORY: '.',
        // A busy machine keeps a Redis waiting that is well.
        STORE_BREAKER_SILENCE: `${Math.min(1_900, Math.round(700 * machineLoad()))}ms`,
        // On standard output each call would be a line.
        USE_PROMETHEUS: 'true',
        PROMETHEUS_ADDR: '127.0.0.1:0',
      },
    });
    try {
      return await soakLimiter(limiter, redis, folder, options);
    } finally {
      await limiter.stop();
    }
  } finally {
    await redis.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function soakLimiter(
  limiter: LimiterProcess,
  redis: RedisServer,
  folder: string,
  { seed, durationMs, progress = () => {} }: SoakOptions,
): Promise<SoakReport> {
  const inspected = await InspectedProcess.of(limiter.program);
  const load = new SoakLoad(limiter.ports.grpc, seededRandom(seed));
  let version = 0;
  const reloads = setInterval(
    () => {
      load.calls.wrote(++version);
      writeRules(folder, version);
    },
    spanOf(durationMs, reloadEvery),
  );
  const memory: LiveMemory[] = [];
  try {
    load.start();
    const restarted = sleep(durationMs * 0.4).then(() => restart(redis, load, durationMs));
    for (let i = 0; i < samples; i++) {
      await sleep(durationMs / samples);
      memory.push(await inspected.liveMemory());
      const { answered, failed, faultCount } = load;
      progress(
        `${answered} answered, ${failed} failed, ${faultCount} faults, ${JSON.stringify(memory.at(-1))}`,
      );
    }
    await restarted;
  } finally {
    clearInterval(reloads);
    await load.stop();
    inspected.close();
  }
  const { answered, failed, faults, faultCount, opened: connectionsOpened } = load;
  const statistics = await settledStatistics(limiter);
  const { code: exitCode } = await limiter.program.stop();
  const complaints = complaintsIn(limiter.program.output);
  return {
    answered,
    failed,
    faultCount,
    faults,
    connectionsOpened,
    ...statistics,
    happened: load.happened,
    memory,
    exitCode,
    complaints,
  };
}

/** A file half written would be rejected. */
function writeRules(folder: string, version: number): void {
  writeFileSync(join(folder, '.new'), soakRules(version));
  renameSync(join(folder, '.new'), join(folder, 'soak.yaml'));
}

/** Politely, so that every count is in its file. */
async function restart(redis: RedisServer, load: SoakLoad, durationMs: number): Promise<void> {
  load.mayFail = true;
  await redis.kill('SIGTERM');
  await sleep(spanOf(durationMs, redisAway));
  await redis.start();
  await sleep(spanOf(durationMs, recovery) * machineLoad());
  load.mayFail = false;
}

/** Ends of connections are noticed a moment later. */
async function settledStatistics(
  limiter: LimiterProcess,
): Promise<{ connectionsLeft: number; rulesLoaded: number }> {
  const read = async (name: string): Promise<number> => {
    const text = await (await fetch(`http://127.0.0.1:${limiter.ports.debug}/stats`)).text();
    return Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${name}: `))
        ?.slice(name.length + 2),
    );
  };
  let connectionsLeft = Number.NaN;
  await eventually(
    async () => {
      connectionsLeft = await read('ratelimit_server.http2.connections');
      if (connectionsLeft > 0) throw new Error('connections left');
    },
    { timeoutMs: 3_000 },
  ).catch(() => {});
  return { connectionsLeft, rulesLoaded: await read('ratelimit.service.config_load_success') };
}

/** Lines of the runtime and of its own that report a fault inside. */
function complaintsIn(output: string): string[] {
  return output
    .split('\n')
    .filter((line) => /unhandled|uncaught|level=(fatal|panic)|Warning:|fault/i.test(line));
}
