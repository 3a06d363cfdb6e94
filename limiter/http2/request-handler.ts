/**
 * Between HTTP/2 and the layer above it: requests as header fields and pieces of a body in, response fields and pieces
 * of a body out. Neither side knows the other's inside.
 */
import type { ErrorCode } from './constants.ts';

/**
 * Header fields in the order of the wire: name, value, name, value. Names are in lower case, pseudo-header fields come
 * first and were checked (RFC 9113, section 8.3.1); one character a byte. Never changed.
 */
export type HeaderFields = readonly string[];

/** Sees every request of every connection that it serves. Must not throw: what does ends the connection. */
export interface RequestHandler {
  /** A request's header section is complete. With `endStream` it has no body. */
  onRequest(stream: RequestStream, fields: HeaderFields, endStream: boolean): void;
  /** A piece of the body; the bytes are only valid until it returns, and their credit goes back to the peer by itself. */
  onData(stream: RequestStream, data: Uint8Array, endStream: boolean): void;
  /** Trailers, which end the request. */
  onTrailers(stream: RequestStream, fields: HeaderFields): void;
  /** The stream was reset by the peer or lost with its connection before the response ended: nothing can be sent any more. */
  onAbort(stream: RequestStream, code: ErrorCode): void;
  /**
   * What connections hold has to become less, and this request waits for its peer longest: it is to be answered with a
   * refusal now. One that is still open afterwards is reset.
   */
  onShed?(stream: RequestStream): void;
}

/** What all requests of a connection share. All fields mean something to those around HTTP/2 alone. */
export interface RequestConnection {
  /** Who is at the other end, as the owner of the connection gave it. */
  readonly peer: unknown;
  /** The handler's own: what it knows of its caller. */
  callerMemo: unknown;
  /** The handler's own: what it read in the fields of a request, which are the same array for one that repeats the last. */
  fieldsMemo: unknown;
}

/** One request and its response. Everything that is called after the end of the stream does nothing. */
export interface RequestStream {
  readonly id: number;
  /** When its header section came, on the clock of who owns the connection. */
  readonly openedMs: number;
  /** The handler's own: what it knows of this request. */
  context: unknown;
  /** False once the response ended or the stream was aborted. */
  readonly isOpen: boolean;
  /** The same object for all requests of a connection. */
  readonly connection: RequestConnection;
  /** Set by the handler before the first byte of a body: the request may go on as long as its peer likes. */
  requestIsStream: boolean;
  /** Set by the handler: the answer may go on as long as its peer is there. */
  answerIsStream: boolean;
  /** Body bytes that wait for the peer's window. */
  readonly queuedBytes: number;
  /** The handler keeps so many bytes more for this request while its peer has not done its part; of less, below 0. */
  hold(bytes: number): void;
  /**
   * A whole response at once, which is the fast way: fields, one piece of body, trailers. The body begins with `lead`, by default
   * with nothing; both are copied or written before it returns.
   */
  respond(fields: HeaderFields, body: Uint8Array, trailers: HeaderFields, lead?: Uint8Array): void;
  /** The response's header section; with `endStream` that is the whole response ("trailers only" in gRPC). */
  sendHeaders(fields: HeaderFields, endStream: boolean): void;
  /** A piece of body, as far as the peer's windows allow; the rest waits. */
  sendData(body: Uint8Array): void;
  /** Ends the response once the body is out. */
  sendTrailers(fields: HeaderFields): void;
  reset(code: ErrorCode): void;
  /** Sends a PING behind the body, and calls back when it is answered. False where body waits, or too many PINGs do. */
  probe(onAnswer: () => void): boolean;
}

/** What a connection writes to: a socket, or a test. */
export interface Transport {
  /** Takes the bytes over, which are not changed afterwards. False when they wait for the peer: `onDrain` follows. */
  write(bytes: Uint8Array): boolean;
  /** Sends what was written, then ends; the peer's end is not waited for longer than a moment. */
  end(): void;
  /** Ends at once. */
  destroy(): void;
  /** Reads no more until `resume`: the peer does not read its answers. What was read already may still be handed over. */
  pause(): void;
  resume(): void;
}
