/**
 * The receiving half of requests: HEADERS, CONTINUATION, DATA and RST_STREAM. Header blocks are always decoded, even for streams that
 * are rejected or ignored, because the blocks of a connection build on each other.
 */
import { HpackDecoder } from '../hpack/decoder.ts';
import type { ConnectionContext } from './connection-context.ts';
import { ErrorCode, Flag, initialHeaderTableBytes, largest31 } from './constants.ts';
import { readUint32, writeResetStream, writeWindowUpdate } from './frame-writer.ts';
import type { Http2Limits } from './limits.ts';
import { malformed, noLength, RequestFields, trailersAreWellFormed } from './request-fields.ts';
import type { HeaderFields } from './request-handler.ts';
import { ClosedBy, Http2Stream, StreamState } from './stream-table.ts';
import {
  ConnectionError,
  enhanceYourCalmError,
  flowControlError,
  frameSizeError,
  protocolError,
} from './violation.ts';

const priorityBytes = 5;

/** The position of the block in a HEADERS frame (RFC 9113, section 6.2), without the fields before it and the padding after it. */
export interface BlockPlace {
  start: number;
  end: number;
  /** RFC 7540, section 5.3.1: a stream must not depend on itself. */
  dependsOnItself: boolean;
}

/** @throws ConnectionError if the padding or the priority does not fit into the frame */
function placeOfBlock(
  flags: number,
  streamId: number,
  bytes: Uint8Array,
  start: number,
  end: number,
): BlockPlace {
  const place = { start, end, dependsOnItself: false };
  let padding = 0;
  if ((flags & Flag.PADDED) !== 0) {
    if (place.start === end) throw frameSizeError();
    padding = bytes[place.start] as number;
    place.start += 1;
  }
  if ((flags & Flag.PRIORITY) !== 0) {
    if (place.start + priorityBytes > end) throw frameSizeError();
    place.dependsOnItself = (readUint32(bytes, place.start) & largest31) === streamId;
    place.start += priorityBytes;
  }
  place.end = end - padding;
  if (place.end < place.start) throw protocolError();
  return place;
}

/** A header block that needs CONTINUATION. RFC 9113, section 6.10. */
export class HeaderBlock {
  readonly streamId: number;
  readonly endStream: boolean;
  readonly dependsOnItself: boolean;
  readonly startedMs: number;
  readonly #limits: Http2Limits;
  readonly #pieces: Uint8Array[] = [];
  #length = 0;
  #continuations = -1;

  constructor(
    limits: Http2Limits,
    streamId: number,
    endStream: boolean,
    dependsOnItself: boolean,
    startedMs: number,
  ) {
    this.#limits = limits;
    this.startedMs = startedMs;
    this.streamId = streamId;
    this.endStream = endStream;
    this.dependsOnItself = dependsOnItself;
  }

  get bytes(): number {
    return this.#length;
  }

