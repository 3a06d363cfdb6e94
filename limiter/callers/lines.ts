/** Log lines about callers. They contain no part of a token. */
import type { Logger } from '../../process/log/logger.ts';

/** A warning if the previous file could not be used, so that the end of the problem is as visible as its start. */
export function callersLoaded(
  log: Logger,
  file: { path: string; callers: number },
  wasLastRejected: boolean,
): void {
  log[wasLastRejected ? 'warn' : 'info']('Callers are in force', file);
}

/** `reason` lists all mistakes with their places. */
export function callersRejected(log: Logger, reason: string): void {
  log.error('The callers file cannot be used: the last valid one stays in force', { reason });
}

/** Warns that tokens of the file may be visible at a listener without TLS that other machines can reach. */
export function tokensInPlainText(
  log: Logger,
  listener: { listener: 'gRPC' | 'HTTP'; address: string; setting: string },
): void {
  log.warn('Others on the network can read tokens of callers: the listener has no TLS', listener);
}

/**
 * Logged at most once a minute for each caller and kind of rejection. `times` counts the rejections since the last line,
 * including this one.
 */
export function callerRejected(
  log: Logger,
  rejected: { caller: string; peer: string; counter: string; reason: string; times: number },
): void {
  log.warn('Rejected a request because of its caller', rejected);
}
