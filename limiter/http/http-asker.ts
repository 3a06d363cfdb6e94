/** The caller that requests a decision over HTTP: identifies and traces it, and describes it to the service. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  type AdmittedCaller,
  type CallerConnection,
  type CallerGate,
  type CallerRejection,
  type CallSpan,
  type CallTracer,
  GrpcCode,
  type GrpcStatus,
  type RequestOrigin,
  retryAfterSeconds,
  severalAuthorizations,
  type UnaryReply,
} from '../../process/grpc/handlers.ts';
import { ApiProblem } from '../../process/http/api-route.ts';
import type { HttpCall } from '../../process/http/http-server.ts';
import { peerName, SocketPeer } from '../../process/net/peer.ts';

export interface HttpAsker {
  readonly request: IncomingMessage;
  /** Undefined if callers need not authenticate. */
  readonly caller: AdmittedCaller | undefined;
  readonly span: CallSpan | undefined;
}

export interface AdmissionOptions {
  /** Decides which callers may request decisions. Defaults to all callers. */
  gate?: CallerGate | undefined;
  /** Defaults to none. */
  tracer?: CallTracer | undefined;
  /** Records the durations of admitted requests. Defaults to none. */
  timing?: { nowMs(): number; record(durationMs: number): void } | undefined;
}

/** Admits a caller before the body is read. The span has `route` as its name and ends with the response. */
export function admitted(
  { request, response }: HttpCall,
  route: string,
  { gate, tracer, timing }: AdmissionOptions,
): HttpAsker | CallerRejection {
  const caller = gate?.admit(connectionOf(request), authorizationOf(request));
  if (caller?.rejected !== undefined) return caller;
  if (timing !== undefined) {
    const startMs = timing.nowMs();
    response.once('finish', () => timing.record(timing.nowMs() - startMs));
  }
  return { request, caller, span: beginSpan(request, response, { route, tracer }) };
}

/** Returns a reply that ends with `ends`. A canceled request is decided and counted like any other. */
export function replyTo<Ends>(
  { request, caller, span }: HttpAsker,
  ends: Ends,
): Pick<UnaryReply, 'abandoned' | 'span' | 'caller' | 'fields' | 'origin'> & Ends {
  const reply = {
    abandoned: false,
    span,
    caller,
    get fields() {
      return fieldsOf(request);
    },
    get origin() {
      return originOf(request);
    },
  };
  return Object.assign(reply, ends);
}

/** Converts an error of the service to an answer of `/v1`. The status is never 429, because 429 is a decision. */
export function problemOf({ code, message }: GrpcStatus): ApiProblem {
  switch (code) {
    case GrpcCode.UNAUTHENTICATED:
      return new ApiProblem(401, message);
    case GrpcCode.PERMISSION_DENIED:
      return new ApiProblem(403, message);
    case GrpcCode.NOT_FOUND:
      return new ApiProblem(404, message);
    case GrpcCode.RESOURCE_EXHAUSTED:
    case GrpcCode.UNAVAILABLE:
      return new ApiProblem(503, message, { retryAfterSeconds });
    case GrpcCode.INTERNAL:
      return new ApiProblem(500, fault);
    default:
      return new ApiProblem(400, message);
  }
}

/** The text that callers get for a defect. */
export const fault = 'an internal error: see the log of the server';

export function originOf({ socket }: IncomingMessage): RequestOrigin {
  return { listener: 'HTTP', peer: peerName(socket) ?? 'unknown' };
}

/** If there are several headers, Node takes the first one unchanged. */
function authorizationOf({ headersDistinct }: IncomingMessage): string {
  const { authorization: [value = '', ...others] = [] } = headersDistinct;
  return others.length === 0 ? value : severalAuthorizations;
}

const connections = new WeakMap<object, CallerConnection>();

/** The state that all requests of a connection share. */
function connectionOf({ socket }: IncomingMessage): CallerConnection {
  let connection = connections.get(socket);
  if (connection === undefined) {
    connection = { peer: new SocketPeer(socket, peerName(socket) ?? 'unknown'), callerMemo: undefined };
    connections.set(socket, connection);
  }
  return connection;
}

/** Ends the span with the response. If a response could not be written, the span has the intended status. */
function beginSpan(
  request: IncomingMessage,
  response: ServerResponse,
  { route, tracer }: { route: string; tracer: CallTracer | undefined },
): CallSpan | undefined {
  if (tracer === undefined) return undefined;
  const span = tracer.begin(`${request.method} ${route}`, fieldsOf(request));
  if (span !== undefined) response.once('close', () => span.end(response.statusCode));
  return span;
}

function fieldsOf({ rawHeaders }: IncomingMessage): string[] {
  return rawHeaders.map((text, index) => (index % 2 === 0 ? text.toLowerCase() : text));
}
