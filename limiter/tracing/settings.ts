/**
 * TRACING_* and the OTEL_* variables that Weir reads. OpenTelemetry itself reads the exporter's variables (OTEL_EXPORTER_OTLP_*,
 * OTEL_BSP_*, OTEL_SPAN_*, OTEL_RESOURCE_ATTRIBUTES).
 */
import { randomUUID } from 'node:crypto';
import { bool, choice, float, text } from '../../process/settings/settings-kinds.ts';
import { needing, type SettingNeed } from '../../process/settings/settings-needs.ts';
import type { Environment, SettingsOf, SettingsTable } from '../../process/settings/settings-reader.ts';

const enabled: SettingNeed = { name: 'TRACING_ENABLED', is: [true] };
/** Variables of OpenTelemetry get a common warning in one line from `tracingWarnings`. */
const ofOpenTelemetry: readonly SettingNeed[] = [{ ...enabled, quiet: true }];

export const tracingSettings = needing([enabled], {
  tracingEnabled: {
    name: 'TRACING_ENABLED',
    needs: [],
    kind: bool(),
    summary: 'Export spans of calls and of the store over OTLP; see [traces](logs.md#tracing).',
  },
  tracingExporterProtocol: {
    name: 'TRACING_EXPORTER_PROTOCOL',
    kind: choice({ values: ['http', 'grpc'] }),
    default: 'http',
    summary:
      'OTLP over `http` (protobuf) or `grpc`. `OTEL_EXPORTER_OTLP_ENDPOINT` and similar variables set the target.',
  },
  tracingServiceName: {
    name: 'TRACING_SERVICE_NAME',
    kind: text(),
    default: 'RateLimit',
    summary: 'Resource attribute `service.name`.',
  },
  tracingServiceNamespace: {
    name: 'TRACING_SERVICE_NAMESPACE',
    kind: text(),
    summary: 'Resource attribute `service.namespace`; empty: none.',
  },
  tracingServiceInstanceId: {
    name: 'TRACING_SERVICE_INSTANCE_ID',
    kind: text(),
    summary: 'Resource attribute `service.instance.id`; empty: a random UUID of version 4 at each start.',
  },
  tracingSamplingRate: {
    name: 'TRACING_SAMPLING_RATE',
    kind: float({ min: 0, max: 1 }),
    default: 1,
    summary:
      'Part of the calls without a sampling decision of their caller that the limiter traces, by trace ID; 1: all.',
  },
  tracingBaggageAttributes: {
    name: 'TRACING_BAGGAGE_ATTRIBUTES',
    kind: text(),
    summary:
      'Keys of W3C baggage, separated by commas, that become attributes `baggage.<key>` of the span of a call. Not in the Go service.',
  },
  otelPropagators: {
    name: 'OTEL_PROPAGATORS',
    needs: ofOpenTelemetry,
    kind: text(),
    default: 'tracecontext,b3,baggage',
    summary:
      'Headers of callers to read: `tracecontext`, `b3` or `b3multi` (both forms), `baggage`; `none`. The later one in the list takes precedence. The Go service does not read this.',
  },
  otelSemconvStabilityOptIn: {
    name: 'OTEL_SEMCONV_STABILITY_OPT_IN',
    needs: ofOpenTelemetry,
    kind: text(),
    summary:
      'Names of RPC attributes: by default the stable ones; with `rpc/old` the old ones; with `rpc/dup` the old `rpc.system` and `rpc.service` beside the stable ones. The limiter ignores other words.',
  },
} as const satisfies SettingsTable);

export type OwnSettings = SettingsOf<typeof tracingSettings>;

export interface TracingSettings extends OwnSettings {
  /** The address to which OpenTelemetry sends spans, for the log. */
  readonly tracingUrl: string;
  readonly backendType: 'redis' | 'memcache' | 'memory';
}

/** A process has one id, even if several of its threads export spans. */
export function tracingValues(
  settings: OwnSettings,
  env: Environment,
): Pick<TracingSettings, 'tracingUrl' | 'tracingServiceInstanceId'> {
  return {
    tracingUrl: tracingUrl(settings, env),
    tracingServiceInstanceId: settings.tracingServiceInstanceId || randomUUID(),
  };
}

/** The settings on which the meaning of OTEL_* variables depends. */
interface Tracing {
  tracingEnabled: boolean;
  tracingExporterProtocol: 'http' | 'grpc';
}

const endpoint = 'OTEL_EXPORTER_OTLP_ENDPOINT';
const tracesEndpoint = 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT';

/** The setting that replaces each variable here. */
const notRead: Readonly<Record<string, string>> = {
  OTEL_EXPORTER_OTLP_PROTOCOL: 'TRACING_EXPORTER_PROTOCOL is',
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'TRACING_EXPORTER_PROTOCOL is',
  OTEL_TRACES_EXPORTER: 'TRACING_ENABLED and TRACING_EXPORTER_PROTOCOL are',
  OTEL_TRACES_SAMPLER: 'TRACING_SAMPLING_RATE is',
  OTEL_TRACES_SAMPLER_ARG: 'TRACING_SAMPLING_RATE is',
};

/** Returns sentences for the log. */
export function tracingWarnings(tracing: Tracing, env: Environment): string[] {
  const isSet = (name: string): boolean => (env[name] ?? '').trim() !== '';
  if (!tracing.tracingEnabled) {
    const names = Object.keys(env).filter((name) => /^OTEL_(?!SDK_DISABLED$)/.test(name) && isSet(name));
    return names.length === 0
      ? []
      : [`without TRACING_ENABLED=true these have no effect: ${names.sort().join(', ')}`];
  }
  const unread = Object.entries(notRead)
    .filter(([name]) => isSet(name))
    .map(([name, instead]) => `${name} is ignored: ${instead}`);
  const schemeless = [endpoint, tracesEndpoint].filter(
    (name) => isSet(name) && !/^https?:\/\/[^/]/i.test(env[name]!.trim()),
  );
  const needed = tracing.tracingExporterProtocol === 'http' ? schemeless : [];
  return [...unread, ...needed.map((name) => `${name} must begin with http:// or https:// and a host`)];
}

/** Returns the URL for the log, without user, password and query. */
export function tracingUrl({ tracingExporterProtocol: protocol }: Tracing, env: Environment): string {
  const isHttp = protocol === 'http';
  const own = env[tracesEndpoint]?.trim() ?? '';
  const general = env[endpoint]?.trim() ?? '';
  if (own !== '') return shown(own);
  if (general !== '') return shown(isHttp ? `${general.replace(/\/$/, '')}/v1/traces` : general);
  return isHttp ? 'http://localhost:4318/v1/traces' : 'http://localhost:4317';
}

function shown(url: string): string {
  return url.replace(/^([a-z][a-z\d+.-]*:\/\/)?.*@/is, '$1*****@').replace(/[?#].*$/s, '');
}
