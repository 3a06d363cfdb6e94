import { ChildProgram, inCgroup } from './child-program.ts';
import { weirProgram } from './weir-program.ts';

/** In a process of its own, or in the test's (in-process-limiter.ts). */
export interface RunningLimiter {
  program: Pick<ChildProgram, 'output' | 'printed'>;
  ports: { grpc: number; http: number; debug: number };
  stop(): Promise<unknown>;
}

export interface LimiterProcess extends RunningLimiter {
  program: ChildProgram;
  pid: number;
  stop(): Promise<void>;
}

export interface LimiterProcessOptions {
  /** Settings besides the ones that a test always wants: loopback, any free port, nothing exported. */
  env: Record<string, string>;
  /** What runs instead of this checkout's program, for the packed package. */
  entry?: string;
  /** Of Node itself, before the program's name. */
  nodeArguments?: readonly string[];
  /** Runs the limiter on this core, where the system has `taskset`. */
  core?: number;
  /** Runs the limiter in the cgroup that has this `cgroup.procs`. */
  cgroupProcs?: string;
}

/** Starts a limiter without waiting for its listeners. The environment is the options' alone, but for PATH. */
export function spawnLimiter(options: LimiterProcessOptions): ChildProgram {
  const node = [process.execPath, ...(options.nodeArguments ?? []), options.entry ?? weirProgram, 'limiter'];
  const onCore = options.core === undefined ? node : ['taskset', '-c', String(options.core), ...node];
  const command = options.cgroupProcs === undefined ? onCore : inCgroup(options.cgroupProcs, onCore);
  return new ChildProgram({
    command: command[0] as string,
    args: command.slice(1),
    env: {
      PATH: process.env['PATH'],
      HOST: '127.0.0.1',
      PORT: '0',
      GRPC_HOST: '127.0.0.1',
      GRPC_PORT: '0',
      DEBUG_HOST: '127.0.0.1',
      DEBUG_PORT: '0',
      USE_STATSD: 'false',
      RUNTIME_WATCH_ROOT: 'false',
      ...options.env,
    },
  });
}

/** Starts a limiter and waits until all its listeners are open. */
export async function startLimiter(options: LimiterProcessOptions): Promise<LimiterProcess> {
  const program = spawnLimiter(options);
  const port = async (name: string): Promise<number> => {
    const [, text] = await program.printed(new RegExp(`Listening for ${name} on '[^']*:(\\d+)'`));
    return Number(text);
  };
  try {
    const ports = { debug: await port('debug'), grpc: await port('gRPC'), http: await port('HTTP') };
    return { program, pid: program.pid, ports, stop: async () => void (await program.stop()) };
  } catch (error) {
    await program.stop('SIGKILL');
    throw error;
  }
}
