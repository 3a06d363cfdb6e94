import type { LogFields, Logger } from './logger.ts';

/** A logger whose lines all have these fields as well, behind their own. */
export function withFields(log: Logger, always: LogFields): Logger {
  return {
    fatal: (message, fields) => log.fatal(message, { ...fields, ...always }),
    error: (message, fields) => log.error(message, { ...fields, ...always }),
    warn: (message, fields) => log.warn(message, { ...fields, ...always }),
    info: (message, fields) => log.info(message, { ...fields, ...always }),
    debug: (message, fields) => log.debug(message, { ...fields, ...always }),
    isEnabled: (level) => log.isEnabled(level),
  };
}
