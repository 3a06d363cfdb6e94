/**
 * gRPC on HTTP/2's requests: which call a request is, or the answer to one that is none. What callers are told is what
 * grpc-go tells them. https://github.com/grpc/grpc/blob/v1.60.0/doc/PROTOCOL-HTTP2.md
 */
import {
  type CallerConnection,
  type CallerGate,
  type CallObserver,
  type CallTracer,
  GrpcCode,
} from '../../process/grpc/handlers.ts';
import type { Timers } from '../../process/time/clock.ts';
import type { HeaderFields, RequestHandler, RequestStream } from '../http2/request-handler.ts';
import { type Call, type CallSite, deadlineExceeded, encodingRefused, trailersOnly } from './call.ts';
import { Deadlines } from './deadlines.ts';
import { defaultGrpcLimits, type GrpcLimits } from './message-reader.ts';
import { headRefusal, isIdentity, type RequestHead, readHead } from './request-head.ts';
import type { GrpcMethod } from './server.ts';
import { StreamCall } from './stream-call.ts';
import { UnaryCall, type UnaryMethod } from './unary-call.ts';

export interface GrpcRequestHandlerOptions extends CallObserver {
  /** By path. */
  methods: ReadonlyMap<string, GrpcMethod>;
  timers: Timers;
  limits?: Partial<GrpcLimits>;
  /** Of unary calls. Undefined: none is traced. */
  tracer?: CallTracer | undefined;
  /** Of methods that are not free. Undefined: whoever reaches the port may call. `peer` of connections is then a Peer. */
  gate?: CallerGate | undefined;
}

const noBytes = new Uint8Array(0);

export class GrpcRequestHandler implements RequestHandler {
  readonly #methods: ReadonlyMap<string, GrpcMethod>;
  readonly #services: ReadonlySet<string>;
  readonly #site: CallSite;
  readonly #tracer: CallTracer | undefined;
  readonly #gate: CallerGate | undefined;

  constructor(options: GrpcRequestHandlerOptions) {
    const { clock, timers } = options;
    const limits = { ...defaultGrpcLimits, ...options.limits };
    this.#methods = options.methods;
    this.#tracer = options.tracer;
    this.#gate = options.gate;
    this.#services = new Set([...options.methods.keys()].map((path) => partsOf(path)?.service ?? ''));
    this.#site = {
      observer: options,
      deadlines: new Deadlines({ clock, timers, sweepMs: limits.deadlineSweepMs }),
      limits,
    };
  }

  onRequest(stream: RequestStream, fields: HeaderFields, endStream: boolean): void {
    const head = readHead(fields);
    const method = this.#methods.get(head.path);
    const refusal = headRefusal(head);
    if (refusal !== undefined) stream.sendHeaders(refusal, true);
    else if (head.timeoutMs === 0) stream.sendHeaders(deadlineExceeded, true);
    else if (method === undefined) stream.sendHeaders(this.#unimplemented(head.path), true);
    else if (!isIdentity(head.encoding)) stream.sendHeaders(encodingRefused(head.encoding), true);
    else if (method.kind !== 'unary')
      this.#begin(stream, new StreamCall(stream, method, this.#site, head.timeoutMs), endStream);
    else this.#beginUnary(stream, method, head, fields, endStream);
  }

  #beginUnary(
    stream: RequestStream,
    method: UnaryMethod,
    head: RequestHead,
    fields: HeaderFields,
    endStream: boolean,
  ): void {
    const gate = method.isFree ? undefined : this.#gate;
    const caller = gate?.admit(stream.connection as CallerConnection, head.authorization);
    if (caller?.refused !== undefined) {
      stream.sendHeaders(trailersOnly(caller.refused), true);
      return;
    }
    const call = new UnaryCall(stream, method, this.#site, head.timeoutMs);
    call.caller = caller;
    call.span = this.#tracer?.begin(head.path, fields);
    this.#begin(stream, call, endStream);
  }

  onData(stream: RequestStream, data: Uint8Array, endStream: boolean): void {
    callOf(stream)?.receive(data, endStream);
  }

  onTrailers(stream: RequestStream): void {
    callOf(stream)?.receive(noBytes, true);
  }

  onAbort(stream: RequestStream): void {
    callOf(stream)?.abort();
  }

  onShed(stream: RequestStream): void {
    callOf(stream)?.shed();
  }

  /** Ends its timer; deadlines are not looked at any more. */
  close(): void {
    this.#site.deadlines.close();
  }

  #begin(stream: RequestStream, call: Call, endStream: boolean): void {
    stream.context = call;
    if (endStream) call.receive(noBytes, true);
  }

  #unimplemented(path: string): HeaderFields {
    return trailersOnly({ code: GrpcCode.UNIMPLEMENTED, message: this.#whatIsUnknown(path) });
  }

  #whatIsUnknown(path: string): string {
    const parts = partsOf(path);
    if (parts === undefined) return `malformed method name: "${path}"`;
    const { service, method } = parts;
    return this.#services.has(service)
      ? `unknown method ${method} for service ${service}`
      : `unknown service ${service}`;
  }
}

function callOf(stream: RequestStream): Call | undefined {
  return stream.context as Call | undefined;
}

function partsOf(path: string): { service: string; method: string } | undefined {
  const slash = path.lastIndexOf('/');
  if (slash < 1 || path[0] !== '/') return undefined;
  return { service: path.slice(1, slash), method: path.slice(slash + 1) };
}
