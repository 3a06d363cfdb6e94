import { duration, integer, text } from '../../process/settings/settings-kinds.ts';
import type { SettingsOf, SettingsTable } from '../../process/settings/settings-reader.ts';
import { defaultOverridesMaxSeconds } from '../../rules/override.ts';

export const rows = {
  overridesDir: {
    name: 'OVERRIDES_DIR',
    kind: text(),
    summary:
      'Folder with `*.yaml` and `*.yml` files of [overrides](overrides.md), read again when they change. It need not exist. Empty: `RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/overrides`. Not in the Go service.',
  },
  overridesMax: {
    name: 'OVERRIDES_MAX',
    kind: integer({ min: 0, max: 100_000 }),
    default: 10_000,
    summary:
      'Maximum number of overrides and grants of `/v1/overrides`. The limiter rejects further ones. Not in the Go service.',
  },
  overridesMaxSeconds: {
    name: 'OVERRIDES_MAX_SECONDS',
    kind: integer({ min: 1, max: 315_360_000 }),
    default: defaultOverridesMaxSeconds,
    summary:
      'Maximum time until an override from the API or a file ends. Permanent overrides do not end. Not in the Go service.',
  },
  overridesPollIntervalMs: {
    name: 'OVERRIDES_POLL_INTERVAL',
    kind: duration({ min: 100, max: 3_600_000 }),
    default: 1_000,
    summary:
      'How often a limiter checks the store for changed overrides, in case it missed the message. Not in the Go service.',
  },
} as const satisfies SettingsTable;

/** The settings of overrides, and the settings that say where rule files are. */
export interface OverrideSettings extends SettingsOf<typeof rows> {
  readonly runtimeRoot: string;
  readonly runtimeSubdirectory: string;
  readonly runtimeIgnoreDotFiles: boolean;
}
