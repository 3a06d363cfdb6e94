import { type ClosedBy, ClosedStreams } from './closed-streams.ts';
import { type Http2Stream, StreamState } from './stream.ts';

/** The streams of one connection that are not closed, and what is remembered of the others. */
export class StreamTable {
  /** The highest identifier that the peer opened, refused streams included. RFC 9113, section 5.1.1. */
  lastId = 0;
  /** Bodies of requests that are not complete; of those that are a stream nothing is held but the message under way. */
  heldBytes = 0;
  /** Streams whose request is not complete. */
  unfinished = 0;
  /** What handlers keep of streams. */
  handlerBytes = 0;
  readonly closed: ClosedStreams;
  readonly #open = new Map<number, Http2Stream>();
  readonly #onEmpty: () => void;

  /** `onEmpty` is called when the last stream closed; `maxStreams` is how many may be open. */
  constructor(options: { maxStreams: number; onEmpty: () => void }) {
    this.#onEmpty = options.onEmpty;
    this.closed = new ClosedStreams(options.maxStreams);
  }

  get size(): number {
    return this.#open.size;
  }

  get(id: number): Http2Stream | undefined {
    return this.#open.get(id);
  }

  add(stream: Http2Stream): void {
    this.#open.set(stream.id, stream);
    if (stream.state === StreamState.OPEN) this.unfinished += 1;
  }

  /** A piece of the body came. */
  hold(stream: Http2Stream, bytes: number): void {
    stream.bodyBytes += bytes;
    if (!stream.requestIsStream) this.heldBytes += bytes;
  }

  /** The request is complete. */
  requestEnded(stream: Http2Stream): void {
    this.#release(stream);
    stream.state = StreamState.HALF_CLOSED_REMOTE;
  }

  /** The one opened first of those that wait for the peer. */
  longestWaiting(): Http2Stream | undefined {
    for (const stream of this) if (stream.waitsForPeer) return stream;
    return undefined;
  }

  close(stream: Http2Stream, how: ClosedBy): void {
    if (stream.state === StreamState.OPEN) this.#release(stream);
    stream.state = StreamState.CLOSED;
    this.handlerBytes -= stream.heldBytes;
    stream.heldBytes = 0;
    this.#open.delete(stream.id);
    this.closed.add(stream.id, how);
    if (this.#open.size === 0) this.#onEmpty();
  }

  /** An identifier that the peer has not used. Even ones are the server's, which opens none. */
  isIdle(id: number): boolean {
    return id > this.lastId || (id & 1) === 0;
  }

  #release(stream: Http2Stream): void {
    this.unfinished -= 1;
    if (!stream.requestIsStream) this.heldBytes -= stream.bodyBytes;
  }

  /** The one that was opened first comes first. */
  [Symbol.iterator](): IterableIterator<Http2Stream> {
    return this.#open.values();
  }
}
