import { ChildProgram, inCgroup } from './child-program.ts';
import { weirProgram } from './weir-program.ts';

/** In a process of its own, or in the test's (in-process-control-plane.ts). */
export interface RunningControlPlane {
  program: Pick<ChildProgram, 'output' | 'printed'>;
  ports: { xds: number; http: number };
  stop(): Promise<unknown>;
}

export interface ControlPlaneProcess extends RunningControlPlane {
  program: ChildProgram;
  pid: number;
  stop(): Promise<void>;
}

export interface ControlPlaneProcessOptions {
  /** Settings besides the ones that a test always wants: loopback and any free port. */
  env: Record<string, string>;
  /** What runs instead of this checkout's program, for the packed package. */
  entry?: string;
  /** Runs the control plane in the cgroup that has this `cgroup.procs`. */
  cgroupProcs?: string;
}

/** Starts a control plane without waiting for its listeners. The environment is the options' alone, but for PATH. */
export function spawnControlPlane(options: ControlPlaneProcessOptions): ChildProgram {
  const node = [process.execPath, options.entry ?? weirProgram, 'control-plane'];
  const [command, ...args] = options.cgroupProcs === undefined ? node : inCgroup(options.cgroupProcs, node);
  return new ChildProgram({
    command: command as string,
    args,
    env: {
      PATH: process.env['PATH'],
      HOST: '127.0.0.1',
      PORT: '0',
      XDS_HOST: '127.0.0.1',
      XDS_PORT: '0',
      API_HOST: '127.0.0.1',
      API_PORT: '0',
      ...options.env,
    },
  });
}

/** Starts a control plane and waits until its listeners are open. */
export async function startControlPlane(options: ControlPlaneProcessOptions): Promise<ControlPlaneProcess> {
  const program = spawnControlPlane(options);
  const port = async (name: string): Promise<number> => {
    const [, text] = await program.printed(new RegExp(`Listening for ${name} on '[^']*:(\\d+)'`));
    return Number(text);
  };
  try {
    const ports = { http: await port('HTTP'), xds: await port('xDS') };
    return { program, pid: program.pid, ports, stop: async () => void (await program.stop()) };
  } catch (error) {
    await program.stop('SIGKILL');
    throw error;
  }
}
