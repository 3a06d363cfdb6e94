/** The servers that `npm run bench` measures: a limiter with memory, a limiter with Redis, and two yardsticks. Each is a process. */
import { execFileSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { ChildProgram } from '../test/support/child-program.ts';
import { startLimiter } from '../test/support/limiter-process.ts';

/** The servers that the limiter is compared with: a typical gRPC server, and the minimum that any server on `node:net` needs. */
export const yardsticks = {
  echo: './echo-server.ts',
  floor: './fixed-answer-server.ts',
  'floor-redis': './fixed-answer-server.ts',
} as const;

export type Yardstick = keyof typeof yardsticks;
export type TargetName =
  | Yardstick
  | 'memory'
  | 'callers'
  | 'redis'
  | 'leases'
  /** The limiter of another checkout. */
  | 'memory-beside'
  | 'redis-beside';

export const targetTitles: Record<TargetName, string> = {
  echo: 'empty echo on node:http2',
  floor: 'floor: fixed answer on node:net',
  'floor-redis': 'floor with Redis: an INCRBY by hand',
  memory: 'weir, memory',
  callers: 'weir, memory, CALLERS_FILE',
  redis: 'weir, Redis',
  leases: 'weir, Redis, LEASES=on',
  'memory-beside': 'weir beside, memory',
  'redis-beside': 'weir beside, Redis',
};

/** Returns the floor of a target: the server that uses the least possible CPU time for the same work. */
export function floorOf(target: TargetName): Yardstick {
  return target.includes('redis') || target === 'leases' ? 'floor-redis' : 'floor';
}

export interface Target {
  name: TargetName;
  pid: number;
  port: number;
  /** True for a separate process for limits other than a fixed window, so that their counters do not affect the default figures. */
  forLimits?: boolean;
  /** Only of a floor: returns the fraction of calls that arrived alone in their turn of its event loop while `load` ran. */
  aloneDuring?: (load: () => Promise<unknown>) => Promise<number>;
  /** Only of a limiter with leases: returns the number of calls that leases have answered so far. */
  leasedCalls?: () => Promise<number>;
  stop(): Promise<unknown>;
}

/** The core of the server, and the core of everything else. */
export interface Cores {
  server: number;
  others: number;
}

/** Moves this process to the last core. Returns undefined if the system has only one core, or no `taskset`. */
export function keepOffServerCore(): Cores | undefined {
  const cores = availableParallelism();
  if (cores < 2) return undefined;
  try {
    execFileSync('taskset', ['-apc', String(cores - 1), String(process.pid)], { stdio: 'ignore' });
    return { server: 0, others: cores - 1 };
  } catch {
    return undefined;
  }
}

/** Starts a script of this folder as a separate process on the server's core. */
export function startScript(script: string, cores: Cores | undefined, env?: NodeJS.ProcessEnv): ChildProgram {
  const node = [process.execPath, fileURLToPath(new URL(script, import.meta.url))];
  const command = cores === undefined ? node : ['taskset', '-c', String(cores.server), ...node];
  return new ChildProgram({
    command: command[0] as string,
    args: command.slice(1),
    ...(env === undefined ? {} : { env: { ...process.env, ...env } }),
  });
}

export async function startYardstick(
  name: Yardstick,
  cores: Cores | undefined,
  redisPort?: number,
): Promise<Target> {
  const env = name === 'floor-redis' ? { REDIS_PORT: String(redisPort) } : undefined;
  const program = startScript(yardsticks[name], cores, env);
  const [, port] = await program.printed(/listening (\d+)/);
  const target = { name, pid: program.pid, port: Number(port), stop: () => program.stop() };
  if (name === 'echo') return target;
  let counted = 0;
  const aloneDuring = async (load: () => Promise<unknown>): Promise<number> => {
    process.kill(program.pid, 'SIGUSR2');
    await load();
    process.kill(program.pid, 'SIGUSR2');
    counted += 1;
    const [, alone, calls] = await program.printed(
      new RegExp(`(?:alone (\\d+) of (\\d+)\\n[^]*?){${counted}}`),
    );
    return Number(alone) / Number(calls);
  };
  return { ...target, aloneDuring };
}

/** The limiter exports statistics to Prometheus, because on standard output each call would be a line. */
const statistics = { USE_PROMETHEUS: 'true', PROMETHEUS_ADDR: '127.0.0.1:0' };

/** Starts a limiter with the rules in a folder. Without a Redis, it counts in memory. */
export async function startWeir(options: {
  rules: string;
  redisPort: number | undefined;
  cores: Cores | undefined;
  env?: Record<string, string>;
  /** Another checkout to use instead of this one. */
  checkout?: string;
}): Promise<Target & { debugPort: number }> {
  const { rules, redisPort, cores, checkout, env = {} } = options;
  const store: Record<string, string> =
    redisPort === undefined
      ? { BACKEND_TYPE: 'memory' }
      : { REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `127.0.0.1:${redisPort}` };
  const limiter = await startLimiter({
    env: { RUNTIME_ROOT: rules, RUNTIME_APPDIRECTORY: '.', ...store, ...statistics, ...env },
    ...(cores === undefined ? {} : { core: cores.server }),
    ...(checkout === undefined ? {} : { entry: join(checkout, 'bin/weir.js') }),
  });
  const name: TargetName = `${redisPort === undefined ? 'memory' : 'redis'}${checkout === undefined ? '' : '-beside'}`;
  const { grpc: port, debug: debugPort } = limiter.ports;
  return { name, pid: limiter.pid, port, debugPort, stop: () => limiter.stop() };
}

/** Starts a limiter with `LEASES=on`. */
export async function startLeasing(options: Parameters<typeof startWeir>[0]): Promise<Target> {
  const limiter = await startWeir({ ...options, env: { LEASES: 'on' } });
  const leasedCalls = async (): Promise<number> => {
    const text = await (await fetch(`http://127.0.0.1:${limiter.debugPort}/stats`)).text();
    const counts = [...text.matchAll(/\.leased_hits: (\d+)$/gm)];
    return counts.reduce((sum, [, count]) => sum + Number(count), 0);
  };
  return { ...limiter, name: 'leases', leasedCalls };
}
