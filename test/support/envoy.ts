import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { ChildProgram } from './child-program.ts';

export interface EnvoyProcess {
  program: ChildProgram;
  stop(): Promise<void>;
}

/** Starts Envoy with a configuration (an object, or the text of a file) and waits until its listeners are open. */
export async function startEnvoy(
  binary: string,
  config: object | string,
  { threads = 1 } = {},
): Promise<EnvoyProcess> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-envoy-'));
  const file = join(folder, typeof config === 'string' ? 'envoy.yaml' : 'envoy.json');
  writeFileSync(file, typeof config === 'string' ? config : JSON.stringify(config));
  const program = new ChildProgram({
    command: binary,
    // Access logs would come every ten seconds.
    args: [
      ...['-c', file, '--use-dynamic-base-id', '--concurrency', String(threads), '--log-level', 'info'],
      ...['--file-flush-interval-msec', '100'],
    ],
  });
  const stop = async (): Promise<void> => {
    await program.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await program.printed(/starting main dispatch loop/);
    return { program, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
