/**
 * OpenTelemetry's SDK as a SpanMaker. The only file that loads it, and loaded itself only when tracing is on. The SDK reads
 * OTEL_EXPORTER_OTLP_*, OTEL_BSP_*, OTEL_SPAN_*, OTEL_RESOURCE_ATTRIBUTES and OTEL_SDK_DISABLED from the environment.
 */
import {
  type Context,
  createTraceState,
  diag,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { OTLPTraceExporter as GrpcExporter } from '@opentelemetry/exporter-trace-otlp-grpc';
import { OTLPTraceExporter as HttpExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { envDetector } from '@opentelemetry/resources';
import { NodeSDK } from '@opentelemetry/sdk-node';
import { AlwaysOnSampler, type IdGenerator } from '@opentelemetry/sdk-trace';
import { type DiagnosticsListener, diagnosticsTo } from './diagnostics.ts';
import type { SampledTrace } from './sampling.ts';
import type { Attributes, MadeSpan, SpanIds, SpanMaker } from './span-maker.ts';
import { type ExportListener, WatchedExporter } from './watched-exporter.ts';

export interface OpenTelemetryOptions {
  protocol: 'http' | 'grpc';
  serviceName: string;
  /** Empty: none. */
  serviceNamespace: string;
  serviceInstanceId: string;
  version: string;
  newSpanId(): string;
  listener: ExportListener & DiagnosticsListener;
}

export function startOpenTelemetry(options: OpenTelemetryOptions): SpanMaker {
  const diagnostics = diagnosticsTo(options.listener);
  diag.setLogger(diagnostics);
  const exporter = options.protocol === 'grpc' ? new GrpcExporter() : new HttpExporter();
  const ids = new GivenIds(options.newSpanId);
  // With OTEL_LOG_LEVEL the SDK sets a logger that writes to the console, and warns of one that was there.
  diag.disable();
  const sdk = new NodeSDK({
    traceExporter: new WatchedExporter(exporter, options.listener),
    // What comes here was sampled before.
    sampler: new AlwaysOnSampler(),
    idGenerator: ids,
    // Of two with an attribute the later one counts.
    resourceDetectors: [envDetector, { detect: () => ({ attributes: serviceAttributes(options) }) }],
    textMapPropagator: null,
    instrumentations: [],
    metricReaders: [],
    logRecordProcessors: [],
  });
  diag.setLogger(diagnostics, { suppressOverrideMessage: true });
  sdk.start();
  return new SdkSpanMaker(sdk, ids, trace.getTracer('weir', options.version));
}

function serviceAttributes(options: OpenTelemetryOptions): Record<string, string> {
  const { serviceName, serviceNamespace, serviceInstanceId, version } = options;
  return {
    'service.name': serviceName,
    ...(serviceNamespace === '' ? {} : { 'service.namespace': serviceNamespace }),
    'service.instance.id': serviceInstanceId,
    'service.version': version,
  };
}

/** The trace id was there before the span: it was sampled by. */
class GivenIds implements IdGenerator {
  readonly generateSpanId: () => string;
  traceId = '';

  constructor(newSpanId: () => string) {
    this.generateSpanId = newSpanId;
  }

  generateTraceId(): string {
    return this.traceId;
  }
}

class SdkSpanMaker implements SpanMaker {
  readonly #sdk: NodeSDK;
  readonly #ids: GivenIds;
  readonly #tracer: Tracer;

  constructor(sdk: NodeSDK, ids: GivenIds, tracer: Tracer) {
    this.#sdk = sdk;
    this.#ids = ids;
    this.#tracer = tracer;
  }

  server(name: string, { traceId, parent }: SampledTrace, attributes: Attributes): MadeSpan {
    this.#ids.traceId = traceId;
    const context =
      parent === undefined ? ROOT_CONTEXT : remoteContext(traceId, parent.spanId, parent.traceState);
    return new SdkSpan(this.#tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, context));
  }

  client(name: string, parent: SpanIds, attributes: Attributes): MadeSpan {
    const context = trace.setSpanContext(ROOT_CONTEXT, spanContext(parent));
    return new SdkSpan(this.#tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes }, context));
  }

  async shutdown(): Promise<void> {
    await this.#sdk.shutdown();
    trace.disable();
    diag.disable();
  }
}

function remoteContext(traceId: string, spanId: string, traceState: string): Context {
  return trace.setSpanContext(ROOT_CONTEXT, {
    ...spanContext({ traceId, spanId }),
    isRemote: true,
    ...(traceState === '' ? {} : { traceState: createTraceState(traceState) }),
  });
}

function spanContext({ traceId, spanId }: SpanIds): SpanIds & { traceFlags: TraceFlags } {
  return { traceId, spanId, traceFlags: TraceFlags.SAMPLED };
}

class SdkSpan implements MadeSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly #span: Span;

  constructor(span: Span) {
    this.#span = span;
    ({ traceId: this.traceId, spanId: this.spanId } = span.spanContext());
  }

  set(name: string, value: string | number): void {
    this.#span.setAttribute(name, value);
  }

  link(other: SpanIds): void {
    this.#span.addLink({ context: spanContext(other) });
  }

  fail(message?: string): void {
    this.#span.setStatus({ code: SpanStatusCode.ERROR, ...(message === undefined ? {} : { message }) });
  }

  end(): void {
    this.#span.end();
  }
}
