/** What is logged of callers. No line has anything of a token. */
import type { Logger } from '../../process/log/logger.ts';

/** After a file that could not be used it is a warning: the trouble is over. */
export function callersLoaded(
  log: Logger,
  file: { path: string; callers: number },
  lastWasRefused: boolean,
): void {
  log[lastWasRefused ? 'warn' : 'info']('Callers are in force', file);
}

/** `reason` has every mistake with its place. */
export function callersRefused(log: Logger, reason: string): void {
  log.error('The callers file cannot be used: the last good one stays in force', { reason });
}

/** Tokens of the file may be shown at a listener without TLS that others than this machine reach. */
export function tokensInPlainText(
  log: Logger,
  listener: { listener: 'gRPC' | 'HTTP'; address: string; setting: string },
): void {
  log.warn('Tokens of callers can be read on their way: the listener answers without TLS', listener);
}

/** At most once a minute for each caller and kind of refusal; `times` counts those since the last line, it included. */
export function callerRefused(
  log: Logger,
  refused: { caller: string; peer: string; counter: string; reason: string; times: number },
): void {
  log.warn('A request was refused for who asks', refused);
}
