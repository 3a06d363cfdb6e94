/**
 * Settings of statistics and their sinks. A part of the table in `settings.ts`; settings of a single sink may be in files beside this
 * one.
 */
import { z } from 'zod';
import { requestPath } from '../../process/http/text-response.ts';
import {
  bool,
  choice,
  duration,
  integer,
  listenAddress,
  port,
  type SettingKind,
  textOf,
} from '../../process/settings/settings-kinds.ts';
import type { SettingNeed } from '../../process/settings/settings-needs.ts';
import type { SettingsError, SettingsTable } from '../../process/settings/settings-reader.ts';
import { tagPairs } from './settings-pairs.ts';

const dayMs = 24 * 3_600_000;

const notDisabled: readonly SettingNeed[] = [
  { name: 'DISABLE_STATS', is: [false], otherwise: 'statistics go nowhere' },
];
/** If it is not set, it is true unless there is another sink. */
const toStatsd: SettingNeed = { name: 'USE_STATSD', is: [true, undefined] };
const toReceiver: readonly SettingNeed[] = [
  { name: 'USE_PROMETHEUS', is: [false] },
  { ...toStatsd, or: { name: 'USE_DOG_STATSD', is: [true] } },
];

/** A boolean that may be unset, which has its own meaning. */
function optionalBool(): SettingKind<boolean | undefined> {
  const { expected, brief, schema } = bool();
  return { expected, brief, schema, format: (value) => (value === undefined ? 'unset' : String(value)) };
}

/** The host of a receiver. Empty is this machine, as in Node and Go. */
function receiverHost(): SettingKind<string> {
  return textOf(
    'a host name or IP address without port, which is STATSD_PORT',
    'host or IP address',
    z.string().regex(/^(?![^:]*:\d*$)[^\s/[\]]*$/),
  );
}

export const statsSettings = {
  useStatsd: {
    name: 'USE_STATSD',
    needs: notDisabled,
    kind: optionalBool(),
    default: undefined as boolean | undefined,
    summary:
      'Send statistics to a statsd receiver. Unset: yes, unless another of these is true. If it is false and no other is true, the limiter writes statistics to standard output.',
  },
  useDogStatsd: {
    name: 'USE_DOG_STATSD',
    needs: notDisabled,
    kind: bool(),
    summary: 'Send statistics with tags to a dogstatsd receiver over UDP, at the same host and port.',
  },
  usePrometheus: {
    name: 'USE_PROMETHEUS',
    needs: notDisabled,
    kind: bool(),
    summary: 'Serve statistics to Prometheus.',
  },
  disableStats: {
    name: 'DISABLE_STATS',
    kind: bool(),
    summary: 'Send no statistics, regardless of other settings. `/stats` still shows them.',
  },
  statsdHost: {
    name: 'STATSD_HOST',
    needs: toReceiver,
    kind: receiverHost(),
    default: 'localhost',
    summary: 'Host of the statsd or dogstatsd receiver.',
  },
  statsdPort: {
    name: 'STATSD_PORT',
    needs: toReceiver,
    kind: port({ min: 1 }),
    default: 8125,
    summary: 'Its port.',
  },
  statsdProtocol: {
    name: 'STATSD_PROTOCOL',
    needs: [{ name: 'USE_PROMETHEUS', is: [false] }, { name: 'USE_DOG_STATSD', is: [false] }, toStatsd],
    kind: choice({ values: ['tcp', 'udp'] }),
    default: 'tcp',
    summary: 'Protocol for a statsd receiver; dogstatsd always uses UDP.',
  },
  statsFlushIntervalMs: {
    name: 'STATS_FLUSH_INTERVAL',
    kind: duration({ min: 10, max: dayMs }),
    default: 10_000,
    summary: 'How often the limiter sends counters and gauges.',
  },
  extraTags: {
    name: 'EXTRA_TAGS',
    kind: tagPairs(),
    default: [],
    summary:
      'Tags of all statistics: a suffix of names for statsd and `/stats`, tags for dogstatsd, labels for Prometheus.',
  },
  sanitizeDescriptorMetricDots: {
    name: 'SANITIZE_DESCRIPTOR_METRIC_DOTS',
    kind: bool(),
    summary:
      'Replace dots in keys and values of descriptors by `_` in names of statistics. Dots in the domain stay.',
  },
  statsMaxDetailedMetrics: {
    name: 'STATS_MAX_DETAILED_METRICS',
    kind: integer({ min: 0, max: 1_000_000 }),
    default: 5_000,
    summary:
      'Maximum number of metric keys with values of requests. Idle ones make room, and the limiter counts the rest together. See [statistics](statistics.md#a-metric-per-value). Not in the Go service.',
  },
} as const satisfies SettingsTable;

export type SinkName = 'none' | 'statsd' | 'dogstatsd' | 'prometheus' | 'output';

interface Choice {
  useStatsd?: boolean | undefined;
  useDogStatsd?: boolean;
  usePrometheus?: boolean;
  disableStats?: boolean;
}

/** Returns the sink of statistics. */
export function sinkOf({ useStatsd, useDogStatsd, usePrometheus, disableStats }: Choice): SinkName {
  if (disableStats === true) return 'none';
  if (useDogStatsd === true) return 'dogstatsd';
  if (usePrometheus === true) return 'prometheus';
  return useStatsd === false ? 'output' : 'statsd';
}

/** Reports more than one sink, with the text of the Go service. As there, DISABLE_STATS comes before all. */
export function statsSettingsProblems(settings: Choice): SettingsError[] {
  if (settings.disableStats === true) return [];
  const { useStatsd, useDogStatsd, usePrometheus } = settings;
  if ([useStatsd, useDogStatsd, usePrometheus].filter((chosen) => chosen === true).length < 2) return [];
  return [
    {
      variable: useDogStatsd === true ? 'USE_DOG_STATSD' : 'USE_PROMETHEUS',
      message:
        'Error: unable to use more than one stats sink at the same time. Set one of USE_DOG_STATSD, USE_STATSD, USE_PROMETHEUS.',
    },
  ];
}

/** A path that requires no redirect. */
function urlPath(): SettingKind<string> {
  const expected = 'a path that begins with /, such as /metrics, without query, //, . and ..';
  const isClean = (value: string): boolean =>
    value.startsWith('/') && !/[?#]/.test(value) && requestPath(value)?.clean === value;
  return textOf(expected, 'path', z.string().refine(isClean, expected));
}

const toPrometheus: SettingNeed = { name: 'USE_PROMETHEUS', is: [true] };

/** The endpoint for Prometheus. */
export const prometheusGroup = {
  title: 'Prometheus',
  needs: [toPrometheus],
  settings: {
    prometheusAddress: {
      name: 'PROMETHEUS_ADDR',
      kind: listenAddress(),
      default: { host: '', port: 9090 },
      summary: 'Address that Prometheus scrapes. If the port is in use, the limiter does not start.',
    },
    prometheusPath: {
      name: 'PROMETHEUS_PATH',
      kind: urlPath(),
      default: '/metrics',
      summary: 'Path that Prometheus scrapes.',
    },
    prometheusResponseTimeAsMilliseconds: {
      name: 'PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS',
      needs: [toPrometheus, { name: 'PROMETHEUS_MAPPER_YAML', is: 'unset' }],
      kind: bool(),
      summary: 'Leave response_time in milliseconds in the built-in mapping, with the same name.',
    },
  } satisfies SettingsTable,
} as const;