  /** @throws ConnectionError if it becomes too long, or has too many frames */
  add(bytes: Uint8Array, start: number, end: number): void {
    this.#continuations += 1;
    this.#length += end - start;
    if (this.#continuations > this.#limits.maxContinuationFrames)
      throw enhanceYourCalmError('continuation_flood');
    if (this.#length > this.#limits.maxHeaderBlockBytes) throw enhanceYourCalmError('header_block_size');
    this.#pieces.push(Buffer.from(bytes.subarray(start, end)));
  }

  whole(): Uint8Array {
    return Buffer.concat(this.#pieces, this.#length);
  }
}

const tooLarge: HeaderFields = [':status', '431'];
const noBytes = new Uint8Array(0);

/**
 * Chosen: a longer block is not stored for comparison with the next one. A proxy's request to a limiter has some hundred bytes, and some
 * two hundred if nothing is indexed.
 */
const maxKnownBytes = 512;

export class RequestReader {
  /** The incomplete header section. Only its CONTINUATION frames may follow. */
  block: HeaderBlock | undefined = undefined;
  readonly #context: ConnectionContext;
  readonly #decoder: HpackDecoder;
  readonly #requestFields = new RequestFields();
  /** The last block that was short and changed nothing in the decoder: its bytes, its fields, and the decoder's `changes` at that time. */
  #knownBlock = noBytes;
  #knownLength = -1;
  #knownFields: HeaderFields = [];
  #knownChanges = 0;
  /** The bytes of all streams that were received, including padding, and that WINDOW_UPDATE has not yet credited. */
  #uncreditedBytes = 0;

  constructor(context: ConnectionContext) {
    this.#context = context;
    this.#decoder = new HpackDecoder({
      maxTableBytes: initialHeaderTableBytes,
      maxListBytes: context.limits.maxHeaderListBytes,
    });
  }

  onHeaders(flags: number, id: number, bytes: Uint8Array, start: number, end: number): void {
    if (id === 0) throw protocolError();
    const endStream = (flags & Flag.END_STREAM) !== 0;
    let from = start;
    let to = end;
    let dependsOnItself = false;
    if ((flags & (Flag.PADDED | Flag.PRIORITY)) !== 0) {
      const place = placeOfBlock(flags, id, bytes, start, end);
      from = place.start;
      to = place.end;
      dependsOnItself = place.dependsOnItself;
    }
    if ((flags & Flag.END_HEADERS) !== 0) {
      this.#section(id, endStream, dependsOnItself, bytes, from, to);
      return;
    }
    this.block = new HeaderBlock(this.#context.limits, id, endStream, dependsOnItself, this.#context.nowMs);
    this.block.add(bytes, from, to);
  }

  onContinuation(flags: number, id: number, bytes: Uint8Array, start: number, end: number): void {
    const block = this.block;
    if (block === undefined || block.streamId !== id) throw protocolError();
    block.add(bytes, start, end);
    if ((flags & Flag.END_HEADERS) === 0) return;
    this.block = undefined;
    const whole = block.whole();
    this.#section(id, block.endStream, block.dependsOnItself, whole, 0, whole.length);
  }

  onData(flags: number, id: number, bytes: Uint8Array, start: number, end: number): void {
    const { streams, limits } = this.#context;
    const stream = streams.get(id);
    if (stream === undefined && streams.isIdle(id)) throw protocolError();
    let from = start;
    let to = end;
    if ((flags & Flag.PADDED) !== 0) {
      if (start === end) throw frameSizeError();
      from = start + 1;
      to = end - (bytes[start] as number);
      if (to < from) throw protocolError();
    }
    // DATA counts against the window regardless of its stream. RFC 9113, section 6.9.
    this.#uncreditedBytes += end - start;
    if (2 * this.#uncreditedBytes >= limits.connectionWindowBytes) this.#creditConnection();
    if (stream === undefined) this.#lateData(id, (flags & Flag.END_STREAM) !== 0);
    else if (stream.state !== StreamState.OPEN) this.#context.streamError(id, ErrorCode.STREAM_CLOSED);
    else if ((flags & Flag.END_STREAM) !== 0) this.#lastData(stream, bytes.subarray(from, to), end - start);
    else this.#data(stream, bytes.subarray(from, to), end - start);
  }

  onResetStream(id: number, code: number): void {
    const { streams } = this.#context;
    if (streams.isIdle(id)) throw protocolError();
    const stream = streams.get(id);
    if (stream === undefined) {
      this.#context.spendControl(1);
      return;
    }
    const wasUnfinished = stream.isUnfinished;
    // An unknown code has no special meaning. RFC 9113, section 7.
    this.#context.abort(stream, code as ErrorCode, ClosedBy.PEER_RESET);
    this.#context.spendReset(stream, wasUnfinished);
  }

  /** @throws HpackError */
  #section(
    id: number,
    endStream: boolean,
    dependsOnItself: boolean,
    bytes: Uint8Array,
    start: number,
    end: number,
  ): void {
    const fields = this.#fieldsOf(bytes, start, end);
    const { streams } = this.#context;
    const stream = id <= streams.lastId ? streams.get(id) : undefined;
    if (stream !== undefined) {
      if (dependsOnItself) this.#context.streamError(id, ErrorCode.PROTOCOL_ERROR);
      else this.#trailers(stream, fields, endStream);
      return;
    }
    if ((id & 1) === 0) throw protocolError();
    if (id <= streams.lastId) {
      this.#lateSection(id, endStream);
      return;
    }
    streams.lastId = id;
    if (id > this.#context.lastServedId) streams.closed.add(id, ClosedBy.SERVER_RESET);
    else if (dependsOnItself) this.#context.streamError(id, ErrorCode.PROTOCOL_ERROR);
    else this.#request(id, fields, endStream);
  }

  /**
   * Returns the fields of a complete block, or undefined if they are too large. Most requests of a caller repeat the last block, and then
   * get the same array. @throws HpackError
   */
  #fieldsOf(block: Uint8Array, start: number, end: number): HeaderFields | undefined {
    const decoder = this.#decoder;
    const { changes } = decoder;
    const known = this.#knownBlock;
    const length = end - start;
    if (length === this.#knownLength && changes === this.#knownChanges) {
      // Blocks that differ usually do so at their end.
      let at = length - 1;
      while (at >= 0 && known[at] === block[start + at]) at -= 1;
      if (at < 0) return this.#knownFields;
    }
    const fields: string[] = [];
    if (!decoder.decode(block, start, end, fields)) return undefined;
    if (changes === decoder.changes && length <= maxKnownBytes) {
      if (length > known.length) this.#knownBlock = new Uint8Array(2 * length);
      for (let at = 0; at < length; at++) this.#knownBlock[at] = block[start + at]!;
      this.#knownLength = length;
      this.#knownFields = fields;
      this.#knownChanges = changes;
    }
    return fields;
  }

  #request(id: number, fields: HeaderFields | undefined, endStream: boolean): void {
    const { streams, writer, limits } = this.#context;
    if (streams.size >= limits.maxConcurrentStreams || writer.queuedBytes > limits.pauseQueuedBytes) {
      this.#reject(id);
      return;
    }
    if (fields === undefined) {
      this.#answerTooLarge(id, endStream);
      return;
    }
    const checked = this.#requestFields;
    // The section that repeats the last one has the same array.
    const contentLength = fields === checked.last ? checked.lastLength : checked.checkRequest(fields);
    if (contentLength === malformed || (endStream && contentLength > 0)) {
      this.#context.streamError(id, ErrorCode.PROTOCOL_ERROR);
      return;
    }
    const state = endStream ? StreamState.HALF_CLOSED_REMOTE : StreamState.OPEN;
    const stream = new Http2Stream(
      writer,
      id,
      state,
      writer.initialStreamWindow,
      contentLength,
      this.#context.nowMs,
    );
    streams.add(stream);
    this.#context.handler.onRequest(stream, fields, endStream);
  }

  /** Rejects a stream. Too many streams are not a fault of the peer before it has acknowledged the allowed number. */
  #reject(id: number): void {
    const { settingsAcknowledged, writer, limits } = this.#context;
    if (settingsAcknowledged || writer.queuedBytes > limits.pauseQueuedBytes) {
      this.#context.spendProvocation();
    }
    this.#context.resetStream(id, ErrorCode.REFUSED_STREAM);
  }

