/** Writes the log of the process in the Go service's two formats: text (logrus' key=value lines) and JSON. */
import { type DestinationStream, pino } from 'pino';
import { type Clock, systemClock } from '../time/clock.ts';
import { BackgroundWriter } from './background-writer.ts';
import { type LogFields, type LogFormat, type Logger, type LogLevel, loggerOf } from './logger.ts';
import { processLines } from './process-lines.ts';

/** One line of LOG_FORMAT=text: `time="2026-01-02T03:04:05Z" level=warning msg="..." key=value`. */
interface LogLine {
  timeMs: number;
  level: string;
  message: string;
  fields: Record<string, unknown>;
}

function formatLogLine(line: LogLine): string {
  const time = `${new Date(line.timeMs).toISOString().slice(0, 19)}Z`;
  let text = `time="${time}" level=${line.level} msg=${quote(line.message)}`;
  for (const [key, value] of Object.entries(line.fields)) text += ` ${key}=${formatValue(value)}`;
  return `${text}\n`;
}

/** Text that logrus does not quote. */
const bare = /^[A-Za-z0-9\-._/@^+]+$/;
/** Characters that JSON does not escape, but that are unsafe in a terminal. */
const unprintable = /[\u007f-\u009f\u2028\u2029]/g;

function formatValue(value: unknown): string {
  const text = typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value);
  return bare.test(text) ? text : quote(text);
}

function quote(text: string): string {
  return JSON.stringify(text).replace(
    unprintable,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Takes whole lines, including the newline. */
export interface LogDestination {
  write(line: string): void;
}

/** The text that waits in memory while standard error is not read. */
const maxWaiting = 4 * 1024 * 1024;
let ofProcess: BackgroundWriter | undefined;

/** One writer for all logs of the process, which writes its last lines when the process ends. */
function standardError(): BackgroundWriter {
  if (ofProcess === undefined) {
    const writer = new BackgroundWriter({ fd: 2, maxWaiting });
    process.on('exit', () => writer.end());
    ofProcess = writer;
  }
  return ofProcess;
}

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

export function createLogger(options: {
  level: LogLevel;
  format: LogFormat;
  clock: Clock;
  /** Defaults to standard error, written in the background, at the latest when the process exits. */
  destination?: LogDestination;
}): Logger {
  const destination = options.destination ?? standardError();
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
  const announcer = log.isLevelEnabled('warn') ? log.child({}, { level: 'info' }) : log;
  return loggerOf(
    (level, message, fields) => {
      const [by, as] = level === 'announce' ? ([announcer, 'info'] as const) : ([log, level] as const);
      if (fields === undefined) by[as](message);
      else by[as](plainFields(fields), message);
    },
    (level) => log.isLevelEnabled(level),
  );
}

/** pino stores its arguments on a stream that asks for it, so that text need not be parsed from JSON. */
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

/** Replaces errors by their message: stacks are for a debugger, and other properties may contain secrets. */
function plainFields(fields: LogFields): LogFields {
  const plain: LogFields = {};
  for (const [key, value] of Object.entries(fields)) {
    if (value !== undefined) plain[key] = value instanceof Error ? value.message : value;
  }
  return plain;
}

/** Opens the log of a process according to its settings, and logs their warnings, or why they cannot be used. */
export function openLog(
  parsed: {
    readonly settings?: { readonly logLevel: LogLevel; readonly logFormat: LogFormat } | undefined;
    readonly warnings: readonly string[];
    readonly errors?: readonly { readonly message: string }[] | undefined;
  },
  host: {
    readonly env: Readonly<Record<string, string | undefined>>;
    readonly clock?: Clock;
    readonly logDestination?: LogDestination;
  },
): Logger {
  const isJson = host.env['LOG_FORMAT']?.toLowerCase() === 'json';
  const { logLevel: level, logFormat: format } = parsed.settings ?? {
    logLevel: 'warn',
    logFormat: isJson ? 'json' : 'text',
  };
  const { clock = systemClock, logDestination: destination } = host;
  const log = createLogger({ level, format, clock, ...(destination && { destination }) });
  for (const warning of parsed.warnings) processLines.settingWarning(log, { text: warning });
  for (const error of parsed.errors ?? []) processLines.settingRejected(log, error);
  return log;
}
