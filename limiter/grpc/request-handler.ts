/**
 * gRPC over HTTP/2 requests: finds the call of a request, or answers a request that is not a valid call. The answers equal those of
 * grpc-go. https://github.com/grpc/grpc/blob/v1.60.0/doc/PROTOCOL-HTTP2.md
 */
import {
  type CallerConnection,
  type CallerGate,
  type CallerRejection,
  type CallObserver,
  type CallTracer,
  GrpcCode,
  severalAuthorizations,
} from '../../process/grpc/handlers.ts';
import type { Timers } from '../../process/time/clock.ts';
import type {
  HeaderFields,
  RequestConnection,
  RequestHandler,
  RequestStream,
} from '../http2/request-handler.ts';
import {
  type Call,
  type CallSite,
  deadlineExceeded,
  encodingRejected,
  okHeaders,
  okTrailers,
  trailersOnly,
} from './call.ts';
import { defaultGrpcLimits, type GrpcLimits, withPrefix } from './message-reader.ts';
import { type DuplexMethod, StreamCall, type StreamMethod } from './stream-call.ts';
import { Deadlines, type ServedUnaryMethod, UnaryCall, type UnaryMethod } from './unary-call.ts';

export type GrpcMethod = UnaryMethod | StreamMethod | DuplexMethod;
type ServedMethod = ServedUnaryMethod | StreamMethod | DuplexMethod;

const unitMs: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};
const digit0 = 0x30;
const digit9 = 0x39;

/**
 * Reads `grpc-timeout`, which consists of one to eight digits and a unit. Returns undefined for other texts.
 * https://github.com/grpc/grpc/blob/v1.60.0/doc/PROTOCOL-HTTP2.md
 */
export function timeoutMsOf(text: string): number | undefined {
  const digits = text.length - 1;
  if (digits < 1 || digits > 8) return undefined;
  let value = 0;
  for (let index = 0; index < digits; index++) {
    const code = text.charCodeAt(index);
    if (code < digit0 || code > digit9) return undefined;
    value = value * 10 + code - digit0;
  }
  const unit = unitMs[text[digits]!];
  return unit === undefined ? undefined : value * unit;
}

/**
 * The parts of a request's header section that gRPC uses; other metadata is ignored. As in gRPC's other servers, `te` may be missing.
 * https://github.com/grpc/grpc/blob/v1.60.0/doc/PROTOCOL-HTTP2.md
 */
interface RequestHead {
  readonly fields: HeaderFields;
  method: string;
  path: string;
  contentType: string;
  /** The text of the header; empty if there is none. */
  timeout: string;
  /** Infinite if the caller sets no timeout, NaN if it is malformed. */
  timeoutMs: number;
  /** The encoding of the messages. */
  encoding: string;
  /** Empty if there is none. */
  authorization: string;
  /** The called method; undefined if it is unknown. */
  target: ServedMethod | undefined;
  /** The answer to a request that is not a valid call; undefined for a valid one. */
  rejection: HeaderFields | undefined;
}

/** Chosen: longer header sections are not stored for comparison with the next request, which usually has the same. */
const maxCachedCharacters = 4096;

function readHead(fields: HeaderFields): RequestHead {
  const head: RequestHead = {
    fields,
    method: '',
    path: '',
    contentType: '',
    timeout: '',
    timeoutMs: Number.POSITIVE_INFINITY,
    encoding: 'identity',
    authorization: '',
    target: undefined,
    rejection: undefined,
  };
  for (let index = 0; index < fields.length; index += 2) {
    const value = fields[index + 1]!;
    switch (fields[index]) {
      case ':method':
        head.method = value;
        break;
      case ':path':
        head.path = value;
        break;
      case 'content-type':
        head.contentType = value;
        break;
      case 'grpc-timeout':
        head.timeout = value;
        head.timeoutMs = timeoutMsOf(value) ?? Number.NaN;
        break;
      case 'grpc-encoding':
        head.encoding = value;
        break;
      case 'authorization':
        head.authorization = head.authorization === '' ? value : severalAuthorizations;
        break;
    }
  }
  return head;
}

/** Messages are always protobuf. RFC 9110, section 8.3.1: types are compared without regard to case, and may have parameters. */
const grpcType = /^application\/grpc(\+proto)?[ \t]*(;|$)/i;

