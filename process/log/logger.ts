/** What the process has to say, in the Go service's two formats: text (logrus' key=value lines) and JSON. */
import { type DestinationStream, pino } from 'pino';
import type { Clock } from '../time/process-clock.ts';
import { formatLogLine } from './logger-text.ts';

/** Fields are constant keys with variable values; the message itself is constant where it can be. */
export type LogFields = Record<string, unknown>;

export interface Logger {
  /** Why the process ends. */
  fatal(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
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

/** Takes whole lines, newline included. */
export interface LogDestination {
  write(line: string): void;
}

export interface LoggerOptions {
  level: LogLevel;
  format: LogFormat;
  clock: Clock;
  /** Defaults to standard error, written in the background and at the latest when the process exits. */
  destination?: LogDestination;
}

/** Lines wait in memory up to here when standard error is not read; further ones are dropped. */
const maxWaitingBytes = 4 * 1024 * 1024;

const pinoLevels = {
  panic: 'fatal',
  fatal: 'fatal',
  error: 'error',
  warn: 'warn',
  warning: 'warn',
  info: 'info',
  debug: 'debug',
  trace: 'trace',
} as const satisfies Record<LogLevel, string>;

export function createLogger(options: LoggerOptions): Logger {
  const destination =
    options.destination ?? pino.destination({ fd: 2, sync: false, maxLength: maxWaitingBytes });
  const log = pino(
    {
      level: pinoLevels[options.level],
      base: null,
      messageKey: '@message',
      timestamp: () => `,"@timestamp":"${new Date(options.clock.nowMs()).toISOString()}"`,
      formatters: { level: (label) => ({ level: levelName(label) }) },
    },
    options.format === 'json' ? destination : textStream(options.clock, destination),
  );
  const write =
    (level: 'fatal' | 'error' | 'warn' | 'info' | 'debug') => (message: string, fields?: LogFields) => {
      if (fields === undefined) log[level](message);
      else log[level](plainFields(fields), message);
    };
  return {
    fatal: write('fatal'),
    error: write('error'),
    warn: write('warn'),
    info: write('info'),
    debug: write('debug'),
    isEnabled: (level) => log.isLevelEnabled(level),
  };
}

/** pino leaves what it was given on a stream that asks for it, so that text need not be parsed back from JSON. */
function textStream(clock: Clock, destination: LogDestination): DestinationStream {
  const stream = {
    [Symbol.for('pino.metadata')]: true,
    lastLevel: 0,
    lastMsg: '',
    lastObj: undefined as LogFields | undefined,
    write() {
      const level = levelName(pino.levels.labels[this.lastLevel] ?? '');
      destination.write(
        formatLogLine({ timeMs: clock.nowMs(), level, message: this.lastMsg, fields: this.lastObj ?? {} }),
      );
    },
  };
  return stream;
}

function levelName(label: string): string {
  return label === 'warn' ? 'warning' : label;
}

/** Errors as their message: their stacks are for a debugger, their other properties may hold secrets. */
function plainFields(fields: LogFields): LogFields {
  const plain: LogFields = {};
  for (const [key, value] of Object.entries(fields)) {
    if (value !== undefined) plain[key] = value instanceof Error ? value.message : value;
  }
  return plain;
}
