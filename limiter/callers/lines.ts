/** Log lines about callers. They contain no part of a token. */
import { error, warn } from '../../process/log/log-line.ts';
import type { Logger } from '../../process/log/logger.ts';

export const lines = {
  /** A warning if the previous file could not be used, so that the end of the problem is as visible as its start. */
  callersLoaded: (log: Logger, file: { path: string; callers: number }, wasLastRejected: boolean): void =>
    log[wasLastRejected ? 'warn' : 'info']('Callers are in force', file),
  /** `reason` lists all mistakes with their places. */
  callersRejected: error<{ reason: string }>(
    'The callers file cannot be used: the last valid one stays in force',
  ),
  /** Warns that tokens of the file may be visible at a listener without TLS that other machines can reach. */
  tokensInPlainText: warn<{ listener: 'gRPC' | 'HTTP'; address: string; setting: string }>(
    'Others on the network can read tokens of callers: the listener has no TLS',
  ),
  /**
   * Logged at most once a minute for each caller and kind of rejection. `times` counts the rejections since the last line,
   * including this one.
   */
  callerRejected: warn<{ caller: string; peer: string; counter: string; reason: string; times: number }>(
    'Rejected a request because of its caller',
  ),
};
