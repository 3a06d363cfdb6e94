import { text } from '../../process/settings/settings-kinds.ts';
import type { SettingsOf } from '../../process/settings/settings-reader.ts';

export const mapperSettings = {
  prometheusMapperYaml: {
    name: 'PROMETHEUS_MAPPER_YAML',
    kind: text(),
    summary:
      'File that maps statistics to metrics, in the language of statsd_exporter. If the file is invalid, the limiter does not start. Empty: the [built-in mapping](prometheus.md).',
  },
} as const;

export type MapperSettings = SettingsOf<typeof mapperSettings>;

/** Returns the path. Empty if there is no file. */
export function mapperFileOf({ prometheusMapperYaml }: MapperSettings): string {
  return prometheusMapperYaml;
}