/** Returns the answer to a request that is not a call, or undefined for a call. The checks are in the order of grpc-go. */
function headRejection(head: RequestHead): HeaderFields | undefined {
  const { contentType, method } = head;
  if (contentType !== 'application/grpc' && !grpcType.test(contentType)) {
    const message = `invalid gRPC request content-type "${contentType}"`;
    return trailersOnly({ code: GrpcCode.INVALID_ARGUMENT, message }, 415);
  }
  if (Number.isNaN(head.timeoutMs)) {
    return trailersOnly(
      { code: GrpcCode.INTERNAL, message: `malformed grpc-timeout: "${head.timeout}"` },
      400,
    );
  }
  if (method !== 'POST') {
    const message = `Received a HEADERS frame with :method "${method}" which should be POST`;
    return trailersOnly({ code: GrpcCode.INTERNAL, message }, 405);
  }
  return undefined;
}

export interface GrpcRequestHandlerOptions extends CallObserver {
  /** Methods by path. */
  methods: ReadonlyMap<string, GrpcMethod>;
  timers: Timers;
  limits?: Partial<GrpcLimits>;
  /** The tracer of unary calls. Undefined: no call is traced. */
  tracer?: CallTracer | undefined;
  /**
   * Admits callers of methods that require authentication. Undefined: every caller that reaches the port is admitted. With a gate, the
   * `peer` of connections must be a Peer.
   */
  gate?: CallerGate | undefined;
}

const noBytes = new Uint8Array(0);

export class GrpcRequestHandler implements RequestHandler {
  readonly #methods: ReadonlyMap<string, ServedMethod>;
  readonly #services: ReadonlySet<string>;
  readonly #site: CallSite;
  readonly #tracer: CallTracer | undefined;
  readonly #gate: CallerGate | undefined;

  constructor(options: GrpcRequestHandlerOptions) {
    const { clock, timers } = options;
    const limits = { ...defaultGrpcLimits, ...options.limits };
    this.#methods = new Map(
      [...options.methods].map(([path, method]) => [
        path,
        method.kind === 'unary' ? { ...method, calls: options.callsOf(method.name) } : method,
      ]),
    );
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
    const { connection } = stream;
    const known = connection.fieldsMemo as RequestHead | undefined;
    const head = known !== undefined && known.fields === fields ? known : this.#headOf(connection, fields);
    if (head.rejection !== undefined) {
      connection.sendHeaders(stream, head.rejection, true);
      return;
    }
    const method = head.target!;
    const gate = method.isFree ? undefined : this.#gate;
    const caller = gate?.admit(connection as CallerConnection, head.authorization);
    if (caller?.rejected !== undefined) {
      rejectCaller(stream, method, caller);
      return;
    }
    const { timeoutMs } = head;
    let call: Call;
    if (method.kind === 'unary') {
      const span = this.#tracer?.begin(head.path, head.fields);
      call = new UnaryCall(stream, method, this.#site, timeoutMs, head.fields, caller, span);
    } else call = new StreamCall(stream, method, this.#site, { timeoutMs, caller, fields });
    stream.receiver = call;
    if (endStream) call.receive(noBytes, true);
  }

  #headOf(connection: RequestConnection, fields: HeaderFields): RequestHead {
    const head = readHead(fields);
    head.target = this.#methods.get(head.path);
    head.rejection =
      headRejection(head) ??
      (head.timeoutMs === 0 ? deadlineExceeded : undefined) ??
      (head.target === undefined ? this.#unimplemented(head.path) : undefined) ??
      (head.encoding !== 'identity' && head.encoding !== '' ? encodingRejected(head.encoding) : undefined);
    let characters = 0;
    for (const text of fields) characters += text.length;
    connection.fieldsMemo = characters <= maxCachedCharacters ? head : undefined;
    return head;
  }

  /** Stops the timer. From then on, deadlines have no effect. */
  close(): void {
    this.#site.deadlines.close();
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

/** Rejects a caller. Messages of streams contain no decision themselves, so these calls get a status. */
function rejectCaller(
  stream: RequestStream,
  method: GrpcMethod,
  { rejected, asOverLimit }: CallerRejection,
): void {
  const answer = asOverLimit && method.kind === 'unary' ? method.handler.overLimit?.() : undefined;
  const { connection } = stream;
  if (answer === undefined) connection.sendHeaders(stream, trailersOnly(rejected), true);
  else connection.respond(stream, okHeaders, withPrefix(answer), okTrailers);
}

function partsOf(path: string): { service: string; method: string } | undefined {
  const slash = path.lastIndexOf('/');
  if (slash < 1 || path[0] !== '/') return undefined;
  return { service: path.slice(1, slash), method: path.slice(slash + 1) };
}
