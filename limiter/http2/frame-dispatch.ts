import type { ConnectionContext } from './connection-context.ts';
import { Flag, FrameType } from './constants.ts';
import { type ControlEvents, ControlReader, protocolError } from './control-reader.ts';
import { ErrorCode } from './error-code.ts';
import { type FrameSink, readUint32 } from './frame-reader.ts';
import type { HeaderBlock } from './header-block.ts';
import { RequestReader } from './request-reader.ts';
import { ConnectionError } from './violation.ts';

export interface DispatchEvents extends ControlEvents {
  /** The first SETTINGS, which complete the peer's preface. */
  onSettings(): void;
}

/** Gives each frame to its reader, and keeps the order that RFC 9113 asks for (sections 3.4 and 6.10). */
export class FrameDispatch implements FrameSink {
  readonly #context: ConnectionContext;
  readonly #events: DispatchEvents;
  readonly #requests: RequestReader;
  readonly #control: ControlReader;
  #started = false;

  constructor(context: ConnectionContext, events: DispatchEvents) {
    this.#context = context;
    this.#events = events;
    this.#requests = new RequestReader(context);
    this.#control = new ControlReader(context, events);
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
        this.#control.onWindowUpdate(id, bytes, start, end);
        break;
      case FrameType.CONTINUATION:
        this.#requests.onContinuation(flags, id, bytes, start, end);
        break;
      case FrameType.RST_STREAM:
        this.#resetStream(id, bytes, start, end);
        break;
      case FrameType.SETTINGS:
        this.#control.onSettings(flags, id, bytes, start, end);
        break;
      case FrameType.PING:
        this.#control.onPing(flags, id, bytes, start, end);
        break;
      case FrameType.GOAWAY:
        this.#control.onGoAway(id, end - start);
        break;
      case FrameType.PRIORITY:
        this.#control.onPriority(id, bytes, start, end);
        break;
      case FrameType.PRIORITY_UPDATE:
        this.#control.onPriorityUpdate(id, end - start);
        break;
      case FrameType.PUSH_PROMISE:
        throw protocolError();
      default:
        this.#control.onUnknown();
    }
  }

  #resetStream(id: number, bytes: Uint8Array, start: number, end: number): void {
    if (end - start !== 4) throw new ConnectionError(ErrorCode.FRAME_SIZE_ERROR, 'frame_size_error');
    this.#requests.onResetStream(id, readUint32(bytes, start));
  }
}
