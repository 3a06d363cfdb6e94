/** The streams of one connection: the open streams, and those that closed last (RFC 9113, section 5.1). */
import type { HeaderFields, RequestConnection, RequestReceiver, RequestStream } from './request-handler.ts';

/** The body of a stream that waits for the peer's windows, and the trailers after it. */
export class SendQueue {
  trailers: HeaderFields | undefined = undefined;
  bytes = 0;
  readonly #pieces: Uint8Array[] = [];
  #offset = 0;

  /** Appends a copy of the piece. */
  add(piece: Uint8Array): void {
    if (piece.length === 0) return;
    this.#pieces.push(new Uint8Array(piece));
    this.bytes += piece.length;
  }

  /** Moves this number of bytes, at most `this.bytes`, to `target`. */
  moveTo(target: Uint8Array, at: number, length: number): void {
    this.bytes -= length;
    for (let moved = 0; moved < length; ) {
      const piece = this.#pieces[0] as Uint8Array;
      const take = Math.min(length - moved, piece.length - this.#offset);
      target.set(piece.subarray(this.#offset, this.#offset + take), at + moved);
      moved += take;
      this.#offset += take;
      if (this.#offset === piece.length) {
        this.#pieces.shift();
        this.#offset = 0;
      }
    }
  }
}

/**
 * The states of a stream with one request and its response, as the server sees it (RFC 9113, section 5.1). An idle
 * stream has no object. The connection drops the object of a closed stream; its handler may still hold it.
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
 * If a response ends before its request, the rest of the request is pointless, so the stream leaves half-closed (local)
 * at once, as RFC 9113, section 8.1 allows.
 */
export const StreamState = { OPEN: 0, HALF_CLOSED_REMOTE: 1, CLOSED: 2 } as const;
export type StreamState = (typeof StreamState)[keyof typeof StreamState];

/** Fields that `RequestStream` does not have are for the connection. */
export class Http2Stream implements RequestStream {
  readonly id: number;
  receiver: RequestReceiver | undefined = undefined;
  state: StreamState;
  /** True until the handler has passed its last piece, which may still wait in the queue, or the stream is closed. */
  isOpen = true;
  /** The bytes that the peer allows us to send: negative after it lowered its initial window (RFC 9113, section 6.9.2). */
  sendWindow: number;
  /** The bytes that were received, including padding, and that WINDOW_UPDATE has not yet credited. */
  uncreditedBytes = 0;
  bodyBytes = 0;
  /** Bytes that the handler holds for this stream. */
  bufferedBytes = 0;
  /** The value of content-length, or `noLength`. */
  readonly contentLength: number;
  readonly openedMs: number;
  queue: SendQueue | undefined = undefined;
  requestIsStream = false;
  answerIsStream = false;
  readonly connection: RequestConnection;

  constructor(
    connection: RequestConnection,
    id: number,
    state: StreamState,
    sendWindow: number,
    contentLength: number,
    openedMs: number,
  ) {
    this.connection = connection;
    this.id = id;
    this.state = state;
    this.sendWindow = sendWindow;
    this.contentLength = contentLength;
    this.openedMs = openedMs;
  }

  /** Whether the request is incomplete but should be completed soon: it is not a stream of messages, and not answered yet. */
  get isUnfinished(): boolean {
    return this.state === StreamState.OPEN && !this.requestIsStream && this.isOpen;
  }

  /** Whether the peer has to act, that is, to end its request or to read its answer. */
  get waitsForPeer(): boolean {
    return this.state === StreamState.OPEN || this.queue !== undefined || this.bufferedBytes > 0;
  }

  get queuedBytes(): number {
    return this.queue === undefined ? 0 : this.queue.bytes;
  }
}

/**
 * How the streams that closed last were closed. This determines how late frames are treated (RFC 9113, section 5.1). On a stream that the
 * server reset, they were sent before the reset and are ignored. On a stream that ended regularly, they are errors. The number is
 * bounded: older streams count as unknown.
 */
export const ClosedBy = { UNKNOWN: 0, END: 1, PEER_RESET: 2, SERVER_RESET: 3 } as const;
export type ClosedBy = (typeof ClosedBy)[keyof typeof ClosedBy];

/** Chosen: enough for the late frames of streams that ended regularly. */
const firstSize = 64;
const empty = new Int32Array(0);

/**
 * Remembers the streams that closed last. Server resets are stored separately, so that busy connections do not forget them within a
 * round trip.
 */
class ClosedStreams {
  readonly #ended = new Ring(firstSize);
  readonly #peerReset = new Ring(firstSize);
  readonly #serverReset: Ring;

  /** The server may reset all of its `maxStreams` at once, and the rest of each request may still arrive. */
  constructor(maxStreams: number) {
    this.#serverReset = new Ring(Math.max(firstSize, maxStreams));
  }

  add(id: number, how: ClosedBy): void {
    let ring = this.#serverReset;
    if (how === ClosedBy.END) ring = this.#ended;
    else if (how === ClosedBy.PEER_RESET) ring = this.#peerReset;
    if (ring.next === ring.ids.length) ring.goOn();
    ring.ids[ring.next] = id;
    ring.next += 1;
  }

  find(id: number): ClosedBy {
    if (this.#serverReset.ids.includes(id)) return ClosedBy.SERVER_RESET;
    if (this.#ended.ids.includes(id)) return ClosedBy.END;
    return this.#peerReset.ids.includes(id) ? ClosedBy.PEER_RESET : ClosedBy.UNKNOWN;
  }

  /** Called when the last frame of the request has arrived. */
  requestEnded(id: number): void {
    const { ids } = this.#serverReset;
    const at = ids.indexOf(id);
    if (at >= 0) ids[at] = 0;
  }
}

/** A list that grows until it is full, and then overwrites its oldest entries. */
class Ring {
  /** The identifiers; 0 stands for no stream. */
  ids = empty;
  /** The position of the next entry. */
  next = 0;
  readonly #maxIds: number;

  constructor(maxIds: number) {
    this.#maxIds = maxIds;
  }

  /** Makes room after the last entry, or starts again at the first one. */
  goOn(): void {
    const { length } = this.ids;
    if (length >= this.#maxIds) {
      this.next = 0;
      return;
    }
    const larger = new Int32Array(Math.min(this.#maxIds, Math.max(firstSize, 2 * length)));
    larger.set(this.ids);
    this.ids = larger;
  }
}

/** The open streams of a connection, and how the last closed ones were closed. */
export class StreamTable {
  /** The highest identifier that the peer opened, rejected streams included. RFC 9113, section 5.1.1. */
  lastId = 0;
  /**
   * The bodies of incomplete requests. A request that is a stream of messages does not count, because only its current message is held.
   */
  bufferedBytes = 0;
  /** Streams whose request is not complete. */
  unfinished = 0;
  /** Bytes that handlers hold for streams. */
  handlerBytes = 0;
  /** The time at which the last stream closed or the connection began. Only meaningful while there is no stream. */
  emptySinceMs: number;
  /** The number of open streams. Read-only. */
  size = 0;
  readonly closed: ClosedStreams;
  /**
   * Open streams by identifier. The stream that was opened last is stored outside the map, because its frames are the most likely to
   * arrive next. Sequential calls then need no map, which would allocate at every fourth change.
   */
  readonly #older = new Map<number, Http2Stream>();
  #latest: Http2Stream | undefined;
  readonly #time: { readonly nowMs: number };

  /** `maxStreams` is the maximum number of open streams. */
  constructor(maxStreams: number, time: { readonly nowMs: number }) {
    this.closed = new ClosedStreams(maxStreams);
    this.#time = time;
    this.emptySinceMs = time.nowMs;
  }

  /** Returns the open stream with this identifier. */
  get(id: number): Http2Stream | undefined {
    const latest = this.#latest;
    return latest !== undefined && latest.id === id ? latest : this.#older.get(id);
  }

  /** Returns open streams in the order in which they were opened. During the iteration, streams may be closed, but not opened. */
  *values(): Generator<Http2Stream, void> {
    yield* this.#older.values();
    if (this.#latest !== undefined) yield this.#latest;
  }

  /** The identifier must be higher than all earlier ones. */
  add(stream: Http2Stream): void {
    if (this.#latest !== undefined) this.#older.set(this.#latest.id, this.#latest);
    this.#latest = stream;
    this.size += 1;
    if (stream.state === StreamState.OPEN) this.unfinished += 1;
  }

  /** Counts a received piece of the body. */
  hold(stream: Http2Stream, bytes: number): void {
    stream.bodyBytes += bytes;
    if (!stream.requestIsStream) this.bufferedBytes += bytes;
  }

  /** Called when the request is complete. */
  requestEnded(stream: Http2Stream): void {
    this.unfinished -= 1;
    if (!stream.requestIsStream) this.bufferedBytes -= stream.bodyBytes;
    stream.state = StreamState.HALF_CLOSED_REMOTE;
  }

  /** Of the streams that wait for the peer, returns the one that was opened first. */
  longestWaiting(): Http2Stream | undefined {
    for (const stream of this.values()) if (stream.waitsForPeer) return stream;
    return undefined;
  }

  close(stream: Http2Stream, how: ClosedBy): void {
    if (stream.state === StreamState.OPEN) this.requestEnded(stream);
    stream.state = StreamState.CLOSED;
    stream.isOpen = false;
    this.handlerBytes -= stream.bufferedBytes;
    stream.bufferedBytes = 0;
    const isLatest = stream === this.#latest;
    if (isLatest) this.#latest = undefined;
    // The stream may be closed already: a connection that fails closes all its streams, even while it writes one of them.
    if (isLatest || this.#older.delete(stream.id)) this.size -= 1;
    this.closed.add(stream.id, how);
    if (this.size === 0) this.emptySinceMs = this.#time.nowMs;
  }

  /** Whether the peer has not used the identifier yet. Even identifiers belong to the server, which opens no streams. */
  isIdle(id: number): boolean {
    return id > this.lastId || (id & 1) === 0;
  }
}
