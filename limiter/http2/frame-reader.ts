/**
 * Splits a stream of bytes into frames. Frames of requests go to the request reader, and all others are handled here.
 *
 *     Length (24) | Type (8) | Flags (8) | Reserved (1) | Stream Identifier (31) | Payload
 */
import type { ConnectionContext } from './connection-context.ts';
import {
  clientPreface,
  ErrorCode,
  Flag,
  FrameType,
  frameHeaderBytes,
  initialMaxFrameBytes,
  initialWindowBytes,
  largest31,
  largestMaxFrameBytes,
  Setting,
} from './constants.ts';
import {
  type OutputBuffer,
  readUint32,
  writePing,
  writeSettings,
  writeSettingsAck,
  writeWindowUpdate,
} from './frame-writer.ts';
import type { Http2Limits } from './limits.ts';
import { RequestReader } from './request-reader.ts';
import type { ResponseWriter } from './response-writer.ts';
import { flowControlError, frameSizeError, protocolError } from './violation.ts';

export interface FrameSink {
  /** The frame is `bytes` from `at` to `end`, including its header. It is valid until this returns. Returns false to stop the reading. */
  onFrame(bytes: Uint8Array, at: number, end: number): boolean;
}

const nothing = new Uint8Array(0);

/** Chosen: the size of the first buffer for a frame that is split, including its header. Most requests fit. */
const firstRoomBytes = 512;

/**
 * RFC 9113, section 4.1. A frame that arrives in one piece is passed on without a copy. A frame that is split is gathered in a buffer.
 * The buffer grows with the received bytes and is never larger than the largest frame.
 */
export class FrameReader {
  /** The bytes of the incomplete frame, or of its header. Read-only. */
  partial: Uint8Array = nothing;
  readonly #sink: FrameSink;
  #gathered = 0;
  #wanted = 0;
  #cuts = 0;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  /** The number of the incomplete frame among all frames that were split; 0: none. */
  get unfinishedFrame(): number {
    return this.#gathered > 0 ? this.#cuts : 0;
  }

