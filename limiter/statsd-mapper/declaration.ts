/** PROMETHEUS_MAPPER_YAML: maps statistics to metrics of Prometheus, in the language of statsd_exporter. */
import type { Capability } from '../capabilities/capability.ts';
import { type MapperSettings, mapperFileOf, mapperSettings } from './settings.ts';

export const statsdMapper = {
  name: 'statsd-mapper',
  settings: {
    title: 'Prometheus',
    before: 'prometheusResponseTimeAsMilliseconds',
    rows: mapperSettings,
  },
  isWanted: (settings) => mapperFileOf(settings) !== '',
  load: () => import('./threads.ts'),
} as const satisfies Capability<MapperSettings>;
