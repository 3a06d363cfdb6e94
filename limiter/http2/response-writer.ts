import { HpackEncoder, maxEncodedBytes } from '../hpack/encoder.ts';
import {
  ErrorCode,
  Flag,
  FrameType,
  frameHeaderBytes,
  initialHeaderTableBytes,
  initialMaxFrameBytes,
  initialWindowBytes,
  largest31,
} from './constants.ts';
import { type OutputBuffer, writeFrameHeader, writePing, writeResetStream } from './frame-writer.ts';
import type { HeaderFields, RequestConnection } from './request-handler.ts';
import { ClosedBy, type Http2Stream, SendQueue, StreamState, type StreamTable } from './stream-table.ts';

/**
 * The header sections of the last response, which the next one usually repeats, and their bytes. The bytes are valid until the table
 * changes.
 */
interface KnownSections {
  readonly fields: HeaderFields;
  readonly trailers: HeaderFields;
  readonly head: Uint8Array;
  readonly tail: Uint8Array;
  /** The value of the encoder's `changes` when the bytes were encoded. */
  readonly changes: number;
}

const noFields: HeaderFields = [];
const noBytes = new Uint8Array(0);

/** Chosen: the maximum number of PINGs that a peer may leave unanswered. */
const maxProbes = 1_000;

/** Chosen: longer frames are not stored. The frame of a typical response has 12 bytes. */
const maxKnownBytes = 64;

/**
 * The sending half: writes responses as frames, within the peer's windows (RFC 9113, section 6.9). Data beyond the windows is copied and
 * waits with its stream. WINDOW_UPDATE and SETTINGS release it, starting with the stream that has waited longest. Frames are never
 * larger than 16,384 bytes, which every peer must accept (RFC 9113, section 4.2).
 */
export class ResponseWriter implements RequestConnection {
  readonly peer: unknown;
  callerMemo: unknown = undefined;
  fieldsMemo: unknown = undefined;
  readonly encoder = new HpackEncoder({ maxTableBytes: initialHeaderTableBytes });
  /** The peer's SETTINGS_INITIAL_WINDOW_SIZE. */
  initialStreamWindow = initialWindowBytes;
  /** The size of bodies that wait for windows. */
  queuedBytes = 0;
  /** The number of pieces of waiting bodies that were sent. It does not change for a slow reader. */
  sentFromQueues = 0;
  /** The number of complete responses with a body. Rejections alone are not useful work. */
  served = 0;
  /** Streams whose answer waits for windows. Read-only. */
  readonly waiting = new Set<Http2Stream>();
  /** Callbacks for the answers to PINGs, by payload. */
  #probes: Map<string, () => void> | undefined;
  #probeCount = 0;
  readonly #output: OutputBuffer;
  readonly #streams: StreamTable;
  readonly #onWritten: () => void;
  #connectionWindow = initialWindowBytes;
  #known: KnownSections = { fields: noFields, trailers: noFields, head: noBytes, tail: noBytes, changes: -1 };

  constructor(options: {
    peer: unknown;
    output: OutputBuffer;
    streams: StreamTable;
    /** Called when output was gathered, or when it has to wait. */
    onWritten: () => void;
  }) {
    this.peer = options.peer;
    this.#output = options.output;
    this.#streams = options.streams;
    this.#onWritten = options.onWritten;
  }

