import type { Peer } from '../net/peer.ts';
import type { Clock } from '../time/clock.ts';

/** Records the durations of calls. */
export interface CallDurations {
  record(durationMs: number): void;
}

/** Receives events of calls; `method` is the name without the service. */
export interface CallObserver {
  clock: Clock;
  /**
   * Called once for each unary method. Gets the durations of calls that reached their handler, including failed ones. Others (unknown
   * method, message too long) are not counted.
   */
  callsOf(method: string): CallDurations;
  /** Called when a handler threw. */
  onFault(method: string, error: unknown): void;
}

/** The state that all requests of a connection share. */
export interface CallerConnection {
  readonly peer: Peer;
  /** Set by the gate: what it knows about the peer. */
  callerMemo: unknown;
}

/** Bits of the rights that a request needs. */
export const Right = { ASK: 1, REFUND: 2, OVERRIDE: 4, READ: 8, ADMIN: 16, RESERVE: 32 } as const;

/** A caller on one connection. */
export interface AdmittedCaller {
  readonly rejected: undefined;
  /** The name of its entry. */
  readonly name: string;
  /**
   * Returns the rejection, which is counted; undefined if the caller has all of `rights` (bits of `Right`) in the domain, or in any domain
   * if `domain` is undefined.
   */
  rejection(domain: string | undefined, rights: number): GrpcStatus | undefined;
  /** Whether the caller may use the domain. Nothing is counted. */
  hasDomain(domain: string): boolean;
}

export interface CallerRejection {
  readonly rejected: GrpcStatus;
  /**
   * The caller, if its entry says that a question beyond its rate is over limit. Calls that do not ask for a decision are rejected with
   * the status.
   */
  readonly asOverLimit?: AdmittedCaller | undefined;
}

/** Chosen: a second refills every bucket, whatever the rate. */
export const retryAfterSeconds = 1;

/** Replaces several fields of a request. It belongs to no caller, because the intended one is unclear. RFC 9110, section 5.3. */
export const severalAuthorizations = '(several)';

/** The only interface between listeners and the knowledge of callers. It is asked before a request is read. */
export interface CallerGate {
  /** `authorization` is the field of that name, empty if there is none. A rejection is counted. */
  admit(connection: CallerConnection, authorization: string): AdmittedCaller | CallerRejection;
}

/** The answer of a method with a stream of messages, for any transport. */
export interface MessageStream {
  /** Set if callers must authenticate and the method is not free. */
  readonly caller?: AdmittedCaller | undefined;
  /** The header section of the call: name, value, name, value, with names in lower case. For rare use. */
  readonly fields?: readonly string[] | undefined;
  /** Created anew at each access, for rare use. */
  readonly origin?: RequestOrigin | undefined;
  send(message: Uint8Array): void;
  /** Ends the call, with OK if there is no status. Messages sent afterward are dropped. */
  end(status?: GrpcStatus): void;
  /** Calls back once when the call is over, no matter which side ended it. */
  onClose(listener: () => void): void;
}

/** `request` is only valid until the handler returns. */
export type StreamHandler = (request: Uint8Array, stream: MessageStream) => void;

/** Receives the messages of a caller in a method that takes a stream of messages. */
export interface MessageListener {
  /** `message` is only valid until it returns. */
  onMessage(message: Uint8Array): void;
  /** Called when the caller sends no more. */
  onEnd(): void;
}

export interface DuplexStream extends MessageStream {
  /**
   * Calls back once the peer's transport has received everything sent so far: an HTTP/2 PING behind it was answered. The peer may be a
   * proxy that speaks HTTP/2. Returns false if this cannot be determined now.
   */
  whenArrived(listener: () => void): boolean;
}

/** Handles a call in which both sides send at any time. */
export type DuplexHandler = (stream: DuplexStream) => MessageListener;

/** Status codes of gRPC that this project uses. https://github.com/grpc/grpc/blob/v1.60.0/doc/statuscodes.md */
export const GrpcCode = {
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
} as const;
export type GrpcCode = (typeof GrpcCode)[keyof typeof GrpcCode];

export interface GrpcStatus {
  code: GrpcCode;
  message: string;
}

/** Chosen: a longer text, percent-encoded, would not fit into the header block that clients accept. */
const longestStatusText = 1024;

/** Returns a status message that may be sent in a trailer: bounded, and without lone surrogates, which have no encoding. */
export function statusText(message: string): string {
  const bounded = message.length > longestStatusText ? `${message.slice(0, longestStatusText)}...` : message;
  return bounded.toWellFormed();
}

/** The caller of a request and where it arrived, for logs. */
export interface RequestOrigin {
  listener: 'gRPC' | 'HTTP';
  peer: string;
}

export interface UnaryReply {
  /**
   * Whether the caller canceled, or its deadline passed, before it was answered: effects that have not begun need not begin. The call
   * still ends with one of the two methods below.
   */
  readonly abandoned: boolean;
  /** The span of a traced call. It ends with the call. */
  readonly span?: CallSpan | undefined;
  /** Set if callers must authenticate. */
  readonly caller?: AdmittedCaller | undefined;
  /** The header section of the call: name, value, name, value, with names in lower case. For rare use. */
  readonly fields?: readonly string[] | undefined;
  /** Created anew at each access, for rare use. */
  readonly origin?: RequestOrigin | undefined;
  /** Called before the answer to a request that exceeds a bound, with the reason. Undefined: the reason is not needed. */
  noteTooLarge?(reason: string): void;
  /** Exactly one of the two is called, once. */
  send(message: Uint8Array): void;
  fail(status: GrpcStatus): void;
}

/** A unary method for any transport: bytes in, bytes or a status out. */
export interface UnaryHandler {
  /** `request` is only valid until the handler returns. */
  (request: Uint8Array, reply: UnaryReply): void;
  /** The bound of requests. A transport that is short of memory need not keep longer ones. Undefined: the transport has its own bound. */
  readonly longest?: LongestRequest | undefined;
  /**
   * Returns the answer "over limit" for a request that was not read. Called once for each. Undefined: the method makes no decisions.
   */
  readonly overLimit?: (() => Uint8Array) | undefined;
}

export interface LongestRequest {
  readonly maxBytes: number;
  /** Returns the answer to a longer request, a message or a status. Called once for each. */
  reject(bytes: number, origin?: RequestOrigin): Uint8Array | GrpcStatus;
}

/** A call that is traced. */
export interface CallSpan {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  set(name: string, value: string | number): void;
  /** Called once, with the status that the caller got: gRPC's code, or HTTP's status for a call over HTTP. */
  end(status: number): void;
}

/** Begins spans for calls. Listeners and stores use nothing else of tracing. */
export interface CallTracer {
  /**
   * Returns undefined for a call that is not traced, at almost no cost. `method` is the path of gRPC, or HTTP's method and path.
   * `fields` are name, value, name, value, with names in lower case. Never throws.
   */
  begin(method: string, fields: readonly string[]): CallSpan | undefined;
}
