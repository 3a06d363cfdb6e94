/** The log lines that all processes of Weir write. */
import type { ShutdownListener, ShutdownSignal } from '../time/shutdown.ts';
import { error, fatal, info, noFields, warn } from './log-line.ts';
import type { Logger } from './logger.ts';

export const processLines = {
  settingRejected: fatal<{ message: string }>(({ message }) => message, noFields),
  settingWarning: warn<{ text: string }>(({ text }) => text, noFields),
  /** See `enforceMinimumTls`. */
  verificationStays: warn(
    'NODE_TLS_REJECT_UNAUTHORIZED=0 is ignored: the certificates of servers are verified',
  ),
  /** A message that a library would have printed outside of the log. */
  libraryWarning: warn<{ text: string }>(({ text }) => text, noFields),
};

const shutdown = {
  signaled: warn<{ signal: ShutdownSignal; drainDelayMs: number }>('Shutting down after a signal'),
  stepFailed: error<{ step: string; error: unknown }>('Could not shut down a part'),
  stepTookTooLong: error<{ step: string; timeoutMs: number }>('A part did not shut down in time'),
  forced: warn<{ signal: ShutdownSignal }>('Ending at once after a second signal'),
  finished: info('Shut down'),
  /** A step failed or took too long. */
  ended: info('Ended'),
};

export function shutdownLines(log: Logger): ShutdownListener {
  let isInOrder = true;
  return {
    signaled: (signal, drainDelayMs) => shutdown.signaled(log, { signal, drainDelayMs }),
    stepFailed: (step, error) => {
      isInOrder = false;
      shutdown.stepFailed(log, { step, error });
    },
    stepTookTooLong: (step, timeoutMs) => {
      isInOrder = false;
      shutdown.stepTookTooLong(log, { step, timeoutMs });
    },
    forced: (signal) => shutdown.forced(log, { signal }),
    finished: () => (isInOrder ? shutdown.finished : shutdown.ended)(log),
  };
}

/** For a file that programs import but that was passed to Node: without this line it would end silently, as if it had succeeded. */
export function reportNotRun(file: string, command: string): void {
  process.stderr.write(`${file} cannot be started directly: run "bin/weir ${command}" instead\n`);
  process.exitCode = 2;
}