  /** @throws ConnectionError if a frame is too large, as soon as its header is complete */
  read(bytes: Uint8Array, offset: number): void {
    let at = offset;
    if (this.#gathered > 0) {
      at = this.#gather(bytes, at);
      if (at < 0) return;
    }
    while (at + frameHeaderBytes <= bytes.length) {
      const end = at + frameHeaderBytes + payloadLength(bytes, at);
      if (end > bytes.length) break;
      if (!this.#sink.onFrame(bytes, at, end)) return;
      at = end;
    }
    if (at < bytes.length) this.#keep(bytes, at);
  }

  /** Completes the frame that was split. Returns the offset of the next one, or -1 if no more can be read. */
  #gather(bytes: Uint8Array, offset: number): number {
    let at = offset;
    for (;;) {
      const take = Math.min(this.#wanted - this.#gathered, bytes.length - at);
      this.#makeRoom(this.#gathered + take);
      this.partial.set(bytes.subarray(at, at + take), this.#gathered);
      this.#gathered += take;
      at += take;
      if (this.#gathered < this.#wanted) return -1;
      if (this.#wanted > frameHeaderBytes) break;
      this.#wanted = frameHeaderBytes + payloadLength(this.partial, 0);
      if (this.#wanted === frameHeaderBytes) break;
    }
    const frame = this.partial;
    this.partial = nothing;
    this.#gathered = 0;
    return this.#sink.onFrame(frame, 0, this.#wanted) ? at : -1;
  }

  #makeRoom(needed: number): void {
    if (needed <= this.partial.length) return;
    const larger = new Uint8Array(Math.min(this.#wanted, Math.max(firstRoomBytes, 2 * needed)));
    larger.set(this.partial.subarray(0, this.#gathered));
    this.partial = larger;
  }

  #keep(bytes: Uint8Array, at: number): void {
    const rest = bytes.length - at;
    const whole = rest >= frameHeaderBytes ? frameHeaderBytes + payloadLength(bytes, at) : frameHeaderBytes;
    this.#wanted = whole;
    this.#makeRoom(rest);
    this.partial.set(bytes.subarray(at));
    this.#gathered = rest;
    this.#cuts += 1;
  }
}

function payloadLength(bytes: Uint8Array, at: number): number {
  const length = ((bytes[at] as number) << 16) | ((bytes[at + 1] as number) << 8) | (bytes[at + 2] as number);
  // RFC 9113, section 4.2: a stream error would suffice for some frames, but is never required.
  if (length > initialMaxFrameBytes) throw frameSizeError();
  return length;
}

/** Recognizes the client's preface, regardless of how it is split. RFC 9113, section 3.4. */
export class PrefaceReader {
  #matched = 0;

  get isComplete(): boolean {
    return this.#matched === clientPreface.length;
  }

  /** Returns the offset of the end of the preface in `bytes`, or -1 if they are not a preface. */
  read(bytes: Uint8Array): number {
    let at = 0;
    for (; at < bytes.length && this.#matched < clientPreface.length; at++) {
      if (bytes[at] !== clientPreface[this.#matched]) return -1;
      this.#matched += 1;
    }
    return at;
  }
}

/** SETTINGS_HEADER_TABLE_SIZE and SETTINGS_MAX_FRAME_SIZE have their initial values. */
export function writeServerPreface(output: OutputBuffer, limits: Http2Limits): void {
  writeSettings(output, [
    [Setting.MAX_CONCURRENT_STREAMS, limits.maxConcurrentStreams],
    [Setting.INITIAL_WINDOW_SIZE, limits.streamWindowBytes],
    [Setting.MAX_HEADER_LIST_SIZE, limits.maxHeaderListBytes],
  ]);
  const more = limits.connectionWindowBytes - initialWindowBytes;
  if (more > 0) writeWindowUpdate(output, 0, more);
}

const settingBytes = 6;
/** The number of settings in one frame that cost as much as another frame. */
const settingsPerCost = 8;

/** Frames from the peer that concern the life of the connection. */
interface DispatchEvents {
  /** Called for the first SETTINGS, which complete the peer's preface. */
  onSettings(): void;
  onSettingsAck(): void;
  /** `payload` has 8 bytes and is valid until this returns. */
  onPingAck(payload: Uint8Array): void;
  onGoAway(): void;
}

/** Enforces the order of frames (RFC 9113, sections 3.4 and 6.10). */
export class FrameDispatch implements FrameSink {
  readonly requests: RequestReader;
  readonly #context: ConnectionContext;
  readonly #events: DispatchEvents;
  #started = false;

  constructor(context: ConnectionContext, events: DispatchEvents) {
    this.#context = context;
    this.#events = events;
    this.requests = new RequestReader(context);
  }

  /** @throws ConnectionError, HpackError and any error of a handler */
  onFrame(bytes: Uint8Array, at: number, end: number): boolean {
    const type = bytes[at + 3] as number;
    const flags = bytes[at + 4] as number;
    // The reserved bit is ignored.
    const id = readUint32(bytes, at + 5) & largest31;
    const start = at + frameHeaderBytes;
    if (this.requests.block !== undefined && type !== FrameType.CONTINUATION) throw protocolError();
    if (!this.#started) this.#start(type, flags);
    if (type === FrameType.HEADERS) this.requests.onHeaders(flags, id, bytes, start, end);
    else if (type === FrameType.DATA) this.requests.onData(flags, id, bytes, start, end);
    else this.#other(type, flags, id, bytes, start, end);
    return !this.#context.isClosed;
  }

  #start(type: number, flags: number): void {
    if (type !== FrameType.SETTINGS || (flags & Flag.ACK) !== 0) throw protocolError();
    this.#started = true;
    this.#events.onSettings();
  }

  #other(type: number, flags: number, id: number, bytes: Uint8Array, start: number, end: number): void {
    switch (type) {
      case FrameType.WINDOW_UPDATE:
        this.#onWindowUpdate(id, bytes, start, end);
        break;
      case FrameType.CONTINUATION:
        this.requests.onContinuation(flags, id, bytes, start, end);
        break;
      case FrameType.RST_STREAM:
        if (end - start !== 4) throw frameSizeError();
        this.requests.onResetStream(id, readUint32(bytes, start));
        break;
      case FrameType.SETTINGS:
        this.#onSettings(flags, id, bytes, start, end);
        break;
      case FrameType.PING:
        this.#onPing(flags, id, bytes, start, end);
        break;
      case FrameType.GOAWAY:
        this.#onGoAway(id, end - start);
        break;
      case FrameType.PRIORITY:
        this.#onPriority(id, bytes, start, end);
        break;
      case FrameType.PRIORITY_UPDATE:
        this.#onPriorityUpdate(id, end - start);
        break;
      case FrameType.PUSH_PROMISE:
        throw protocolError();
      default:
        // RFC 9113, section 5.5.
        this.#context.spendControl(1);
    }
  }

  #onSettings(flags: number, id: number, bytes: Uint8Array, start: number, end: number): void {
    if (id !== 0) throw protocolError();
    const length = end - start;
    const isAck = (flags & Flag.ACK) !== 0;
    if (isAck ? length > 0 : length % settingBytes !== 0) throw frameSizeError();
    this.#context.spendControl(1 + Math.floor(length / settingBytes / settingsPerCost));
    if (isAck) {
      this.#events.onSettingsAck();
      return;
    }
    applySettings(this.#context.writer, bytes, start, end);
    writeSettingsAck(this.#context.output);
  }

  #onPing(flags: number, id: number, bytes: Uint8Array, start: number, end: number): void {
    if (id !== 0) throw protocolError();
    if (end - start !== 8) throw frameSizeError();
    this.#context.spendControl(1);
    const payload = bytes.subarray(start, end);
    if ((flags & Flag.ACK) !== 0) this.#events.onPingAck(payload);
    else writePing(this.#context.output, Flag.ACK, payload);
  }

  #onGoAway(id: number, length: number): void {
    if (id !== 0) throw protocolError();
    if (length < 8) throw frameSizeError();
    this.#context.spendControl(1);
    this.#events.onGoAway();
  }

  #onWindowUpdate(id: number, bytes: Uint8Array, start: number, end: number): void {
    if (end - start !== 4) throw frameSizeError();
    this.#context.spendControl(1);
    const increment = readUint32(bytes, start) & largest31;
    const { writer, streams } = this.#context;
    if (id === 0) {
      if (increment === 0) throw protocolError();
      if (writer.openConnectionWindow(increment)) return;
      throw flowControlError();
    }
    if (streams.isIdle(id)) throw protocolError();
    const stream = streams.get(id);
    // The frame may have been sent before the stream closed. RFC 9113, section 5.1.
    if (stream === undefined) return;
    if (increment === 0) this.#context.streamError(id, ErrorCode.PROTOCOL_ERROR);
    else if (!writer.openStreamWindow(stream, increment)) {
      this.#context.streamError(id, ErrorCode.FLOW_CONTROL_ERROR);
    }
  }

  /** Priorities are not followed (RFC 9113, section 5.3.2), but their frames are checked. */
  #onPriority(id: number, bytes: Uint8Array, start: number, end: number): void {
    if (id === 0) throw protocolError();
    this.#context.spendControl(1);
    if (end - start !== 5) this.#streamError(id, ErrorCode.FRAME_SIZE_ERROR);
    else if ((readUint32(bytes, start) & largest31) === id) this.#streamError(id, ErrorCode.PROTOCOL_ERROR);
  }

  /** RFC 9218, section 7.1. */
  #onPriorityUpdate(id: number, length: number): void {
    if (id !== 0) throw protocolError();
    if (length < 4) throw frameSizeError();
    this.#context.spendControl(1);
  }

  /** PRIORITY may arrive on any stream, but an idle one cannot be reset (RFC 9113, section 6.4). */
  #streamError(id: number, code: ErrorCode): void {
    if (!this.#context.streams.isIdle(id)) this.#context.streamError(id, code);
    else if (code === ErrorCode.FRAME_SIZE_ERROR) throw frameSizeError();
    else throw protocolError();
  }
}

/**
 * Applies the peer's SETTINGS that affect what a server sends, in their order (RFC 9113, sections 6.5.2 and 6.5.3). MAX_FRAME_SIZE is
 * only checked, because the server never sends frames larger than the initial size. Of several initial windows only the last changes the
 * streams, because each change is a pass over all of them.
 * @throws ConnectionError
 */
function applySettings(writer: ResponseWriter, bytes: Uint8Array, start: number, end: number): void {
  let window = writer.initialStreamWindow;
  for (let at = start; at < end; at += settingBytes) {
    const identifier = ((bytes[at] as number) << 8) | (bytes[at + 1] as number);
    const value = readUint32(bytes, at + 2);
    checkSetting(identifier, value);
    if (identifier === Setting.HEADER_TABLE_SIZE) writer.encoder.setPeerTableBytes(value);
    else if (identifier === Setting.INITIAL_WINDOW_SIZE) window = value;
  }
  if (window !== writer.initialStreamWindow && !writer.changeInitialWindow(window)) throw flowControlError();
}

function checkSetting(identifier: number, value: number): void {
  if (identifier === Setting.INITIAL_WINDOW_SIZE && value > largest31) throw flowControlError();
  const good =
    identifier === Setting.ENABLE_PUSH
      ? value <= 1
      : identifier !== Setting.MAX_FRAME_SIZE ||
        (value >= initialMaxFrameBytes && value <= largestMaxFrameBytes);
  if (!good) throw protocolError();
}
