import type { LogFields, Logger, LogLevel } from '../../process/log/logger.ts';
import type { LogLevelName } from './messages.ts';

/** From the least important: what LOG_LEVEL names silences everything before it. */
const ranks: Readonly<Record<LogLevel, number>> = {
  trace: 0,
  debug: 1,
  info: 2,
  warn: 3,
  warning: 3,
  error: 4,
  fatal: 5,
  panic: 5,
};

/** A log whose lines are written by another thread. Lines below the level do not leave this one. */
export function createPostedLog(
  level: LogLevel,
  post: (level: LogLevelName, message: string, fields: LogFields | undefined) => void,
): Logger {
  const isEnabled = (one: LogLevelName): boolean => ranks[one] >= ranks[level];
  const write =
    (one: LogLevelName) =>
    (message: string, fields?: LogFields): void => {
      if (isEnabled(one)) post(one, message, fields && plainFields(fields));
    };
  return {
    fatal: write('fatal'),
    error: write('error'),
    warn: write('warn'),
    info: write('info'),
    debug: write('debug'),
    isEnabled,
  };
}

/** Errors would lose their kind on the way, and what is neither text nor number might not be taken at all. */
function plainFields(fields: LogFields): LogFields {
  const plain: LogFields = {};
  for (const [key, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    if (value instanceof Error) plain[key] = value.message;
    else plain[key] = typeof value === 'object' || typeof value === 'function' ? plainValue(value) : value;
  }
  return plain;
}

/** What JSON makes of it. */
function plainValue(value: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(value));
  } catch {
    return String(value);
  }
}
