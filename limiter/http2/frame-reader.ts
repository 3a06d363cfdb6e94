/**
 * Cuts a stream of bytes into frames (RFC 9113, section 4.1). A frame that lies whole in one piece is handed over where
 * it lies; one that is cut is gathered in a buffer of its own, which grows with what came and is never larger than the largest frame.
 *
 *     Length (24) | Type (8) | Flags (8) | Reserved (1) | Stream Identifier (31) | Payload
 */
import {
  clientPreface,
  frameHeaderBytes,
  initialMaxFrameBytes,
  initialWindowBytes,
  largest31,
  Setting,
} from './constants.ts';
import { type OutputBuffer, writeSettings, writeWindowUpdate } from './frame-writer.ts';
import type { Http2Limits } from './limits.ts';
import { frameSizeError } from './violation.ts';

export interface FrameSink {
  /** The payload is `bytes` from `start` to `end`, valid until it returns. False stops the reading for good. */
  onFrame(
    type: number,
    flags: number,
    streamId: number,
    bytes: Uint8Array,
    start: number,
    end: number,
  ): boolean;
}

const nothing = new Uint8Array(0);

/** Chosen: the first room for a frame that is cut, its header included. Most requests fit. */
const firstRoomBytes = 512;

export class FrameReader {
  readonly #sink: FrameSink;
  /** The frame that is not complete; its header's bytes until those are complete. */
  #partial: Uint8Array = nothing;
  #gathered = 0;
  #wanted = 0;
  #cuts = 0;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  /** Which frame is not complete: they are counted. 0: none. */
  get unfinishedFrame(): number {
    return this.#gathered > 0 ? this.#cuts : 0;
  }

  /** What that frame takes. */
  get heldBytes(): number {
    return this.#partial.length;
  }

  /** @throws ConnectionError when a frame is too large, as soon as its header says so. */
  read(bytes: Uint8Array, offset: number): void {
    let at = offset;
    if (this.#gathered > 0) {
      at = this.#gather(bytes, at);
      if (at < 0) return;
    }
    while (at + frameHeaderBytes <= bytes.length) {
      const end = at + frameHeaderBytes + payloadLength(bytes, at);
      if (end > bytes.length) break;
      if (!this.#handOver(bytes, at, end)) return;
      at = end;
    }
    if (at < bytes.length) this.#keep(bytes, at);
  }

  /** Completes the frame that was cut. Returns where the next one starts, or -1 when there is none to read. */
  #gather(bytes: Uint8Array, offset: number): number {
    let at = offset;
    for (;;) {
      const take = Math.min(this.#wanted - this.#gathered, bytes.length - at);
      this.#makeRoom(this.#gathered + take);
      this.#partial.set(bytes.subarray(at, at + take), this.#gathered);
      this.#gathered += take;
      at += take;
      if (this.#gathered < this.#wanted) return -1;
      if (this.#wanted > frameHeaderBytes) break;
      this.#wanted = frameHeaderBytes + payloadLength(this.#partial, 0);
      if (this.#wanted === frameHeaderBytes) break;
    }
    const frame = this.#partial;
    this.#partial = nothing;
    this.#gathered = 0;
    return this.#handOver(frame, 0, this.#wanted) ? at : -1;
  }

  #makeRoom(needed: number): void {
    if (needed <= this.#partial.length) return;
    const larger = new Uint8Array(Math.min(this.#wanted, Math.max(firstRoomBytes, 2 * needed)));
    larger.set(this.#partial.subarray(0, this.#gathered));
    this.#partial = larger;
  }

  #keep(bytes: Uint8Array, at: number): void {
    const rest = bytes.length - at;
    const whole = rest >= frameHeaderBytes ? frameHeaderBytes + payloadLength(bytes, at) : frameHeaderBytes;
    this.#wanted = whole;
    this.#makeRoom(rest);
    this.#partial.set(bytes.subarray(at));
    this.#gathered = rest;
    this.#cuts += 1;
  }

  #handOver(bytes: Uint8Array, at: number, end: number): boolean {
    return this.#sink.onFrame(
      bytes[at + 3] as number,
      bytes[at + 4] as number,
      readUint31(bytes, at + 5),
      bytes,
      at + frameHeaderBytes,
      end,
    );
  }
}

function payloadLength(bytes: Uint8Array, at: number): number {
  const length = ((bytes[at] as number) << 16) | ((bytes[at + 1] as number) << 8) | (bytes[at + 2] as number);
  // RFC 9113, section 4.2: an error of the stream would do for some frames, but never has to.
  if (length > initialMaxFrameBytes) throw frameSizeError();
  return length;
}

/** The reserved bit is ignored. */
export function readUint31(bytes: Uint8Array, at: number): number {
  return readUint32(bytes, at) & largest31;
}

export function readUint32(bytes: Uint8Array, at: number): number {
  return (
    (((bytes[at] as number) << 24) |
      ((bytes[at + 1] as number) << 16) |
      ((bytes[at + 2] as number) << 8) |
      (bytes[at + 3] as number)) >>>
    0
  );
}

/** Recognizes the client's preface, however it is cut. RFC 9113, section 3.4. */
export class PrefaceReader {
  #matched = 0;

  get isComplete(): boolean {
    return this.#matched === clientPreface.length;
  }

  /** Returns where the preface ends in `bytes`, or -1 when they are something else. */
  read(bytes: Uint8Array): number {
    let at = 0;
    for (; at < bytes.length && this.#matched < clientPreface.length; at++) {
      if (bytes[at] !== clientPreface[this.#matched]) return -1;
      this.#matched += 1;
    }
    return at;
  }
}

/** SETTINGS_HEADER_TABLE_SIZE and SETTINGS_MAX_FRAME_SIZE keep their initial values. */
export function writeServerPreface(output: OutputBuffer, limits: Http2Limits): void {
  writeSettings(output, [
    [Setting.MAX_CONCURRENT_STREAMS, limits.maxConcurrentStreams],
    [Setting.INITIAL_WINDOW_SIZE, limits.streamWindowBytes],
    [Setting.MAX_HEADER_LIST_SIZE, limits.maxHeaderListBytes],
  ]);
  const more = limits.connectionWindowBytes - initialWindowBytes;
  if (more > 0) writeWindowUpdate(output, 0, more);
}
