import { text } from '../../process/settings/settings-kinds.ts';
import type { SettingsOf } from '../../process/settings/settings-reader.ts';

export const rows = {
  profilesFile: {
    name: 'PROFILES_FILE',
    kind: text(),
    summary:
      'YAML file of [profiles](forward-auth.md), which turn requests of proxies other than Envoy into descriptors, read again when it changes. Empty: `RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/profiles.yaml`, if it exists. Not in the Go service.',
  },
} as const;

/** The setting of the file, and the settings that say where rule files are. */
export interface ForwardAuthSettings extends SettingsOf<typeof rows> {
  readonly runtimeRoot: string;
  readonly runtimeSubdirectory: string;
}