  /** Answers a request whose fields are too large. RFC 6585, section 5. */
  #answerTooLarge(id: number, endStream: boolean): void {
    this.#context.spendProvocation();
    this.#context.writer.reject(id, tooLarge);
    if (!endStream) writeResetStream(this.#context.output, id, ErrorCode.NO_ERROR);
    this.#context.streams.closed.add(id, endStream ? ClosedBy.END : ClosedBy.SERVER_RESET);
  }

  /** Trailers end the request, and only once. RFC 9113, section 8.1. */
  #trailers(stream: Http2Stream, fields: HeaderFields | undefined, endStream: boolean): void {
    if (stream.state !== StreamState.OPEN) {
      this.#context.streamError(stream.id, ErrorCode.STREAM_CLOSED);
    } else if (fields === undefined) {
      this.#context.streamError(stream.id, ErrorCode.ENHANCE_YOUR_CALM);
    } else if (
      !endStream ||
      !trailersAreWellFormed(fields) ||
      (stream.contentLength !== noLength && stream.contentLength !== stream.bodyBytes)
    ) {
      this.#context.streamError(stream.id, ErrorCode.PROTOCOL_ERROR);
    } else {
      this.#context.streams.requestEnded(stream);
      stream.receiver?.receive(noBytes, true);
    }
  }

  #lastData(stream: Http2Stream, data: Uint8Array, frameBytes: number): void {
    const { streams, limits } = this.#context;
    if (stream.uncreditedBytes + frameBytes > limits.streamWindowBytes) {
      this.#context.streamError(stream.id, ErrorCode.FLOW_CONTROL_ERROR);
      return;
    }
    const bodyBytes = stream.bodyBytes + data.length;
    // RFC 9113, section 8.1.1.
    if (stream.contentLength !== noLength && stream.contentLength !== bodyBytes) {
      this.#context.streamError(stream.id, ErrorCode.PROTOCOL_ERROR);
      return;
    }
    streams.requestEnded(stream);
    stream.bodyBytes = bodyBytes;
    stream.receiver?.receive(data, true);
  }

  #data(stream: Http2Stream, data: Uint8Array, frameBytes: number): void {
    const { streams, limits } = this.#context;
    stream.uncreditedBytes += frameBytes;
    if (stream.uncreditedBytes > limits.streamWindowBytes) {
      this.#context.streamError(stream.id, ErrorCode.FLOW_CONTROL_ERROR);
      return;
    }
    if (data.length === 0) this.#context.spendControl(1);
    streams.hold(stream, data.length);
    if (stream.contentLength !== noLength && stream.bodyBytes > stream.contentLength) {
      this.#context.streamError(stream.id, ErrorCode.PROTOCOL_ERROR);
      return;
    }
    if (streams.bufferedBytes > limits.maxBufferedBytes) {
      this.#context.streamError(stream.id, ErrorCode.ENHANCE_YOUR_CALM);
      return;
    }
    if (2 * stream.uncreditedBytes >= limits.streamWindowBytes) {
      writeWindowUpdate(this.#context.output, stream.id, stream.uncreditedBytes);
      stream.uncreditedBytes = 0;
    }
    if (data.length > 0) stream.receiver?.receive(data, false);
  }

  /** Credits the received bytes in one frame, once half of the window is used. Input is consumed at once. */
  #creditConnection(): void {
    if (this.#uncreditedBytes > this.#context.limits.connectionWindowBytes) throw flowControlError();
    writeWindowUpdate(this.#context.output, 0, this.#uncreditedBytes);
    this.#uncreditedBytes = 0;
  }

  /** Handles DATA on a closed stream. */
  #lateData(id: number, endStream: boolean): void {
    const { streams } = this.#context;
    if (streams.closed.find(id) === ClosedBy.SERVER_RESET) {
      this.#restOfReset(id, endStream);
      return;
    }
    this.#context.spendControl(1);
    this.#context.streamError(id, ErrorCode.STREAM_CLOSED);
  }

  /** Handles HEADERS on a closed stream. RFC 9113, sections 5.1 and 5.1.1. */
  #lateSection(id: number, endStream: boolean): void {
    const how = this.#context.streams.closed.find(id);
    if (how === ClosedBy.SERVER_RESET) {
      this.#restOfReset(id, endStream);
      return;
    }
    this.#context.spendControl(1);
    if (how === ClosedBy.PEER_RESET) this.#context.streamError(id, ErrorCode.STREAM_CLOSED);
    else if (how === ClosedBy.END) throw new ConnectionError(ErrorCode.STREAM_CLOSED, 'stream_closed');
    else throw protocolError();
  }

  /**
   * Handles a frame that was sent before the server's reset arrived. The end of a request costs nothing, because it arrives once, and the
   * reset was already paid for.
   */
  #restOfReset(id: number, endStream: boolean): void {
    if (endStream) this.#context.streams.closed.requestEnded(id);
    else this.#context.spendControl(1);
  }
}

