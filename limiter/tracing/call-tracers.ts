/** Spans of calls: of gRPC, and of /json over HTTP. */
import type { CallSpan, CallTracer } from '../../process/grpc/call-tracer.ts';
import { baggageValues } from './baggage.ts';
import { type RpcConvention, rpcAttributes, rpcStatus } from './rpc-attributes.ts';
import type { SampledTrace, Sampling } from './sampling.ts';
import type { Attributes, MadeSpan, SpanMaker } from './span-maker.ts';
import { type HeaderForms, TraceHeaders } from './trace-headers.ts';

export interface CallTracerOptions {
  sampling: Sampling;
  forms: HeaderForms;
  convention: RpcConvention;
  /** Keys of baggage that become attributes. */
  baggageKeys: ReadonlySet<string>;
  /** Undefined until OpenTelemetry is loaded; nothing is traced before. */
  maker(): SpanMaker | undefined;
}

/** Probes come every few seconds and say nothing. */
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

/** For /json over HTTP: `method` is that of HTTP. */
export function httpTracer(options: CallTracerOptions): CallTracer {
  const begin = traceBeginner(options);
  return {
    begin: (method, fields) =>
      begin(fields)?.span(
        `${method} /json`,
        {
          'http.request.method': method,
          'http.route': '/json',
          'url.path': '/json',
          'url.scheme': 'http',
        },
        endHttp,
      ),
  };
}

type EndSpan = (span: MadeSpan, status: number) => void;

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
        for (const [key, value] of baggage) span.set(`baggage.${key}`, value);
        return new TracedCall(span, end);
      },
    };
  };
}

class TracedCall implements CallSpan {
  readonly #span: MadeSpan;
  readonly #end: EndSpan;

  constructor(span: MadeSpan, end: EndSpan) {
    this.#span = span;
    this.#end = end;
  }

  get traceId(): string {
    return this.#span.traceId;
  }

  get spanId(): string {
    return this.#span.spanId;
  }

  set(name: string, value: string | number): void {
    this.#span.set(name, value);
  }

  end(status: number): void {
    this.#end(this.#span, status);
  }
}

function endRpc(span: MadeSpan, code: number): void {
  const { name, isFault } = rpcStatus(code);
  span.set('rpc.response.status_code', name);
  if (isFault) fail(span, name);
  span.end();
}

function endHttp(span: MadeSpan, status: number): void {
  span.set('http.response.status_code', status);
  if (status >= 500) fail(span, String(status));
  span.end();
}

function fail(span: MadeSpan, type: string): void {
  span.set('error.type', type);
  span.fail();
}
