/** Lines that all processes of Weir log with the same text, one function each. */
import type { ShutdownListener } from '../time/shutdown.ts';
import type { Logger } from './logger.ts';

export function settingRejected(log: Logger, error: { readonly message: string }): void {
  log.fatal(error.message);
}

export function settingWarning(log: Logger, warning: string): void {
  log.warn(warning);
}

/** See `enforceMinimumTls`. */
export function verificationStays(log: Logger): void {
  log.warn('NODE_TLS_REJECT_UNAUTHORIZED=0 is ignored: the certificates of servers are verified');
}

/** A message that a library would have printed outside of the log. */
export function libraryWarning(log: Logger, text: string): void {
  log.warn(text);
}

export function shutdownLines(log: Logger): ShutdownListener {
  let isInOrder = true;
  return {
    signaled: (signal, drainDelayMs) => log.warn('Shutting down after a signal', { signal, drainDelayMs }),
    stepFailed: (step, error) => {
      isInOrder = false;
      log.error('Could not shut down a part', { step, error });
    },
    stepTookTooLong: (step, timeoutMs) => {
      isInOrder = false;
      log.error('A part did not shut down in time', { step, timeoutMs });
    },
    forced: (signal) => log.warn('Ending at once after a second signal', { signal }),
    finished: () => log.info(isInOrder ? 'Shut down' : 'Ended'),
  };
}

/** For a file that programs import but that was passed to Node: without this line it would end silently, as if it had succeeded. */
export function reportNotRun(file: string, command: string): void {
  process.stderr.write(`${file} cannot be started directly: run "bin/weir ${command}" instead\n`);
  process.exitCode = 2;
}