/** Resets requests of a connection that were not completed in time. Each of them holds a stream and the received part of its body. */
export class UnfinishedRequests {
  readonly #context: ConnectionContext;
  readonly #onReset: () => void;
  #drainStartedMs = Number.POSITIVE_INFINITY;

  /** `onReset` is called for each request that was too late. */
  constructor(context: ConnectionContext, onReset: () => void) {
    this.#context = context;
    this.#onReset = onReset;
  }

  /** Gives incomplete requests `drainPingMs` to complete from now on. */
  drainStarted(nowMs: number): void {
    this.#drainStartedMs = nowMs;
  }

  /** Returns whether any request was reset. @throws ConnectionError if there were too many */
  tick(nowMs: number): boolean {
    const { requestTimeoutMs, drainPingMs } = this.#context.limits;
    const drainIsOver = nowMs - this.#drainStartedMs >= drainPingMs;
    const lastOpenedMs = drainIsOver ? nowMs : nowMs - requestTimeoutMs;
    const { streams } = this.#context;
    const before = streams.size;
    for (const stream of streams.values()) {
      // Streams come in the order in which they were opened.
      if (stream.openedMs > lastOpenedMs) break;
      if (!stream.isUnfinished) continue;
      // The request was not processed, so the peer may repeat it elsewhere. RFC 9113, section 8.7.
      if (drainIsOver) this.#context.resetStream(stream.id, ErrorCode.REFUSED_STREAM);
      else this.#resetLate(stream.id);
    }
    return streams.size < before;
  }

  #resetLate(id: number): void {
    this.#onReset();
    this.#context.streamError(id, ErrorCode.ENHANCE_YOUR_CALM);
  }
}