  respond(
    stream: Http2Stream,
    fields: HeaderFields,
    body: Uint8Array,
    trailers: HeaderFields,
    lead: Uint8Array = noBytes,
  ): void {
    if (!stream.isOpen) return;
    const leadBytes = lead.length;
    const length = leadBytes + body.length;
    const known = this.#known;
    const isKnown =
      fields === known.fields && trailers === known.trailers && this.encoder.changes === known.changes;
    const headBytes = isKnown ? known.head.length : maxEncodedBytes(fields);
    const tailBytes = isKnown ? known.tail.length : maxEncodedBytes(trailers);
    const fits =
      length <= stream.sendWindow &&
      length <= this.#connectionWindow &&
      length <= initialMaxFrameBytes &&
      headBytes <= initialMaxFrameBytes &&
      tailBytes <= initialMaxFrameBytes &&
      stream.queue === undefined;
    if (!fits) {
      this.sendHeaders(stream, fields, false);
      this.sendData(stream, leadBytes === 0 ? body : Buffer.concat([lead, body]));
      this.sendTrailers(stream, trailers);
      return;
    }
    stream.isOpen = false;
    const output = this.#output;
    output.reserve(3 * frameHeaderBytes + headBytes + length + tailBytes);
    const { changes } = this.encoder;
    const start = output.end;
    if (isKnown) this.#writeKnownBlock(stream.id, known.head, Flag.END_HEADERS);
    else this.#writeShortBlock(stream.id, fields, Flag.END_HEADERS);
    const headEnd = output.end;
    if (length > 0) {
      const at = headEnd + frameHeaderBytes;
      const { bytes } = output;
      writeFrameHeader(bytes, headEnd, length, FrameType.DATA, 0, stream.id);
      for (let index = 0; index < leadBytes; index++) bytes[at + index] = lead[index]!;
      bytes.set(body, at + leadBytes);
      output.end = at + length;
      stream.sendWindow -= length;
      this.#connectionWindow -= length;
      this.served += 1;
    }
    const tailStart = output.end;
    const lastFlags = Flag.END_HEADERS | Flag.END_STREAM;
    if (isKnown) this.#writeKnownBlock(stream.id, known.tail, lastFlags);
    else {
      this.#writeShortBlock(stream.id, trailers, lastFlags);
      if (this.encoder.changes === changes) this.#know(fields, trailers, [start, headEnd, tailStart]);
    }
    this.#completed(stream);
    this.#onWritten();
  }

  sendHeaders(stream: Http2Stream, fields: HeaderFields, endStream: boolean): void {
    if (!stream.isOpen) return;
    this.#writeBlock(stream.id, fields, endStream ? Flag.END_STREAM : 0);
    if (endStream) {
      stream.isOpen = false;
      this.#completed(stream);
    }
    this.#onWritten();
  }

