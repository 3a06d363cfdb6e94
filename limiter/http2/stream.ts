/**
 * One request and its response, as the server sees a stream (RFC 9113, section 5.1). An idle stream has no object, and
 * neither has a closed one for the connection; only its handler may still hold it.
 *
 *               HEADERS                 END_STREAM received
 *     idle ───────────────────▶ OPEN ─────────────────────▶ HALF_CLOSED_REMOTE
 *       │                        │                                  │
 *       │ HEADERS with           │ END_STREAM sent, then            │ END_STREAM sent;
 *       │ END_STREAM             │ RST_STREAM(NO_ERROR) sent;       │ RST_STREAM either way
 *       │                        │ RST_STREAM either way            │
 *       ▼                        ▼                                  ▼
 *     HALF_CLOSED_REMOTE       CLOSED                            CLOSED
 *
 * A response that ends before its request makes the rest of the request pointless, so half-closed (local) is left at
 * once, as section 8.1 allows.
 */
import type { ErrorCode } from './constants.ts';
import type { HeaderFields, RequestConnection, RequestStream } from './request-handler.ts';
import type { ResponseWriter, SendQueue } from './response-writer.ts';

export const StreamState = { OPEN: 0, HALF_CLOSED_REMOTE: 1, CLOSED: 2 } as const;
export type StreamState = (typeof StreamState)[keyof typeof StreamState];

/** Fields beyond `RequestStream` belong to the connection. */
export class Http2Stream implements RequestStream {
  readonly id: number;
  context: unknown = undefined;
  state: StreamState;
  /** The handler gave its last piece; it may wait in the queue still. */
  responseEnded = false;
  /** What the peer lets us send: negative when it lowered its initial window (RFC 9113, section 6.9.2). */
  sendWindow: number;
  /** Received, padding included, and not yet given back by WINDOW_UPDATE. */
  uncreditedBytes = 0;
  bodyBytes = 0;
  /** What the handler keeps of it. */
  heldBytes = 0;
  /** What content-length said, or `noLength`. */
  readonly contentLength: number;
  readonly openedMs: number;
  queue: SendQueue | undefined = undefined;
  requestIsStream = false;
  answerIsStream = false;
  readonly #writer: ResponseWriter;

  constructor(
    writer: ResponseWriter,
    id: number,
    state: StreamState,
    sendWindow: number,
    contentLength: number,
    openedMs: number,
  ) {
    this.#writer = writer;
    this.id = id;
    this.state = state;
    this.sendWindow = sendWindow;
    this.contentLength = contentLength;
    this.openedMs = openedMs;
  }

  get connection(): RequestConnection {
    return this.#writer;
  }

  get isOpen(): boolean {
    return !this.responseEnded && this.state !== StreamState.CLOSED;
  }

  /** Its request is not complete and should be soon: no stream of messages, and not answered already. */
  get isUnfinished(): boolean {
    return this.state === StreamState.OPEN && !this.requestIsStream && !this.responseEnded;
  }

  /** It is there for what the peer has still to do: end its request, or take its answer. */
  get waitsForPeer(): boolean {
    return this.state === StreamState.OPEN || this.queue !== undefined || this.heldBytes > 0;
  }

  get queuedBytes(): number {
    return this.queue === undefined ? 0 : this.queue.bytes;
  }

  respond(fields: HeaderFields, body: Uint8Array, trailers: HeaderFields): void {
    if (this.isOpen) this.#writer.respond(this, fields, body, trailers);
  }

  sendHeaders(fields: HeaderFields, endStream: boolean): void {
    if (this.isOpen) this.#writer.sendHeaders(this, fields, endStream);
  }

  sendData(body: Uint8Array): void {
    if (this.isOpen) this.#writer.sendData(this, body);
  }

  sendTrailers(fields: HeaderFields): void {
    if (this.isOpen) this.#writer.sendTrailers(this, fields);
  }

  hold(bytes: number): void {
    if (this.state !== StreamState.CLOSED) this.#writer.hold(this, bytes);
  }

  reset(code: ErrorCode): void {
    if (this.isOpen) this.#writer.reset(this, code);
  }
}

/**
 * One receive window (RFC 9113, section 6.9): what the peer may still send, given back in bulk once half of it is used,
 * as what arrives is consumed at once.
 */
export class ReceiveWindow {
  readonly #size: number;
  #used = 0;

  constructor(size: number) {
    this.#size = size;
  }

  /** Counts a DATA frame's payload, padding included. False when the peer had not so much left. */
  take(bytes: number): boolean {
    this.#used += bytes;
    return this.#used <= this.#size;
  }

  /** What to announce by WINDOW_UPDATE now: 0 while it is not worth a frame. */
  credit(): number {
    if (2 * this.#used < this.#size) return 0;
    const credit = this.#used;
    this.#used = 0;
    return credit;
  }
}
