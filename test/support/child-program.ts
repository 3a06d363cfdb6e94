import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { endWithUs } from './end-with-us.ts';
import { LoadedDeadline, untilTrue } from './machine-load.ts';
import { PrintedText } from './printed-text.ts';

export interface ChildProgramOptions {
  command: string;
  args: readonly string[];
  env?: NodeJS.ProcessEnv;
  cwd?: string;
  /** Signals go to everything it starts as well, as a terminal's Ctrl-C does. */
  group?: boolean;
}

/** The variables of this run that a program with its own environment needs: the cache of compiled code, and the temporary folder. */
export function runVariables(): NodeJS.ProcessEnv {
  const variables = ['NODE_COMPILE_CACHE', 'TMPDIR'].map((name) => [name, process.env[name]]);
  return Object.fromEntries(variables.filter(([, value]) => value !== undefined));
}

/** A program started by a test: what it prints is kept, waited for by pattern, and it ends with `stop`, by its pid, or with this process. */
export class ChildProgram {
  readonly process: ChildProcess;
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  readonly #printed = new PrintedText();
  #stdout = '';
  #exited = false;
  readonly #group: boolean;

  constructor(options: ChildProgramOptions) {
    this.#group = options.group === true;
    this.process = spawn(options.command, options.args, {
      env: { ...(options.env === undefined ? process.env : runVariables()), ...options.env },
      cwd: options.cwd,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: this.#group,
    });
    endWithUs(this.process, { group: this.#group });
    this.process.stdout?.on('data', (chunk) => this.#keep(String(chunk), true));
    this.process.stderr?.on('data', (chunk) => this.#keep(String(chunk), false));
    this.ended = once(this.process, 'close').then(([code, signal]) => {
      // Before anyone who waits for the end goes on, and stops it.
      this.#exited = true;
      return { code, signal };
    });
    this.ended
      .catch(() => {})
      .finally(() => {
        this.#exited = true;
        this.#printed.end();
      });
    this.process.on('error', (error) => this.#keep(`${error.message}\n`, false));
  }

  get pid(): number {
    if (this.process.pid === undefined) throw new Error(`not started: ${this.#printed.output}`);
    return this.process.pid;
  }

  get running(): boolean {
    return !this.#exited;
  }

  /** Everything printed so far on both streams. */
  get output(): string {
    return this.#printed.output;
  }

  get stdout(): string {
    return this.#stdout;
  }

  /** Waits until the output matches; rejects with the output when the program ends first, or time is up, multiplied by the machine's load. */
  printed(pattern: RegExp, timeoutMs?: number): Promise<RegExpExecArray> {
    return this.#printed.printed(pattern, timeoutMs);
  }

  /** Waits until it does `what`; rejects with the output when the program ends first, or time is up, multiplied by the machine's load. */
  async startsTo(what: string, isReady: () => Promise<boolean>, timeoutMs = 10_000): Promise<void> {
    const command = this.process.spawnfile;
    await untilTrue(
      async () => {
        if (!this.running) throw new Error(`${command} ended before it could ${what}:\n${this.output}`);
        return isReady();
      },
      {
        timeoutMs,
        intervalMs: 20,
        failure: () => new Error(`${command} did not ${what} in time:\n${this.output}`),
      },
    );
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
    if (isStdout) this.#stdout += text;
    this.#printed.add(text);
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
