/** The log interface of every part of a process; `pino-logger.ts` writes the lines. */

/** Fields have constant keys and variable values. The message itself should be constant. */
export type LogFields = Record<string, unknown>;

export interface Logger {
  /** Reports why the process ends. */
  fatal(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  /** Writes at the level info, and is shown whenever warnings are: the lines of a normal start. */
  announce(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  debug(message: string, fields?: LogFields): void;
  /** Whether a level is enabled, for lines that are expensive to build. */
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

/** Returns a logger whose lines also have these fields, after their own. */
export function withFields(log: Logger, always: LogFields): Logger {
  return loggerOf(
    (level, message, fields) => log[level](message, { ...fields, ...always }),
    (level) => log.isEnabled(level),
  );
}
