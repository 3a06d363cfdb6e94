import { type ClosedBy, ClosedStreams } from './closed-streams.ts';
import { type Http2Stream, StreamState } from './stream.ts';

/** The streams of one connection that are not closed, and what is remembered of the others. */
export class StreamTable {
  /** The highest identifier that the peer opened, refused streams included. RFC 9113, section 5.1.1. */
  lastId = 0;
  /** Bodies of requests that are not complete. */
  heldBytes = 0;
  readonly closed = new ClosedStreams();
  readonly #open = new Map<number, Http2Stream>();
  readonly #onEmpty: () => void;

  /** `onEmpty` is called when the last stream closed. */
  constructor(onEmpty: () => void) {
    this.#onEmpty = onEmpty;
  }

  get size(): number {
    return this.#open.size;
  }

  get(id: number): Http2Stream | undefined {
    return this.#open.get(id);
  }

  add(stream: Http2Stream): void {
    this.#open.set(stream.id, stream);
  }

  /** The request is complete. */
  requestEnded(stream: Http2Stream): void {
    this.heldBytes -= stream.bodyBytes;
    stream.state = StreamState.HALF_CLOSED_REMOTE;
  }

  close(stream: Http2Stream, how: ClosedBy): void {
    if (stream.state === StreamState.OPEN) this.heldBytes -= stream.bodyBytes;
    stream.state = StreamState.CLOSED;
    this.#open.delete(stream.id);
    this.closed.add(stream.id, how);
    if (this.#open.size === 0) this.#onEmpty();
  }

  /** An identifier that the peer has not used. Even ones are the server's, which opens none. */
  isIdle(id: number): boolean {
    return id > this.lastId || (id & 1) === 0;
  }

  [Symbol.iterator](): IterableIterator<Http2Stream> {
    return this.#open.values();
  }
}
