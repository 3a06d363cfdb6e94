/** Statistics: which, and where they go. A part of the table in `settings.ts`; what one sink alone needs may stand beside it. */
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
  text,
  textOf,
} from '../../process/settings/settings-kinds.ts';
import { needing, type SettingNeed } from '../../process/settings/settings-needs.ts';
import type { SettingsError, SettingsTable } from '../../process/settings/settings-reader.ts';
import { tagPairs } from './settings-pairs.ts';

const dayMs = 24 * 3_600_000;
const mebibyte = 1024 * 1024;

const notDisabled: readonly SettingNeed[] = [
  { name: 'DISABLE_STATS', is: [false], otherwise: 'statistics go nowhere' },
];
/** Unset is true, unless there is another sink. */
const toStatsd: SettingNeed = { name: 'USE_STATSD', is: [true, undefined] };
const toReceiver: readonly SettingNeed[] = [
  { name: 'USE_PROMETHEUS', is: [false] },
  { ...toStatsd, or: { name: 'USE_DOG_STATSD', is: [true] } },
];

/** A boolean for which it matters whether it is set. */
function optionalBool(): SettingKind<boolean | undefined> {
  const { expected, brief, schema } = bool();
  return { expected, brief, schema, format: (value) => (value === undefined ? 'unset' : String(value)) };
}

/** Where somebody else listens. Empty is this machine, as for Node and Go. */
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
      'Send statistics to a statsd receiver. Unset: so it is, unless another of these is true. false, and no other is true: they are written to standard output.',
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
    summary: 'Send statistics nowhere, whatever else is set; `/stats` shows them nevertheless.',
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
    summary: 'How to speak with a statsd receiver; dogstatsd is always UDP.',
  },
  statsFlushIntervalMs: {
    name: 'STATS_FLUSH_INTERVAL',
    kind: duration({ min: 10, max: dayMs }),
    default: 10_000,
    summary: 'How often counters and gauges are sent.',
  },
  extraTags: {
    name: 'EXTRA_TAGS',
    kind: tagPairs(),
    default: [],
    summary:
      'Tags of all statistics: at the end of names for statsd and `/stats`, tags of dogstatsd, labels for Prometheus.',
  },
  sanitizeDescriptorMetricDots: {
    name: 'SANITIZE_DESCRIPTOR_METRIC_DOTS',
    kind: bool(),
    summary: "Dots in keys and values of descriptors become `_` in names of statistics; the domain's stay.",
  },
  statsMaxDetailedMetrics: {
    name: 'STATS_MAX_DETAILED_METRICS',
    kind: integer({ min: 0, max: 1_000_000 }),
    default: 5_000,
    summary:
      'Metric keys made of values of requests that are kept at most; idle ones make room, and what finds none is counted together; see [statistics](statistics.md#a-metric-per-value). Not in the Go service.',
  },
} as const satisfies SettingsTable;

export type SinkName = 'none' | 'statsd' | 'dogstatsd' | 'prometheus' | 'output';

interface Choice {
  useStatsd?: boolean | undefined;
  useDogStatsd?: boolean;
  usePrometheus?: boolean;
  disableStats?: boolean;
}

/** Where statistics go. */
export function sinkOf({ useStatsd, useDogStatsd, usePrometheus, disableStats }: Choice): SinkName {
  if (disableStats === true) return 'none';
  if (useDogStatsd === true) return 'dogstatsd';
  if (usePrometheus === true) return 'prometheus';
  return useStatsd === false ? 'output' : 'statsd';
}

/** More than one sink, in the words of the Go service. DISABLE_STATS goes before all, as there. */
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

/** A path that no redirect leads away from. */
function urlPath(): SettingKind<string> {
  const expected = 'a path that begins with /, such as /metrics, without query, //, . and ..';
  const isClean = (value: string): boolean =>
    value.startsWith('/') && !/[?#]/.test(value) && requestPath(value)?.clean === value;
  return textOf(expected, 'path', z.string().refine(isClean, expected));
}

/** The endpoint that Prometheus scrapes. */
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
    summary:
      'File that maps statistics to metrics, in the language of statsd_exporter. A file that cannot be used ends the start. Empty: the [built-in mapping](prometheus.md).',
  },
  prometheusResponseTimeAsMilliseconds: {
    name: 'PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS',
    needs: [
      { name: 'USE_PROMETHEUS', is: [true] },
      { name: 'PROMETHEUS_MAPPER_YAML', is: 'unset' },
    ],
    kind: bool(),
    summary: 'The built-in mapping leaves response_time in milliseconds, under the same name.',
  },
} as const satisfies SettingsTable);

const anyKeys: readonly SettingNeed[] = [{ name: 'STATS_TOP_KEYS', is: 'set' }];

/** How much is kept of who is over a limit. */
export const topSettings = {
  statsTopKeys: {
    name: 'STATS_TOP_KEYS',
    kind: integer({ min: 0, max: 1_000 }),
    default: 128,
    summary:
      'Keys over their limit that `/top` holds for each domain; every key with more than one part in so many of the domain’s hits over limit is among them. 0: none are kept. See [top offenders](refusals.md#top-offenders). Not in the Go service.',
  },
  statsTopPeriodMs: {
    name: 'STATS_TOP_PERIOD',
    needs: anyKeys,
    kind: duration({ min: 1_000, max: dayMs }),
    default: 600_000,
    summary: '`/top` tells of the last one to two of these periods. Not in the Go service.',
  },
  statsTopMaxBytes: {
    name: 'STATS_TOP_MAX_BYTES',
    needs: anyKeys,
    kind: integer({ min: 4 * mebibyte, max: 1024 * mebibyte }),
    default: 16 * mebibyte,
    summary:
      'What the keys of all domains may occupy for `/top`, in each thread that answers callers; domains that were over a limit longest ago make room. Not in the Go service.',
  },
  refusalsKept: {
    name: 'REFUSALS_KEPT',
    kind: integer({ min: 0, max: 1_000_000 }),
    default: 10_000,
    summary:
      'Rows of the memory of refusals (`weir why`, `/v1/refusals`): one for each counter and second, of 512 bytes, in each thread that answers callers. 0: none are kept. See [who was refused](refusals.md#who-was-refused). Not in the Go service.',
  },
} as const satisfies SettingsTable;
