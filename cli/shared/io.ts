/** Where a command reads and prints, and what it knows of its surroundings: those of the process, or others that tests give. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Readable, Writable } from 'node:stream';

/** What a command uses of the process that runs it. */
export interface CommandIo {
  /** As a descriptor or a path, for who reads all of it at once. */
  readonly stdinFile: number | string;
  readonly stdin: Readable & { isTTY?: boolean | undefined };
  readonly stdout: Writable & { isTTY?: boolean | undefined };
  readonly stderr: Writable & { isTTY?: boolean | undefined };
  readonly env: NodeJS.ProcessEnv;
  /** What its user calls the program, if not `weir`. */
  readonly program?: string;
  /** The file of the program that was started. */
  readonly started: string;
  /** Paths of arguments are relative to it. */
  cwd(): string;
  /** Calls `listener` at the first signal of this name. */
  once(signal: 'SIGINT' | 'SIGTERM', listener: () => void): unknown;
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
};

const running = new AsyncLocalStorage<CommandIo>();

/** Of the command that runs. */
export function io(): CommandIo {
  return running.getStore() ?? processIo;
}

/**
 * Runs a command, in which `io()` is the one given. Several may run at a time. For the process's own nothing is stored: a limiter
 * would carry it along with every request.
 */
export function withIo<T>(given: CommandIo, run: () => T): T {
  return given === processIo ? run() : running.run(given, run);
}

/** What the user calls the program that runs: `weir`, or `kubectl weir`. */
export function programName(): string {
  return io().program ?? 'weir';
}

/** Prints a line to standard output. */
export function printLine(text: string): void {
  io().stdout.write(`${text}\n`);
}
