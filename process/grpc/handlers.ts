/** How a unary method is served, whatever transport is below: bytes in, bytes or a status out. */
import type { CallSpan } from './call-tracer.ts';
import type { AdmittedCaller } from './caller-gate.ts';

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
  /** Made anew each time: for what is rare. */
  readonly origin?: RequestOrigin | undefined;
  /** Called exactly once, with one of the two. */
  send(message: Uint8Array): void;
  fail(status: GrpcStatus): void;
}

export interface UnaryHandler {
  /** `request` is only valid until the handler returns. */
  (request: Uint8Array, reply: UnaryReply): void;
  /** Of requests; whoever takes a longer one in need not keep it. Undefined: the transport has a bound of its own. */
  readonly longest?: LongestRequest | undefined;
}

export interface LongestRequest {
  readonly maxBytes: number;
  /** What the caller of a longer one is told. Called once for each. */
  refuse(bytes: number, origin?: RequestOrigin): GrpcStatus;
}
