/**
 * Lines of the log as rows of a table: a row says the level, the message and the fields of a line.
 *
 *     export const lines = {
 *       // From here on, limiters get rules.
 *       sourceListed: info<{ objects: number }>('Read the first complete list of RateLimitConfigs'),
 *       manifestProblem: error<{ place: string; text: string }>(({ place, text }) => `${place}: ${text}`, noFields),
 *     };
 *     lines.sourceListed(log, { objects: 3 });
 */
import type { LogFields, Logger, LogLevelName } from './logger.ts';

/** Writes the line. A line without fields is called with the logger alone. */
export type LogLine<Fields = void> = (log: Logger, fields: Fields) => void;

/** For lines whose message contains everything that the caller passes. */
export const noFields = (): undefined => undefined;

export const fatal = rowsAt('fatal');
export const error = rowsAt('error');
export const warn = rowsAt('warn');
/** Writes at the level info, and is shown whenever warnings are: see `Logger.announce`. */
export const announce = rowsAt('announce');
export const info = rowsAt('info');
export const debug = rowsAt('debug');

function rowsAt(level: LogLevelName) {
  /** `written`: the fields of the line, if they differ from the fields that the caller passes. */
  return <Fields = void>(
    message: string | ((fields: Fields) => string),
    written: (fields: Fields) => LogFields | undefined = asPassed,
  ): LogLine<Fields> =>
    (log, fields) =>
      log[level](typeof message === 'string' ? message : message(fields), written(fields));
}

function asPassed(fields: unknown): LogFields | undefined {
  return fields as LogFields | undefined;
}
