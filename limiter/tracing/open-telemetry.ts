/** OpenTelemetry's SDK for the limiter's spans: its options, its export, and its diagnostics. */
import {
  type Context,
  createTraceState,
  type DiagLogger,
  diag,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { OTLPTraceExporter as GrpcExporter } from '@opentelemetry/exporter-trace-otlp-grpc';
import { OTLPTraceExporter as HttpExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { envDetector } from '@opentelemetry/resources';
import { NodeSDK } from '@opentelemetry/sdk-node';
import {
  AlwaysOnSampler,
  type IdGenerator,
  type ReadableSpan,
  type SpanExporter,
} from '@opentelemetry/sdk-trace';
import { type Attributes, type SpanIds, type SpanMaker, spanContext } from './call-tracers.ts';
import type { SampledTrace } from './sampling.ts';

/** Receives OpenTelemetry's diagnostics: values of OTEL_* that it cannot read, and spans for which it had no room. */
export interface DiagnosticsListener {
  problem(text: string): void;
  /** Called with the number of spans since the last call. */
  dropped(spans: number): void;
}

const longestText = 300;
/** Reported when there is room again. */
const droppedSpans = /^Dropped (\d+) spans because maxQueueSize reached$/;
/** Credentials in a URL. */
const credentials = /(\/\/)[^/@\s']*@/g;

/** Passes on warnings and errors; other messages are only for debugging OpenTelemetry. */
export function diagnosticsTo(listener: DiagnosticsListener): DiagLogger {
  const take = (message: string, ...more: unknown[]): void => {
    const dropped = droppedSpans.exec(message);
    if (dropped !== null) listener.dropped(Number(dropped[1]));
    const text = [plain(message), ...more.map(String)].join(' ');
    listener.problem(text.replace(credentials, '$1').slice(0, longestText));
  };
  const leave = (): void => {};
  return { error: take, warn: take, info: leave, debug: leave, verbose: leave };
}

/** Returns the message of a thrown error, which OpenTelemetry formats as JSON with a stack. */
function plain(message: string): string {
  if (!message.startsWith('{')) return message;
  try {
    const { message: text } = JSON.parse(message) as { message?: unknown };
    return typeof text === 'string' ? text : message;
  } catch {
    return message;
  }
}

export interface ExportListener {
  sent(spans: number): void;
  failed(spans: number): void;
  /** Called at every change, with a `reason` if the export fails. */
  changed(works: boolean, reason: string): void;
}

/** `ExportResultCode.SUCCESS` of OpenTelemetry. */
const success = 0;
/** A collector may answer with a page, so reasons are cut. */
const longestReason = 200;

/** An exporter of spans that reports the beginning and the end of a problem once each, however many exports fail between. */
export class WatchedExporter implements SpanExporter {
  readonly #exporter: SpanExporter;
  readonly #listener: ExportListener;
  #works = true;

  constructor(exporter: SpanExporter, listener: ExportListener) {
    this.#exporter = exporter;
    this.#listener = listener;
  }

  export(spans: ReadableSpan[], done: Parameters<SpanExporter['export']>[1]): void {
    this.#exporter.export(spans, (result) => {
      const works = result.code === success;
      if (works) this.#listener.sent(spans.length);
      else this.#listener.failed(spans.length);
      if (works !== this.#works) this.#listener.changed(works, works ? '' : reasonOf(result.error));
      this.#works = works;
      done(result);
    });
  }

  shutdown(): Promise<void> {
    return this.#exporter.shutdown();
  }

  forceFlush(): Promise<void> {
    return this.#exporter.forceFlush?.() ?? Promise.resolve();
  }
}

function reasonOf(error: Error | undefined): string {
  if (error === undefined) return 'unknown';
  const inner = error instanceof AggregateError ? error.errors.map(String).join(', ') : '';
  const message = error.message === '' ? inner : error.message;
  // grpc-js appends this text even if it has no note.
  const text = (message === '' ? error.name : message).replace(/\.?\s*Resolution note:\s*$/, '');
  return text.slice(0, longestReason);
}

export interface OpenTelemetryOptions {
  protocol: 'http' | 'grpc';
  serviceName: string;
  /** Empty: no namespace. */
  serviceNamespace: string;
  serviceInstanceId: string;
  version: string;
  newSpanId(): string;
  listener: ExportListener & DiagnosticsListener;
}

/**
 * OpenTelemetry's SDK as a SpanMaker. This is the only file that loads the SDK, and it is loaded only if tracing is on. The SDK reads
 * OTEL_EXPORTER_OTLP_*, OTEL_BSP_*, OTEL_SPAN_*, OTEL_RESOURCE_ATTRIBUTES and OTEL_SDK_DISABLED from the environment.
 */
export function startOpenTelemetry(options: OpenTelemetryOptions): SpanMaker {
  const diagnostics = diagnosticsTo(options.listener);
  diag.setLogger(diagnostics);
  const exporter = options.protocol === 'grpc' ? new GrpcExporter() : new HttpExporter();
  const ids = new GivenIds(options.newSpanId);
  // With OTEL_LOG_LEVEL the SDK sets a logger that writes to the console, and warns if there was another one.
  diag.disable();
  const sdk = new NodeSDK({
    traceExporter: new WatchedExporter(exporter, options.listener),
    // Traces that reach the SDK were sampled before.
    sampler: new AlwaysOnSampler(),
    idGenerator: ids,
    // If two detectors have the same attribute, the later one counts.
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

/** Uses the given trace id, because it existed before the span: sampling depends on it. */
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

  server(name: string, { traceId, parent }: SampledTrace, attributes: Attributes): Span {
    this.#ids.traceId = traceId;
    const context =
      parent === undefined ? ROOT_CONTEXT : remoteContext(traceId, parent.spanId, parent.traceState);
    return this.#tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, context);
  }

  client(name: string, parent: SpanIds, attributes: Attributes): Span {
    const context = trace.setSpanContext(ROOT_CONTEXT, spanContext(parent));
    return this.#tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes }, context);
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
