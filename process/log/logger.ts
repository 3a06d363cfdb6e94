/** What every part of a process logs by; `pino-logger.ts` writes it. */

/** Fields are constant keys with variable values; the message itself is constant where it can be. */
export type LogFields = Record<string, unknown>;

export interface Logger {
  /** Why the process ends. */
  fatal(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  /** At the level info, and shown wherever warnings are: what a normal start says. */
  announce(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  debug(message: string, fields?: LogFields): void;
  /** For lines that are costly to put together. */
  isEnabled(level: 'error' | 'warn' | 'info' | 'debug'): boolean;
}

/** Levels as LOG_LEVEL names them, lower-cased. `panic` and `fatal` silence everything below them. */
export const logLevels = ['panic', 'fatal', 'error', 'warn', 'warning', 'info', 'debug', 'trace'] as const;
export type LogLevel = (typeof logLevels)[number];

export const logFormats = ['text', 'json'] as const;
export type LogFormat = (typeof logFormats)[number];

export type LogLevelName = 'fatal' | 'error' | 'warn' | 'announce' | 'info' | 'debug';

export function loggerOf(
  write: (level: LogLevelName, message: string, fields: LogFields | undefined) => void,
  isEnabled: Logger['isEnabled'],
): Logger {
  return {
    fatal: (message, fields) => write('fatal', message, fields),
    error: (message, fields) => write('error', message, fields),
    warn: (message, fields) => write('warn', message, fields),
    announce: (message, fields) => write('announce', message, fields),
    info: (message, fields) => write('info', message, fields),
    debug: (message, fields) => write('debug', message, fields),
    isEnabled,
  };
}

/** A logger whose lines all have these fields as well, behind their own. */
export function withFields(log: Logger, always: LogFields): Logger {
  return loggerOf(
    (level, message, fields) => log[level](message, { ...fields, ...always }),
    (level) => log.isEnabled(level),
  );
}
