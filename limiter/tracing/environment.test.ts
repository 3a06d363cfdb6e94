import { describe, expect, it } from 'vitest';
import { parseLimiterSettings } from '../settings/settings.ts';
import { tracingUrl } from './settings.ts';

const on = { TRACING_ENABLED: 'true' };

describe('OTEL_* that have no effect', () => {
  it.each([
    [{}, []],
    [{ OTEL_SDK_DISABLED: 'true', OTEL_LOG_LEVEL: '' }, []],
    [
      { OTEL_PROPAGATORS: 'b3', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318' },
      ['without TRACING_ENABLED=true these have no effect: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_PROPAGATORS'],
    ],
    [{ ...on, OTEL_EXPORTER_OTLP_ENDPOINT: 'https://c:4318', OTEL_PROPAGATORS: 'b3' }, []],
    [
      { ...on, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc', OTEL_TRACES_SAMPLER: 'always_on' },
      [
        'OTEL_EXPORTER_OTLP_PROTOCOL is ignored: TRACING_EXPORTER_PROTOCOL is',
        'OTEL_TRACES_SAMPLER is ignored: TRACING_SAMPLING_RATE is',
      ],
    ],
    [
      { ...on, OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' },
      ['OTEL_EXPORTER_OTLP_ENDPOINT must begin with http:// or https:// and a host'],
    ],
    [{ ...on, TRACING_EXPORTER_PROTOCOL: 'grpc', OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4317' }, []],
  ])('are reported: %j', (env, warnings) => {
    expect(parseLimiterSettings(env).warnings).toEqual(warnings);
  });
});

describe('the address of the collector', () => {
  it.each([
    ['http', {}, 'http://localhost:4318/v1/traces'],
    ['grpc', {}, 'http://localhost:4317'],
    ['http', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:1/' }, 'http://c:1/v1/traces'],
    ['grpc', { OTEL_EXPORTER_OTLP_ENDPOINT: 'c:1' }, 'c:1'],
    [
      'http',
      { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:1', OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://d:2/own' },
      'http://d:2/own',
    ],
    [
      'http',
      { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://user:pass@d/own?token=x' },
      'https://*****@d/own',
    ],
    ['http', { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://u:p/a?s#s@d/own' }, 'https://*****@d/own'],
  ] as const)('over %s with %j is %s', (tracingExporterProtocol, env, url) => {
    expect(tracingUrl({ tracingEnabled: true, tracingExporterProtocol }, env)).toBe(url);
  });
});
