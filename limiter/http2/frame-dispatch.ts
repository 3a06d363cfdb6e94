/**
 * Gives each frame to its reader, and keeps the order that RFC 9113 asks for (sections 3.4 and 6.10). What is no part of a
 * request is read here: SETTINGS, PING, GOAWAY, WINDOW_UPDATE, PRIORITY and its update.
 */
import type { ConnectionContext } from './connection-context.ts';
import {
  ErrorCode,
  Flag,
  FrameType,
  initialMaxFrameBytes,
  largest31,
  largestMaxFrameBytes,
  Setting,
} from './constants.ts';
import { type FrameSink, readUint31, readUint32 } from './frame-reader.ts';
import { writePing, writeSettingsAck } from './frame-writer.ts';
import { type HeaderBlock, RequestReader } from './request-reader.ts';
import type { ResponseWriter } from './response-writer.ts';
import { flowControlError, frameSizeError, protocolError } from './violation.ts';

const settingBytes = 6;
/** Settings of one frame that cost as much as another frame. */
const settingsPerCost = 8;

/** What the peer said that concerns the connection's life. */
interface DispatchEvents {
  /** The first SETTINGS, which complete the peer's preface. */
  onSettings(): void;
  onSettingsAck(): void;
  /** The payload's 8 bytes, valid until it returns. */
  onPingAck(payload: Uint8Array): void;
  onGoAway(): void;
}

export class FrameDispatch implements FrameSink {
  readonly #context: ConnectionContext;
  readonly #events: DispatchEvents;
  readonly #requests: RequestReader;
  #started = false;

  constructor(context: ConnectionContext, events: DispatchEvents) {
    this.#context = context;
    this.#events = events;
    this.#requests = new RequestReader(context);
  }

  /** The header section that goes on. */
  get block(): HeaderBlock | undefined {
    return this.#requests.block;
  }

  /** @throws ConnectionError, HpackError and what a handler throws */
  onFrame(type: number, flags: number, id: number, bytes: Uint8Array, start: number, end: number): boolean {
    if (this.#requests.block !== undefined && type !== FrameType.CONTINUATION) throw protocolError();
    if (!this.#started) this.#start(type, flags);
    if (type === FrameType.HEADERS) this.#requests.onHeaders(flags, id, bytes, start, end);
    else if (type === FrameType.DATA) this.#requests.onData(flags, id, bytes, start, end);
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
        this.#requests.onContinuation(flags, id, bytes, start, end);
        break;
      case FrameType.RST_STREAM:
        if (end - start !== 4) throw frameSizeError();
        this.#requests.onResetStream(id, readUint32(bytes, start));
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
    const increment = readUint31(bytes, start);
    const { writer, streams } = this.#context;
    if (id === 0) {
      if (increment === 0) throw protocolError();
      if (writer.openConnectionWindow(increment)) return;
      throw flowControlError();
    }
    if (streams.isIdle(id)) throw protocolError();
    const stream = streams.get(id);
    // On a closed stream it may have been on its way. RFC 9113, section 5.1.
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
    else if (readUint31(bytes, start) === id) this.#streamError(id, ErrorCode.PROTOCOL_ERROR);
  }

  /** RFC 9218, section 7.1. */
  #onPriorityUpdate(id: number, length: number): void {
    if (id !== 0) throw protocolError();
    if (length < 4) throw frameSizeError();
    this.#context.spendControl(1);
  }

  /** PRIORITY may come on any stream, but an idle one cannot be reset (RFC 9113, section 6.4). */
  #streamError(id: number, code: ErrorCode): void {
    if (!this.#context.streams.isIdle(id)) this.#context.streamError(id, code);
    else if (code === ErrorCode.FRAME_SIZE_ERROR) throw frameSizeError();
    else throw protocolError();
  }
}

/**
 * Applies what of the peer's SETTINGS concerns a server's sending, in their order (RFC 9113, sections 6.5.2 and 6.5.3). MAX_FRAME_SIZE is only checked, as no larger frame than the initial one is
 * ever sent; of several initial windows only the last changes the streams, which costs a pass over all of them.
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
