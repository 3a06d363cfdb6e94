/**
 * Measures latency at 5,000 calls per second while rules are reloaded every second and metrics are sent every second. An idle process on
 * the same core shows the pauses that the machine itself causes.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { eventually } from '../test/support/eventually.ts';
import { type Cores, startScript, startWeir } from './bench-targets.ts';
import type { LoadOptions } from './http2-load.ts';
import { runLoad } from './http2-load.ts';
import type { LoopPauses } from './loop-pauses.ts';

export interface LatencyFigures {
  perSecond: number;
  failed: number;
  p50Ms: number;
  p99Ms: number;
  p999Ms: number;
  limiter: LoopPauses;
  idle: LoopPauses;
  /** The number of reloads that the limiter counted. */
  reloads: number;
}

export interface LatencyOptions {
  /** A folder for this measurement. */
  folder: string;
  /** Returns the text of rules with this version, including the domain of the load. */
  rulesText: (version: number) => string;
  redisPort: number | undefined;
  cores: Cores | undefined;
  load: Pick<LoadOptions, 'opening' | 'calls' | 'sequence'>;
  durationMs: number;
}

const perSecond = 5_000;
const script = fileURLToPath(new URL('./loop-pauses.ts', import.meta.url));

export async function measureLatency(options: LatencyOptions): Promise<LatencyFigures> {
  const { folder, cores, redisPort, durationMs } = options;
  const statsd = createServer((socket) => socket.on('error', () => {}).resume());
  await new Promise<void>((resolve) => statsd.listen(0, '127.0.0.1', resolve));
  const [limiterFile, idleFile] = [join(folder, 'limiter.json'), join(folder, 'idle.json')];
  const rules = join(folder, 'rules');
  writeRules(rules, options.rulesText(0));
  const limiter = await startWeir({
    rules,
    redisPort,
    cores,
    env: {
      NODE_OPTIONS: `--import=${script}`,
      BENCH_PAUSES: limiterFile,
      USE_PROMETHEUS: 'false',
      USE_STATSD: 'true',
      STATSD_HOST: '127.0.0.1',
      STATSD_PORT: String((statsd.address() as AddressInfo).port),
      STATS_FLUSH_INTERVAL: '1s',
    },
  });
  const idle = startScript('./loop-pauses.ts', cores, { BENCH_PAUSES: idleFile });
  try {
    await idle.printed(/idle/);
    const load = { port: limiter.port, connections: 8, streams: 200, perSecond, ...options.load };
    await runLoad({ ...load, durationMs: 2_000 });
    await Promise.all([pausesOf(limiter.pid, limiterFile), pausesOf(idle.pid, idleFile)]);
    const loadsBefore = await loadsOf(limiter.debugPort);
    let version = 0;
    const reload = setInterval(() => writeRules(rules, options.rulesText(++version)), 1_000);
    const result = await runLoad({ ...load, durationMs }).finally(() => clearInterval(reload));
    return {
      perSecond: Math.round(result.answered / result.seconds),
      failed: result.failed,
      p50Ms: result.latency.quantileMs(0.5),
      p99Ms: result.latency.quantileMs(0.99),
      p999Ms: result.latency.quantileMs(0.999),
      limiter: await pausesOf(limiter.pid, limiterFile),
      idle: await pausesOf(idle.pid, idleFile),
      reloads: (await loadsOf(limiter.debugPort)) - loadsBefore,
    };
  } finally {
    await idle.stop();
    await limiter.stop();
    statsd.close();
  }
}

/** Replaces the file in one step, because the limiter would reject a partly written file. */
function writeRules(folder: string, text: string): void {
  writeFileSync(`${folder}.new`, text);
  renameSync(`${folder}.new`, join(folder, 'bench.yaml'));
}

/** Returns the pauses since the previous query. */
async function pausesOf(pid: number, file: string): Promise<LoopPauses> {
  rmSync(file, { force: true });
  process.kill(pid, 'SIGUSR2');
  let pauses: LoopPauses | undefined;
  await eventually(() => {
    pauses = JSON.parse(readFileSync(file, 'utf8')) as LoopPauses;
  });
  return pauses as LoopPauses;
}

/** Returns the number of times that the limiter loaded new rules. */
async function loadsOf(debugPort: number): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${debugPort}/stats`)).text();
  return Number(/^ratelimit\.service\.config_load_success: (\d+)$/m.exec(text)?.[1]);
}
