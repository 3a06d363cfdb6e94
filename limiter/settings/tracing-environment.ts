/** OTEL_* variables, which OpenTelemetry reads itself: where spans go by them, and which of them have no effect here. */
import type { Environment } from '../../process/settings/settings-reader.ts';

interface Tracing {
  tracingEnabled: boolean;
  tracingExporterProtocol: 'http' | 'grpc';
}

const endpoint = 'OTEL_EXPORTER_OTLP_ENDPOINT';
const tracesEndpoint = 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT';

/** What says instead what these say elsewhere. */
const notRead: Readonly<Record<string, string>> = {
  OTEL_EXPORTER_OTLP_PROTOCOL: 'TRACING_EXPORTER_PROTOCOL is',
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'TRACING_EXPORTER_PROTOCOL is',
  OTEL_TRACES_EXPORTER: 'TRACING_ENABLED and TRACING_EXPORTER_PROTOCOL are',
  OTEL_TRACES_SAMPLER: 'TRACING_SAMPLING_RATE is',
  OTEL_TRACES_SAMPLER_ARG: 'TRACING_SAMPLING_RATE is',
};

/** Sentences for the log. */
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
    .map(([name, instead]) => `${name} is not read: ${instead}`);
  const schemeless = [endpoint, tracesEndpoint].filter(
    (name) => isSet(name) && !/^https?:\/\/[^/]/i.test(env[name]!.trim()),
  );
  const needed = tracing.tracingExporterProtocol === 'http' ? schemeless : [];
  return [...unread, ...needed.map((name) => `${name} must begin with http:// or https:// and a host`)];
}

/** Without user, password and query: for the log. */
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
