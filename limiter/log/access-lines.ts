/** What is logged of who is let in: a part of `log-lines.ts`. No line has anything of a token. */
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

/** Off loopback, and without DEBUG_TOKEN_FILE. */
export function debugIsOpen(log: Logger, address: string): void {
  log.info(
    'The debug listener asks nobody who he is: whoever reaches it sees rules, statistics and the values that callers over their limits sent, and may take profiles; nothing can be changed there. DEBUG_TOKEN_FILE asks for a token, DEBUG_HOST=127.0.0.1 keeps others out',
    { address },
  );
}

export function debugTokenRotated(log: Logger): void {
  log.info('A new token of the debug listener is in use');
}

export function debugTokenRefused(log: Logger, reason: string): void {
  log.error('The file with the token of the debug listener cannot be used: the token before stays', {
    reason,
  });
}
