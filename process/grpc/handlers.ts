import type { Peer } from '../net/peer.ts';
import type { Clock } from '../time/clock.ts';

/** Who learns of calls; `method` is its name without the service. */
export interface CallObserver {
  clock: Clock;
  /**
   * Called after every unary call that reached its handler, failed ones too. Others (unknown method, message too long)
   * are not counted.
   */
  onCall(method: string, durationMs: number): void;
  /** Called when a handler threw. */
  onFault(method: string, error: unknown): void;
}

/** What all requests of a connection share. */
export interface CallerConnection {
  readonly peer: Peer;
  /** The gate's own: what it found out about the peer so far. */
  callerMemo: unknown;
}

/** Bits: what a request asks for beyond being answered. */
export const Right = { ASK: 1, REFUND: 2, OVERRIDE: 4, READ: 8, ADMIN: 16, RESERVE: 32 } as const;

/** A caller on one connection. */
export interface AdmittedCaller {
  readonly refused: undefined;
  /** The name of its entry. */
  readonly name: string;
  /**
   * What it may not; undefined when it may do all of `rights` (bits of `Right`) in the domain, or without one in any. A
   * refusal is counted.
   */
  refusal(domain: string | undefined, rights: number): GrpcStatus | undefined;
  /** Whether the domain is one of its own. Nothing is counted. */
  hasDomain(domain: string): boolean;
}

export interface CallerRefusal {
  readonly refused: GrpcStatus;
  /**
   * The caller, if its entry says that a question beyond its rate is answered as by a limit that is exceeded. What is no
   * question for a decision is refused with the status.
   */
  readonly asOverLimit?: AdmittedCaller | undefined;
}

/** Chosen: a second fills every bucket up, whatever the rate. */
export const retryAfterSeconds = 1;

/** Stands for several fields of a request: it is not clear who is meant, so it is nobody's. RFC 9110, section 5.3. */
export const severalAuthorizations = '(several)';

/**
 * What listeners ask of anyone who knows callers; they know no more of them than this.
 * Asked before anything of a request is read.
 */
export interface CallerGate {
  /** `authorization` is the field of that name, empty where there is none. A refusal is counted. */
  admit(connection: CallerConnection, authorization: string): AdmittedCaller | CallerRefusal;
}

/** How methods that answer with a stream of messages are served, whatever transport is below. */
export interface MessageStream {
  /** Where callers have to say who they are, and the method is not free. */
  readonly caller?: AdmittedCaller | undefined;
  /** The header section of the call, name, value, name, value, names in lower case: for what is rare. */
  readonly fields?: readonly string[] | undefined;
  /** Made anew each time: for what is rare. */
  readonly origin?: RequestOrigin | undefined;
  send(message: Uint8Array): void;
  /** Ends the call, without a status with OK; what is sent after it is dropped. */
  end(status?: GrpcStatus): void;
  /** Calls back once when the call is over, no matter who ended it. */
  onClose(listener: () => void): void;
}

/** `request` is only valid until the handler returns. */
export type StreamHandler = (request: Uint8Array, stream: MessageStream) => void;

/** What a caller sends in a method that takes a stream of messages. */
export interface MessageListener {
  /** `message` is only valid until it returns. */
  onMessage(message: Uint8Array): void;
  /** The caller sends no more. */
  onEnd(): void;
}

export interface DuplexStream extends MessageStream {
  /**
   * Calls back once the peer's transport has all that was sent: an HTTP/2 PING behind it is answered. A proxy that speaks HTTP/2 is
   * such a peer. False: that cannot be known now.
   */
  whenArrived(listener: () => void): boolean;
}

/** Both sides send as they like. */
export type DuplexHandler = (stream: DuplexStream) => MessageListener;

/** Status codes of gRPC that this project answers with. https://github.com/grpc/grpc/blob/v1.60.0/doc/statuscodes.md */
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

/** Chosen: more does not fit into the header block that clients accept, once it is percent-encoded. */
const longestStatusText = 1024;

/** A status message as it may go into a trailer: bounded, and without the lone surrogates that have no encoding. */
export function statusText(message: string): string {
  const bounded = message.length > longestStatusText ? `${message.slice(0, longestStatusText)}...` : message;
  return bounded.toWellFormed();
}

/** Whose request it is and where it came in, as logs name it. */
export interface RequestOrigin {
  listener: 'gRPC' | 'HTTP';
  peer: string;
}

export interface UnaryReply {
  /**
   * The caller hung up, or its deadline passed, before it was answered: what has an effect and did not begin yet need not
   * begin. The call still ends with one of the two below.
   */
  readonly abandoned: boolean;
  /** Of a call that is traced; it ends with the call. */
  readonly span?: CallSpan | undefined;
  /** Where callers have to say who they are. */
  readonly caller?: AdmittedCaller | undefined;
  /** The header section of the call, name, value, name, value, names in lower case: for what is rare. */
  readonly fields?: readonly string[] | undefined;
  /** Made anew each time: for what is rare. */
  readonly origin?: RequestOrigin | undefined;
  /** Before the answer to a request that is beyond a bound: why. Undefined: nobody asks. */
  noteTooLarge?(reason: string): void;
  /** Called exactly once, with one of the two. */
  send(message: Uint8Array): void;
  fail(status: GrpcStatus): void;
}

/** How a unary method is served, whatever transport is below: bytes in, bytes or a status out. */
export interface UnaryHandler {
  /** `request` is only valid until the handler returns. */
  (request: Uint8Array, reply: UnaryReply): void;
  /** Of requests; anyone who takes a longer one in need not keep it. Undefined: the transport has a bound of its own. */
  readonly longest?: LongestRequest | undefined;
  /**
   * The answer of a limit that is exceeded, to a request of which nothing was read. Called once for each. Undefined: the
   * method decides nothing.
   */
  readonly overLimit?: (() => Uint8Array) | undefined;
}

export interface LongestRequest {
  readonly maxBytes: number;
  /** What the caller of a longer one gets, a message or a status. Called once for each. */
  refuse(bytes: number, origin?: RequestOrigin): Uint8Array | GrpcStatus;
}

/** A call that is traced. */
export interface CallSpan {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  set(name: string, value: string | number): void;
  /** Once, with the status that the caller got: gRPC's code, or HTTP's status where the call came that way. */
  end(status: number): void;
}

/** How a call becomes a span of a trace, for listeners and stores, which know no more of tracing. */
export interface CallTracer {
  /**
   * Undefined for a call that is not traced, which costs next to nothing. `method` is the path of gRPC, or HTTP's method and path;
   * `fields` are name, value, name, value, names in lower case. Never throws.
   */
  begin(method: string, fields: readonly string[]): CallSpan | undefined;
}
