/** Log lines about overrides. */
import { error, info, warn } from '../../process/log/log-line.ts';

export const lines = {
  overridesLoaded: info<{ overrides: number }>('Overrides of files are in force'),
  /** The files before were rejected. */
  overridesValidAgain: warn<{ overrides: number }>('The files of overrides are valid again'),
  overridesRejected: error<{ problems: readonly string[]; total: number }>(
    'The files of overrides cannot be used: the last valid ones stay in force',
  ),
  overridesGivenBack: warn<{ overrides: number }>(
    'The store came back without overrides: wrote those that this limiter knew',
  ),
};
