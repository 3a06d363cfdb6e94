/** Log lines about overrides. */
import type { Logger } from '../../process/log/logger.ts';

/** `isRecovered`: whether the files before were rejected. */
export function overridesLoaded(log: Logger, fields: { overrides: number }, isRecovered: boolean): void {
  if (isRecovered) log.warn('The files of overrides are valid again', fields);
  else log.info('Overrides of files are in force', fields);
}

export function overridesRejected(log: Logger, fields: { problems: readonly string[]; total: number }): void {
  log.error('The files of overrides cannot be used: the last valid ones stay in force', fields);
}

export function overridesGivenBack(log: Logger, fields: { overrides: number }): void {
  log.warn('The store came back without overrides: wrote those that this limiter knew', fields);
}
