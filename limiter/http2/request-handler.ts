/**
 * The interface between HTTP/2 and the layer above it: requests as header fields and pieces of a body in, response fields and pieces of
 * a body out. Neither side depends on the internals of the other.
 */
import type { ErrorCode } from './constants.ts';

/**
 * Header fields in the order of the wire: name, value, name, value. Names are in lower case. Pseudo-header fields come first and have
 * been checked (RFC 9113, section 8.3.1). Each character is a byte. The list never changes.
 */
export type HeaderFields = readonly string[];

/** Handles every request of every connection that it serves. It must not throw: an error ends the connection. */
export interface RequestHandler {
  /** Called when a request's header section is complete. With `endStream` the request has no body. */
  onRequest(stream: RequestStream, fields: HeaderFields, endStream: boolean): void;
  /**
   * Called for a piece of the body. The bytes are only valid until it returns. Their flow control credit returns to the peer
   * automatically.
   */
  onData(stream: RequestStream, data: Uint8Array, endStream: boolean): void;
  /** Called for trailers, which end the request. */
  onTrailers(stream: RequestStream, fields: HeaderFields): void;
  /** Called when the peer reset the stream, or the connection was lost, before the response ended. Nothing can be sent any more. */
  onAbort(stream: RequestStream, code: ErrorCode): void;
  /**
   * Called when connections must hold less memory and this request has waited longest for its peer. The handler should answer the request
   * with an error now. A stream that is still open afterward is reset.
   */
  onShed?(stream: RequestStream): void;
}

/** Data that all requests of a connection share. Only the layers around HTTP/2 interpret these fields. */
export interface RequestConnection {
  /** The peer, as given by the owner of the connection. */
  readonly peer: unknown;
  /** The handler's data about the caller. The handler sets it. */
  callerMemo: unknown;
  /**
   * The handler's data about the fields of a request. If the next request repeats the fields, they are the same array. The handler sets
   * it.
   */
  fieldsMemo: unknown;
}

/** A request and its response. Calls after the end of the stream have no effect. */
export interface RequestStream {
  readonly id: number;
  /** The time at which its header section arrived, on the clock of the connection's owner. */
  readonly openedMs: number;
  /** The handler's data about this request. The handler sets it. */
  context: unknown;
  /** False after the response ended or the stream was aborted. */
  readonly isOpen: boolean;
  /** The same object for all requests of a connection. */
  readonly connection: RequestConnection;
  /** The handler sets it before the first byte of a body, if the peer may continue the request for any time. */
  requestIsStream: boolean;
  /** The handler sets it if the answer may continue as long as the peer is connected. */
  answerIsStream: boolean;
  /** Body bytes that wait for the peer's window. */
  readonly queuedBytes: number;
  /** Notes that the handler holds this number of bytes more for this request until its peer acts. Negative: fewer bytes. */
  hold(bytes: number): void;
  /**
   * Sends a whole response at once, which is the fast path: fields, one piece of body, trailers. The body begins with `lead`, which is
   * empty by default. Both are copied or written before this returns.
   */
  respond(fields: HeaderFields, body: Uint8Array, trailers: HeaderFields, lead?: Uint8Array): void;
  /** Sends the response's header section; with `endStream` that is the whole response ("trailers only" in gRPC). */
  sendHeaders(fields: HeaderFields, endStream: boolean): void;
  /** Sends a piece of the body, as far as the peer's windows allow. The rest waits. */
  sendData(body: Uint8Array): void;
  /** Ends the response after its body. */
  sendTrailers(fields: HeaderFields): void;
  reset(code: ErrorCode): void;
  /** Sends a PING after the body, and calls back when the peer answers it. Returns false if the body or too many PINGs wait. */
  probe(onAnswer: () => void): boolean;
}

/** The output of a connection: a socket, or a test. */
export interface Transport {
  /** Takes over the bytes, which do not change afterward. Returns false if they wait for the peer; `onDrain` follows. */
  write(bytes: Uint8Array): boolean;
  /** Sends the written bytes, then ends the output. It waits only briefly for the peer to end. */
  end(): void;
  /** Closes at once. */
  destroy(): void;
  /** Stops reading until `resume`, because the peer does not read its answers. Input that was already read may still be handed over. */
  pause(): void;
  resume(): void;
}
