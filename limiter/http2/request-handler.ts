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
  /**
   * Called when a request's header section is complete. With `endStream` the request has no body. Without it, the handler sets the
   * receiver of the rest, unless it has answered.
   */
  onRequest(stream: RequestStream, fields: HeaderFields, endStream: boolean): void;
}

/** Receives the rest of a request. It must not throw. */
export interface RequestReceiver {
  /**
   * Called for a piece of the body. The bytes are only valid until it returns. Their flow control credit returns to the peer
   * automatically. With `endStream` the request is complete; if trailers end it, the piece is empty.
   */
  receive(data: Uint8Array, endStream: boolean): void;
  /** Called when the peer reset the stream, or the connection was lost, before the response ended. Nothing can be sent any more. */
  abort(code: ErrorCode): void;
  /**
   * Called when connections must hold less memory and this request has waited longest for its peer. The receiver should answer the
   * request with an error now. A stream that is still open afterward is reset.
   */
  shed?(): void;
}

/** Data that all requests of a connection share, and their responses. Calls after the end of a stream have no effect. */
export interface RequestConnection {
  /** The peer, as given by the owner of the connection. Only the layers around HTTP/2 interpret it, and the following fields. */
  readonly peer: unknown;
  /** The handler's data about the caller. The handler sets it. */
  callerMemo: unknown;
  /**
   * The handler's data about the fields of a request. If the next request repeats the fields, they are the same array. The handler sets
   * it.
   */
  fieldsMemo: unknown;
  /**
   * Sends a whole response at once, which is the fast path: fields, one piece of body, trailers. The body begins with `lead`, which is
   * empty by default. Both are copied or written before this returns.
   */
  respond(
    stream: RequestStream,
    fields: HeaderFields,
    body: Uint8Array,
    trailers: HeaderFields,
    lead?: Uint8Array,
  ): void;
  /** Sends the response's header section; with `endStream` that is the whole response ("trailers only" in gRPC). */
  sendHeaders(stream: RequestStream, fields: HeaderFields, endStream: boolean): void;
  /** Sends a piece of the body, as far as the peer's windows allow. The rest waits. */
  sendData(stream: RequestStream, body: Uint8Array): void;
  /** Ends the response after its body. */
  sendTrailers(stream: RequestStream, fields: HeaderFields): void;
  reset(stream: RequestStream, code: ErrorCode): void;
  /** Notes that the handler holds this number of bytes more for a request until its peer acts. Negative: fewer bytes. */
  hold(stream: RequestStream, bytes: number): void;
  /** Sends a PING after the body, and calls back when the peer answers it. Returns false if the body or too many PINGs wait. */
  probe(stream: RequestStream, onAnswer: () => void): boolean;
}

/** A request and its response. */
export interface RequestStream {
  readonly id: number;
  /** The time at which its header section arrived, on the clock of the connection's owner. */
  readonly openedMs: number;
  /** The handler sets it. */
  receiver: RequestReceiver | undefined;
  /** False after the response ended or the stream was aborted. */
  readonly isOpen: boolean;
  /** Its connection, which sends the response. */
  readonly connection: RequestConnection;
  /** The handler sets it before the first byte of a body, if the peer may continue the request for any time. */
  requestIsStream: boolean;
  /** The handler sets it if the answer may continue as long as the peer is connected. */
  answerIsStream: boolean;
  /** Body bytes that wait for the peer's window. */
  readonly queuedBytes: number;
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
