import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { LoadedDeadline } from './machine-load.ts';
import { outOfTime } from './second-tries.ts';

export interface ChildProgramOptions {
  command: string;
  args: readonly string[];
  env?: NodeJS.ProcessEnv;
  cwd?: string;
  /** Signals go to everything it starts as well, as a terminal's Ctrl-C does. */
  group?: boolean;
}

/** For a program of ours whose environment is its own: where Node keeps what it compiled. */
export function compileCache(): NodeJS.ProcessEnv {
  const folder = process.env['NODE_COMPILE_CACHE'];
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: folder };
}

/** A program started by a test: what it prints is kept, waited for by pattern, and it ends with `stop`, by its pid. */
export class ChildProgram {
  readonly process: ChildProcess;
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  #output = '';
  #stdout = '';
  #exited = false;
  readonly #group: boolean;
  readonly #waiting = new Set<() => void>();

  constructor(options: ChildProgramOptions) {
    this.#group = options.group === true;
    this.process = spawn(options.command, options.args, {
      env: { ...(options.env === undefined ? process.env : compileCache()), ...options.env },
      cwd: options.cwd,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: this.#group,
    });
    this.process.stdout?.on('data', (chunk) => this.#keep(String(chunk), true));
    this.process.stderr?.on('data', (chunk) => this.#keep(String(chunk), false));
    this.ended = once(this.process, 'close').then(([code, signal]) => {
      // Before whoever waits for the end goes on, and stops it.
      this.#exited = true;
      return { code, signal };
    });
    this.ended
      .catch(() => {})
      .finally(() => {
        this.#exited = true;
        for (const check of this.#waiting) check();
      });
    this.process.on('error', (error) => this.#keep(`${error.message}\n`, false));
  }

  get pid(): number {
    if (this.process.pid === undefined) throw new Error(`not started: ${this.#output}`);
    return this.process.pid;
  }

  get running(): boolean {
    return !this.#exited;
  }

  /** Everything printed so far on both streams. */
  get output(): string {
    return this.#output;
  }

  get stdout(): string {
    return this.#stdout;
  }

  /** Waits until the output matches; rejects with the output when the program ends first, or time is up, multiplied by the machine's load. */
  async printed(pattern: RegExp, timeoutMs = 20_000): Promise<RegExpExecArray> {
    const match = (): RegExpExecArray | null => pattern.exec(this.#output);
    const found = match();
    if (found !== null) return found;
    return new Promise((resolve, reject) => {
      const finish = (settle: () => void): void => {
        clearInterval(timer);
        this.#waiting.delete(check);
        settle();
      };
      const failure = (why: string): Error =>
        new Error(`${why} before it printed ${pattern}; it printed:\n${this.#output}`);
      const check = (): void => {
        const now = match();
        if (now !== null) finish(() => resolve(now));
        else if (this.#exited) finish(() => reject(failure('the program ended')));
      };
      const deadline = new LoadedDeadline(timeoutMs);
      const timer = setInterval(
        () => {
          if (deadline.isOver) finish(() => reject(outOfTime(failure(`${timeoutMs} ms passed`))));
        },
        Math.min(timeoutMs, 250),
      );
      this.#waiting.add(check);
      check();
    });
  }

  /** Sends the signal and waits for the end; after 10 s, multiplied by the machine's load, it is killed. */
  async stop(
    signal: NodeJS.Signals = 'SIGTERM',
  ): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    this.#kill(signal);
    const deadline = new LoadedDeadline(10_000);
    const timer = setInterval(() => {
      if (deadline.isOver) this.#kill('SIGKILL');
    }, 250);
    const end = await this.ended;
    clearInterval(timer);
    return end;
  }

  /** Stops it until `SIGCONT`. The signal is there at once, but a thread on another core may answer something yet: it is waited for. */
  async pause(): Promise<void> {
    this.#kill('SIGSTOP');
    while (!this.#exited && !isStopped(this.pid)) await sleep(1);
  }

  /** Goes on after `pause`. */
  resume(): void {
    this.#kill('SIGCONT');
  }

  #kill(signal: NodeJS.Signals): void {
    if (!this.#exited) process.kill(this.#group ? -this.pid : this.pid, signal);
  }

  #keep(text: string, isStdout: boolean): void {
    this.#output += text;
    if (isStdout) this.#stdout += text;
    for (const check of this.#waiting) check();
  }
}

/** Whether all its threads are; true where the system has no /proc. proc(5), /proc/pid/stat. */
function isStopped(pid: number): boolean {
  const threads = `/proc/${pid}/task`;
  if (!existsSync(threads)) return true;
  try {
    return readdirSync(threads).every((thread) => {
      const stat = readFileSync(`${threads}/${thread}/stat`, 'latin1');
      return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T');
    });
  } catch {
    // One of them ended meanwhile.
    return false;
  }
}

/** The command and arguments that run these in the cgroup that has this `cgroup.procs`. */
export function inCgroup(cgroupProcs: string, command: readonly string[]): string[] {
  return ['sh', '-c', 'echo $$ > "$0" && exec "$@"', cgroupProcs, ...command];
}
