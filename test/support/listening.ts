import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ChildProgram } from './child-program.ts';
import { outOfTime } from './second-tries.ts';

/** The program, once it takes connections on this port of 127.0.0.1; stopped when it does not in time. */
export async function listening(program: ChildProgram, port: number): Promise<ChildProgram> {
  const deadlineMs = performance.now() + 20_000;
  while (!(await takesConnections(port))) {
    if (!program.running) throw new Error(`it ended before it listened on ${port}:\n${program.output}`);
    if (performance.now() > deadlineMs) {
      await program.stop('SIGKILL');
      throw outOfTime(new Error(`it does not listen on ${port}:\n${program.output}`));
    }
    await sleep(20);
  }
  return program;
}

function takesConnections(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('error', () => resolve(false));
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
  });
}
