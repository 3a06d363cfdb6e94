/** The endpoint that Prometheus scrapes. A part of the table in `settings.ts`. */
import { z } from 'zod';
import { requestPath } from '../../process/http/request-path.ts';
import { bool, listenAddress, type SettingKind, text } from '../../process/settings/settings-kinds.ts';
import { needing } from '../../process/settings/settings-needs.ts';
import type { SettingsTable } from '../../process/settings/settings-reader.ts';

/** A path that no redirect leads away from. */
function urlPath(): SettingKind<string> {
  const expected = 'a path that begins with /, such as /metrics, without query, //, . and ..';
  return {
    expected,
    brief: 'path',
    schema: z.string().refine((value) => {
      const target = value.startsWith('/') && !/[?#]/.test(value) ? requestPath(value) : undefined;
      return target?.clean === value;
    }, expected),
    format: (value) => value,
  };
}

export const prometheusSettings = needing([{ name: 'USE_PROMETHEUS', is: [true] }], {
  prometheusAddress: {
    name: 'PROMETHEUS_ADDR',
    kind: listenAddress(),
    default: { host: '', port: 9090 },
    summary: 'Where Prometheus scrapes. A taken port ends the start.',
  },
  prometheusPath: {
    name: 'PROMETHEUS_PATH',
    kind: urlPath(),
    default: '/metrics',
    summary: 'The path that is scraped.',
  },
  prometheusMapperYaml: {
    name: 'PROMETHEUS_MAPPER_YAML',
    kind: text(),
    default: '',
    summary:
      'File that maps statistics to metrics, in the language of statsd_exporter. A file that cannot be used ends the start. Empty: the [built-in mapping](statistics.md#prometheus).',
  },
  prometheusResponseTimeAsMilliseconds: {
    name: 'PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS',
    needs: [
      { name: 'USE_PROMETHEUS', is: [true] },
      { name: 'PROMETHEUS_MAPPER_YAML', is: 'unset' },
    ],
    kind: bool(),
    default: false,
    summary: 'The built-in mapping leaves response_time in milliseconds, under the same name.',
  },
} as const satisfies SettingsTable);
