import { type Http2Stream, StreamState } from './stream.ts';

/**
 * Remembers the streams that closed last and how, as frames that come late mean different things (RFC 9113, section
 * 5.1): on a stream that the server reset they are on their way still and ignored, on one that ended well they are
 * faults. Bounded: older streams count as unknown.
 */
export const ClosedBy = { UNKNOWN: 0, END: 1, PEER_RESET: 2, SERVER_RESET: 3 } as const;
export type ClosedBy = (typeof ClosedBy)[keyof typeof ClosedBy];

/** Chosen: enough for what is on its way on streams that ended well. */
const firstSize = 64;
const empty = new Int32Array(0);

/** Server resets are kept apart, so that busy connections do not forget them within a round trip. */
class ClosedStreams {
  readonly #ended = new Ring(firstSize);
  readonly #peerReset = new Ring(firstSize);
  readonly #serverReset: Ring;

  /** The server may reset all of its `maxStreams` at once, and the rest of each request may be on its way. */
  constructor(maxStreams: number) {
    this.#serverReset = new Ring(Math.max(firstSize, maxStreams));
  }

  add(id: number, how: ClosedBy): void {
    if (how === ClosedBy.END) this.#ended.add(id);
    else if (how === ClosedBy.PEER_RESET) this.#peerReset.add(id);
    else this.#serverReset.add(id);
  }

  find(id: number): ClosedBy {
    if (this.#serverReset.has(id)) return ClosedBy.SERVER_RESET;
    if (this.#ended.has(id)) return ClosedBy.END;
    return this.#peerReset.has(id) ? ClosedBy.PEER_RESET : ClosedBy.UNKNOWN;
  }

  /** The request's last frame came as well: nothing more is on its way. */
  requestEnded(id: number): void {
    this.#serverReset.remove(id);
  }
}

/** Grows as it fills, and then forgets what is oldest. */
class Ring {
  readonly #mostIds: number;
  /** 0 is no stream. */
  #ids = empty;
  #next = 0;

  constructor(mostIds: number) {
    this.#mostIds = mostIds;
  }

  add(id: number): void {
    if (this.#next === this.#ids.length) this.#goOn();
    this.#ids[this.#next] = id;
    this.#next += 1;
  }

  has(id: number): boolean {
    return this.#ids.includes(id);
  }

  remove(id: number): void {
    const at = this.#ids.indexOf(id);
    if (at >= 0) this.#ids[at] = 0;
  }

  #goOn(): void {
    const { length } = this.#ids;
    if (length >= this.#mostIds) {
      this.#next = 0;
      return;
    }
    const larger = new Int32Array(Math.min(this.#mostIds, Math.max(firstSize, 2 * length)));
    larger.set(this.#ids);
    this.#ids = larger;
  }
}

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
