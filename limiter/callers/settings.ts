import { text } from '../../process/settings/settings-kinds.ts';
import type { SettingsOf } from '../../process/settings/settings-reader.ts';

export const rows = {
  callersFile: {
    name: 'CALLERS_FILE',
    kind: text(),
    summary:
      'YAML file with the [rights of callers](callers.md), read again when it changes; empty: everyone who reaches a port has access. Not in the Go service.',
  },
} as const;

/** The settings of callers, and the listeners that may show tokens in plain text. */
export interface CallersSettings extends SettingsOf<typeof rows> {
  readonly grpcHost: string;
  readonly grpcPort: number;
  readonly grpcServerUseTls: boolean;
  readonly grpcUds: string;
  readonly httpHost: string;
  readonly httpPort: number;
  readonly httpServerUseTls: boolean;
}