  sendData(stream: Http2Stream, body: Uint8Array): void {
    if (!stream.isOpen) return;
    let at = 0;
    if (stream.queue === undefined) {
      const allowed = Math.min(body.length, stream.sendWindow, this.#connectionWindow);
      for (; at < allowed; at += initialMaxFrameBytes) {
        this.#writeData(stream, body.subarray(at, Math.min(allowed, at + initialMaxFrameBytes)));
      }
      at = Math.max(0, Math.min(at, allowed));
    }
    if (at < body.length) this.#wait(stream, body.subarray(at));
    this.#onWritten();
  }

  sendTrailers(stream: Http2Stream, fields: HeaderFields): void {
    if (!stream.isOpen) return;
    stream.isOpen = false;
    if (stream.queue !== undefined) stream.queue.trailers = fields;
    else this.#writeTrailers(stream, fields);
    this.#onWritten();
  }

  hold(stream: Http2Stream, bytes: number): void {
    if (stream.state === StreamState.CLOSED) return;
    stream.bufferedBytes += bytes;
    this.#streams.handlerBytes += bytes;
  }

  reset(stream: Http2Stream, code: ErrorCode): void {
    if (!stream.isOpen) return;
    writeResetStream(this.#output, stream.id, code);
    this.forget(stream);
    this.#streams.close(stream, ClosedBy.SERVER_RESET);
    this.#onWritten();
  }

  probe(stream: Http2Stream, onAnswer: () => void): boolean {
    if (!stream.isOpen || stream.queue !== undefined) return false;
    this.#probes ??= new Map();
    if (this.#probes.size >= maxProbes) return false;
    this.#probeCount = (this.#probeCount + 1) % 1e7;
    const payload = `p${this.#probeCount}`.padEnd(8);
    this.#probes.set(payload, onAnswer);
    writePing(this.#output, 0, Buffer.from(payload));
    this.#onWritten();
    return true;
  }

  pingAnswered(payload: Uint8Array): void {
    if (this.#probes === undefined) return;
    const carried = Buffer.from(payload).toString('latin1');
    const onAnswer = this.#probes.get(carried);
    this.#probes.delete(carried);
    onAnswer?.();
  }

  /** Drops the queue of a stream that is about to close. */
  forget(stream: Http2Stream): void {
    if (stream.queue === undefined) return;
    this.queuedBytes -= stream.queue.bytes;
    stream.queue = undefined;
    this.waiting.delete(stream);
  }

  /** Sends a response without a body to a request that has no stream. */
  reject(streamId: number, fields: HeaderFields): void {
    this.#writeBlock(streamId, fields, Flag.END_STREAM);
  }

  /** Increases the connection's window. Returns false if it would overflow. */
  openConnectionWindow(increment: number): boolean {
    this.#connectionWindow += increment;
    if (this.#connectionWindow > largest31) return false;
    this.#sendWaiting();
    return true;
  }

  /** Increases a stream's window. Returns false if it would overflow. */
  openStreamWindow(stream: Http2Stream, increment: number): boolean {
    stream.sendWindow += increment;
    if (stream.sendWindow > largest31) return false;
    if (stream.queue !== undefined) this.#sendQueued(stream);
    return true;
  }

  /** Applies the peer's SETTINGS_INITIAL_WINDOW_SIZE to all streams. Returns false if a window would overflow. */
  changeInitialWindow(size: number): boolean {
    const change = size - this.initialStreamWindow;
    this.initialStreamWindow = size;
    for (const stream of this.#streams.values()) {
      stream.sendWindow += change;
      if (stream.sendWindow > largest31) return false;
    }
    if (change > 0) this.#sendWaiting();
    return true;
  }

  /**
   * Stores the HEADERS frames of the response that was written last. The positions are the start and end of the first frame, and the
   * start of the second frame, which ends at the end of the output.
   */
  #know(
    fields: HeaderFields,
    trailers: HeaderFields,
    [start, headEnd, tailStart]: [number, number, number],
  ): void {
    const { bytes, end } = this.#output;
    if (headEnd - start > maxKnownBytes || end - tailStart > maxKnownBytes) return;
    const { changes } = this.encoder;
    const head = Uint8Array.from(bytes.subarray(start + frameHeaderBytes, headEnd));
    const tail = Uint8Array.from(bytes.subarray(tailStart + frameHeaderBytes, end));
    this.#known = { fields, trailers, head, tail, changes };
  }

  #sendWaiting(): void {
    for (const stream of this.waiting) {
      if (this.#connectionWindow <= 0) return;
      this.#sendQueued(stream);
    }
  }

  #sendQueued(stream: Http2Stream): void {
    const queue = stream.queue as SendQueue;
    for (;;) {
      const max = Math.min(queue.bytes, stream.sendWindow, this.#connectionWindow, initialMaxFrameBytes);
      if (max <= 0) break;
      const at = this.#output.reserve(frameHeaderBytes + max);
      writeFrameHeader(this.#output.bytes, at, max, FrameType.DATA, 0, stream.id);
      queue.moveTo(this.#output.bytes, at + frameHeaderBytes, max);
      this.#output.end = at + frameHeaderBytes + max;
      this.#spend(stream, max);
      this.queuedBytes -= max;
      this.sentFromQueues += 1;
    }
    if (queue.bytes > 0) return;
    this.waiting.delete(stream);
    stream.queue = undefined;
    if (queue.trailers !== undefined) this.#writeTrailers(stream, queue.trailers);
  }

  #wait(stream: Http2Stream, piece: Uint8Array): void {
    if (stream.queue === undefined) {
      stream.queue = new SendQueue();
      this.waiting.add(stream);
    }
    stream.queue.add(piece);
    this.queuedBytes += piece.length;
  }

  #writeData(stream: Http2Stream, piece: Uint8Array): void {
    const at = this.#output.reserve(frameHeaderBytes + piece.length);
    writeFrameHeader(this.#output.bytes, at, piece.length, FrameType.DATA, 0, stream.id);
    this.#output.bytes.set(piece, at + frameHeaderBytes);
    this.#output.end = at + frameHeaderBytes + piece.length;
    this.#spend(stream, piece.length);
  }

  #spend(stream: Http2Stream, bytes: number): void {
    stream.sendWindow -= bytes;
    this.#connectionWindow -= bytes;
  }

  #writeTrailers(stream: Http2Stream, fields: HeaderFields): void {
    this.#writeBlock(stream.id, fields, Flag.END_STREAM);
    this.served += 1;
    this.#completed(stream);
  }

  /**
   * Called when END_STREAM was sent. If the request is incomplete, the peer is notified that the rest is not read. RFC 9113, section 8.1.
   */
  #completed(stream: Http2Stream): void {
    if (stream.state === StreamState.HALF_CLOSED_REMOTE) {
      this.#streams.close(stream, ClosedBy.END);
      return;
    }
    writeResetStream(this.#output, stream.id, ErrorCode.NO_ERROR);
    this.#streams.close(stream, ClosedBy.SERVER_RESET);
  }

  #writeBlock(streamId: number, fields: HeaderFields, flags: number): void {
    const max = maxEncodedBytes(fields);
    this.#output.reserve(frameHeaderBytes + max);
    if (max <= initialMaxFrameBytes) this.#writeShortBlock(streamId, fields, flags | Flag.END_HEADERS);
    else this.#writeLongBlock(streamId, fields, flags, max);
  }

  /** The caller has reserved the space. */
  #writeShortBlock(streamId: number, fields: HeaderFields, flags: number): void {
    const output = this.#output;
    const at = output.end;
    output.end = this.encoder.encode(fields, output.bytes, at + frameHeaderBytes);
    const length = output.end - at - frameHeaderBytes;
    writeFrameHeader(output.bytes, at, length, FrameType.HEADERS, flags, streamId);
  }

  /** The caller has reserved the space. */
  #writeKnownBlock(streamId: number, block: Uint8Array, flags: number): void {
    const { bytes, end } = this.#output;
    const { length } = block;
    writeFrameHeader(bytes, end, length, FrameType.HEADERS, flags, streamId);
    const at = end + frameHeaderBytes;
    for (let index = 0; index < length; index++) bytes[at + index] = block[index]!;
    this.#output.end = at + length;
  }

  /** Writes HEADERS and as many CONTINUATION frames as needed. RFC 9113, section 6.10. */
  #writeLongBlock(streamId: number, fields: HeaderFields, flags: number, max: number): void {
    const block = Buffer.allocUnsafe(max);
    const length = this.encoder.encode(fields, block, 0);
    for (let at = 0; at === 0 || at < length; at += initialMaxFrameBytes) {
      const piece = block.subarray(at, Math.min(length, at + initialMaxFrameBytes));
      const last = at + initialMaxFrameBytes >= length ? Flag.END_HEADERS : 0;
      const offset = this.#output.reserve(frameHeaderBytes + piece.length);
      const type = at === 0 ? FrameType.HEADERS : FrameType.CONTINUATION;
      const flagsOfPiece = at === 0 ? flags | last : last;
      writeFrameHeader(this.#output.bytes, offset, piece.length, type, flagsOfPiece, streamId);
      this.#output.bytes.set(piece, offset + frameHeaderBytes);
      this.#output.end = offset + frameHeaderBytes + piece.length;
    }
  }
}
