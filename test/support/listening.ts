import { connect } from 'node:net';
import type { ChildProgram } from './child-program.ts';
import { untilTrue } from './machine-load.ts';

/** The program, once it takes connections on this port of 127.0.0.1; stopped when it does not in time. */
export async function listening(program: ChildProgram, port: number): Promise<ChildProgram> {
  const isListening = async (): Promise<boolean> => {
    if (await takesConnections(port)) return true;
    if (!program.running) throw new Error(`it ended before it listened on ${port}:\n${program.output}`);
    return false;
  };
  const failure = (): Error => new Error(`it does not listen on ${port}:\n${program.output}`);
  try {
    await untilTrue(isListening, { timeoutMs: 20_000, intervalMs: 20, failure });
  } catch (error) {
    await program.stop('SIGKILL');
    throw error;
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
