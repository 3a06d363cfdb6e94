/** The streams and environment of a command, taken from the process or from a test. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Readable, Writable } from 'node:stream';

/** The parts of the process that a command uses. */
export interface CommandIo {
  /** A descriptor or path, for commands that read all of standard input at once. */
  readonly stdinFile: number | string;
  readonly stdin: Readable & { isTTY?: boolean | undefined };
  readonly stdout: Writable & { isTTY?: boolean | undefined };
  readonly stderr: Writable & { isTTY?: boolean | undefined };
  readonly env: NodeJS.ProcessEnv;
  /** The name by which the user calls the program, if it is not `weir`. */
  readonly program?: string;
  /** The path of the program that was started. */
  readonly started: string;
  /** Paths in arguments are relative to this folder. */
  cwd(): string;
  /** Calls `listener` at the first signal of this name. */
  once(signal: 'SIGINT' | 'SIGTERM', listener: () => void): unknown;
  /** Ends the process, also if connections are open. */
  exit(status: number): void;
}

export const processIo: CommandIo = {
  stdinFile: 0,
  get stdin() {
    return process.stdin;
  },
  get stdout() {
    return process.stdout;
  },
  get stderr() {
    return process.stderr;
  },
  env: process.env,
  started: process.argv[1] ?? '',
  cwd: () => process.cwd(),
  once: (signal, listener) => process.once(signal, listener),
  exit: (status) => process.exit(status),
};

const running = new AsyncLocalStorage<CommandIo>();

/** Returns the io of the running command. */
export function io(): CommandIo {
  return running.getStore() ?? processIo;
}

/**
 * Runs a command in which `io()` returns the given one. Several commands may run at a time. The io of the process itself is not stored,
 * because a limiter would carry it along with every request.
 */
export function withIo<T>(given: CommandIo, run: () => T): T {
  return given === processIo ? run() : running.run(given, run);
}

/** Returns the name by which the user calls the running program: `weir`, or `kubectl weir`. */
export function programName(): string {
  return io().program ?? 'weir';
}

/** Prints a line to standard output. */
export function printLine(text: string): void {
  io().stdout.write(`${text}\n`);
}
