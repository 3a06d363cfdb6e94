import { type Span, type SpanContext, SpanStatusCode, TraceFlags } from '@opentelemetry/api';
import type { CallSpan, CallTracer } from '../../process/grpc/handlers.ts';
import type { SampledTrace, Sampling } from './sampling.ts';
import { baggageValues, type HeaderForms, TraceHeaders } from './trace-headers.ts';

/**
 * Names of the attributes of a call's span. https://opentelemetry.io/docs/specs/semconv/rpc/rpc-spans/
 *
 *                 rpc.system.name  rpc.system  rpc.service  rpc.method              rpc.response.status_code
 *   stable        grpc             -           -            service/method          OK
 *   rpc/old       -                grpc        service      method                  OK
 *   rpc/dup       grpc             grpc        service      service/method          OK
 *
 * `rpc.grpc.status_code`, a number, is never there.
 */
type RpcConvention = 'stable' | 'old' | 'dup';

/** Reads OTEL_SEMCONV_STABILITY_OPT_IN, which may also contain words for other kinds of spans. */
export function rpcConvention(optIn: string): RpcConvention {
  const words = optIn.split(',').map((word) => word.trim());
  if (words.includes('rpc/dup')) return 'dup';
  return words.includes('rpc/old') ? 'old' : 'stable';
}

/** `path` is `/package.Service/Method`. */
export function rpcAttributes(path: string, convention: RpcConvention): Record<string, string> {
  const fullMethod = path.slice(1);
  const slash = fullMethod.lastIndexOf('/');
  const service = fullMethod.slice(0, slash);
  if (convention === 'old') {
    return { 'rpc.system': 'grpc', 'rpc.service': service, 'rpc.method': fullMethod.slice(slash + 1) };
  }
  const stable = { 'rpc.system.name': 'grpc', 'rpc.method': fullMethod };
  return convention === 'stable' ? stable : { ...stable, 'rpc.system': 'grpc', 'rpc.service': service };
}

/** Names of statuses by number. https://github.com/grpc/grpc/blob/v1.60.0/doc/statuscodes.md */
const statusNames = [
  'OK',
  'CANCELLED',
  'UNKNOWN',
  'INVALID_ARGUMENT',
  'DEADLINE_EXCEEDED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'PERMISSION_DENIED',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'ABORTED',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
  'UNAUTHENTICATED',
];

/** Statuses that count as errors of the server. */
const serverFaults: ReadonlySet<string> = new Set([
  'UNKNOWN',
  'DEADLINE_EXCEEDED',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
]);

export function rpcStatus(code: number): { name: string; isFault: boolean } {
  const name = statusNames[code] ?? String(code);
  return { name, isFault: serverFaults.has(name) };
}

// Spans of gRPC calls and of decisions over HTTP.

export interface CallTracerOptions {
  sampling: Sampling;
  forms: HeaderForms;
  convention: RpcConvention;
  /** Keys of baggage that become attributes. */
  baggageKeys: ReadonlySet<string>;
  /** Undefined until OpenTelemetry is loaded. Nothing is traced before. */
  maker(): SpanMaker | undefined;
}

/** Probes are not traced: they come every few seconds and carry no information. */
const healthPrefix = '/grpc.health.v1.Health/';

/** For gRPC: `method` is the path. */
export function grpcTracer(options: CallTracerOptions): CallTracer {
  const begin = traceBeginner(options);
  return {
    begin: (path, fields) => {
      const trace = begin(fields);
      if (trace === undefined || path.startsWith(healthPrefix)) return undefined;
      return trace.span(path.slice(1), rpcAttributes(path, options.convention), endRpc);
    },
  };
}

/** For HTTP: `request` is method and path, as in `POST /json`. */
export function httpTracer(options: CallTracerOptions): CallTracer {
  const begin = traceBeginner(options);
  return {
    begin: (request, fields) => {
      const trace = begin(fields);
      if (trace === undefined) return undefined;
      const [method = '', path = ''] = request.split(' ');
      const route = { 'http.route': path, 'url.path': path };
      return trace.span(request, { 'http.request.method': method, ...route, 'url.scheme': 'http' }, endHttp);
    },
  };
}

type EndSpan = (span: Span, status: number) => void;

interface BegunTrace {
  span(name: string, attributes: Attributes, end: EndSpan): CallSpan;
}

function traceBeginner(options: CallTracerOptions): (fields: readonly string[]) => BegunTrace | undefined {
  const { sampling, maker, baggageKeys } = options;
  const headers = new TraceHeaders(options.forms);
  return (fields) => {
    headers.read(fields);
    const trace: SampledTrace | undefined = sampling.decide(headers);
    if (trace === undefined) return undefined;
    const spans = maker();
    if (spans === undefined) return undefined;
    const baggage = baggageValues(headers.baggage, baggageKeys);
    return {
      span: (name, attributes, end) => {
        const span = spans.server(name, trace, attributes);
        for (const [key, value] of baggage) span.setAttribute(`baggage.${key}`, value);
        return new TracedCall(span, end);
      },
    };
  };
}

class TracedCall implements CallSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly #span: Span;
  readonly #end: EndSpan;

  constructor(span: Span, end: EndSpan) {
    ({ traceId: this.traceId, spanId: this.spanId } = span.spanContext());
    this.#span = span;
    this.#end = end;
  }

  set(name: string, value: string | number): void {
    this.#span.setAttribute(name, value);
  }

  end(status: number): void {
    this.#end(this.#span, status);
  }
}

function endRpc(span: Span, code: number): void {
  const { name, isFault } = rpcStatus(code);
  span.setAttribute('rpc.response.status_code', name);
  if (isFault) fail(span, name);
  span.end();
}

function endHttp(span: Span, status: number): void {
  span.setAttribute('http.response.status_code', status);
  if (status >= 500) fail(span, String(status));
  span.end();
}

function fail(span: Span, type: string): void {
  span.setAttribute('error.type', type);
  span.setStatus({ code: SpanStatusCode.ERROR });
}

export type Attributes = Readonly<Record<string, string | number>>;

export type SpanIds = Pick<CallSpan, 'traceId' | 'spanId'>;

export function spanContext({ traceId, spanId }: SpanIds): SpanContext {
  return { traceId, spanId, traceFlags: TraceFlags.SAMPLED };
}

/** The SDK as tracing needs it, so that other files do not load it. */
export interface SpanMaker {
  /** Begins the span of a call that this process answers. */
  server(name: string, trace: SampledTrace, attributes: Attributes): Span;
  /** Begins the span of a request that this process sends, for the call whose span is `parent`. */
  client(name: string, parent: SpanIds, attributes: Attributes): Span;
  /** Sends the remaining spans. Resolves when they are sent, or were given up. */
  shutdown(): Promise<void>;
}
