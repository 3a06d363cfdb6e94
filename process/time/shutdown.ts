/**
 * The orderly end of a process:
 *
 *   running ──signal──> unhealthy, draining ──delay──> step 1 ──> step 2 ... ──> exit 0
 *                            └──────────── second signal ────────────┴──> exit 1 at once
 *
 * A signal that is repeated within a moment counts once: a Ctrl-C reaches a program both from the terminal and from the npm
 * that started it.
 *
 * Each step is bounded in time; one that fails or takes too long is reported, and the next one begins.
 */
import type { Timers } from './clock.ts';

export interface ShutdownStep {
  /** For log lines: `gRPC listener`. */
  readonly name: string;
  readonly timeoutMs: number;
  run(): Promise<void> | void;
}

export interface ShutdownListener {
  signaled(signal: ShutdownSignal, drainDelayMs: number): void;
  stepFailed(step: string, error: unknown): void;
  stepTookTooLong(step: string, timeoutMs: number): void;
  /** Called when a second signal came. The process ends right after this. */
  forced(signal: ShutdownSignal): void;
  finished(): void;
}

const shutdownSignals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
export type ShutdownSignal = (typeof shutdownSignals)[number];

/** The part of Node's `process` that is used. */
export interface SignalSource {
  on(signal: ShutdownSignal, listener: () => void): unknown;
}

interface ShutdownOptions {
  signals: SignalSource;
  timers: Timers;
  /** The time for which the process continues to answer after the signal. Read when the signal comes. */
  drainDelayMs(): number;
  /** Called first, so that callers use other processes while this one still answers. */
  markUnhealthy(): void;
  /** The steps, which run one after another. */
  steps: readonly ShutdownStep[];
  exit(code: number): void;
  listener: ShutdownListener;
}

/** Chosen: far shorter than a person takes to repeat a signal, and far longer than the time between two deliveries of one signal. */
const sameSignalMs = 500;

/** Waits for the first signal. Resolves when the exit was called. */
export function shutdownOnSignal(options: ShutdownOptions): Promise<void> {
  return new Promise((resolve) => {
    let begun = false;
    let again = false;
    let forced = false;
    const onSignal = (signal: ShutdownSignal) => {
      if (begun) {
        if (forced || !again) return;
        forced = true;
        options.listener.forced(signal);
        options.exit(1);
        resolve();
        return;
      }
      begun = true;
      const callOff = options.timers.after(sameSignalMs, () => {
        again = true;
      });
      options.markUnhealthy();
      const drainDelayMs = options.drainDelayMs();
      options.listener.signaled(signal, drainDelayMs);
      void endInOrder(options, drainDelayMs, () => forced).then(() => {
        callOff();
        resolve();
      });
    };
    for (const signal of shutdownSignals) options.signals.on(signal, () => onSignal(signal));
  });
}

async function endInOrder(
  options: ShutdownOptions,
  drainDelayMs: number,
  forced: () => boolean,
): Promise<void> {
  if (drainDelayMs > 0) {
    await new Promise<void>((resolve) => {
      options.timers.after(drainDelayMs, resolve);
    });
  }
  for (const step of options.steps) {
    if (forced()) return;
    await runStep(step, options);
  }
  if (forced()) return;
  options.listener.finished();
  options.exit(0);
}

/** Resolves when the step does or its time is up. Never rejects. */
function runStep(step: ShutdownStep, { timers, listener }: ShutdownOptions): Promise<void> {
  return new Promise((resolve) => {
    let over = false;
    const end = (report: () => void) => {
      if (over) return;
      over = true;
      cancel();
      report();
      resolve();
    };
    const cancel = timers.after(step.timeoutMs, () =>
      end(() => listener.stepTookTooLong(step.name, step.timeoutMs)),
    );
    Promise.try(() => step.run()).then(
      () => end(() => {}),
      (error: unknown) => end(() => listener.stepFailed(step.name, error)),
    );
  });
}
