/**
 * Writes frames as bytes: numbers and headers (RFC 9113, section 4.1), the frames with fixed contents of section 6, and the output that
 * gathers them.
 */
import { type ErrorCode, Flag, FrameType, frameHeaderBytes } from './constants.ts';
import type { Transport } from './request-handler.ts';

export function readUint32(bytes: Uint8Array, at: number): number {
  return (
    (((bytes[at] as number) << 24) |
      ((bytes[at + 1] as number) << 16) |
      ((bytes[at + 2] as number) << 8) |
      (bytes[at + 3] as number)) >>>
    0
  );
}

export function writeFrameHeader(
  target: Uint8Array,
  at: number,
  length: number,
  type: number,
  flags: number,
  streamId: number,
): void {
  target[at] = length >>> 16;
  target[at + 1] = length >>> 8;
  target[at + 2] = length;
  target[at + 3] = type;
  target[at + 4] = flags;
  target[at + 5] = streamId >>> 24;
  target[at + 6] = streamId >>> 16;
  target[at + 7] = streamId >>> 8;
  target[at + 8] = streamId;
}

export function writeResetStream(output: OutputBuffer, streamId: number, code: ErrorCode): void {
  writeNumberFrame(output, FrameType.RST_STREAM, streamId, code);
}

export function writeWindowUpdate(output: OutputBuffer, streamId: number, increment: number): void {
  writeNumberFrame(output, FrameType.WINDOW_UPDATE, streamId, increment);
}

/** `payload` has 8 bytes. */
export function writePing(output: OutputBuffer, flags: number, payload: Uint8Array): void {
  const at = output.reserve(frameHeaderBytes + 8);
  writeFrameHeader(output.bytes, at, 8, FrameType.PING, flags, 0);
  output.bytes.set(payload, at + frameHeaderBytes);
  output.end = at + frameHeaderBytes + 8;
}

/** `debug` is for people. RFC 9113, section 6.8. */
export function writeGoAway(output: OutputBuffer, lastStreamId: number, code: ErrorCode, debug = ''): void {
  const text = Buffer.from(debug);
  const length = 8 + text.length;
  const at = output.reserve(frameHeaderBytes + length);
  writeFrameHeader(output.bytes, at, length, FrameType.GOAWAY, 0, 0);
  output.bytes.writeUInt32BE(lastStreamId, at + frameHeaderBytes);
  output.bytes.writeUInt32BE(code, at + frameHeaderBytes + 4);
  output.bytes.set(text, at + frameHeaderBytes + 8);
  output.end = at + frameHeaderBytes + length;
}

/** SETTINGS from pairs of identifier and value. */
export function writeSettings(
  output: OutputBuffer,
  pairs: readonly (readonly [identifier: number, value: number])[],
): void {
  const length = 6 * pairs.length;
  let at = output.reserve(frameHeaderBytes + length);
  writeFrameHeader(output.bytes, at, length, FrameType.SETTINGS, 0, 0);
  at += frameHeaderBytes;
  for (const [identifier, value] of pairs) {
    output.bytes[at] = identifier >>> 8;
    output.bytes[at + 1] = identifier;
    output.bytes.writeUInt32BE(value, at + 2);
    at += 6;
  }
  output.end = at;
}

export function writeSettingsAck(output: OutputBuffer): void {
  const at = output.reserve(frameHeaderBytes);
  writeFrameHeader(output.bytes, at, 0, FrameType.SETTINGS, Flag.ACK, 0);
  output.end = at + frameHeaderBytes;
}

function writeNumberFrame(output: OutputBuffer, type: number, streamId: number, value: number): void {
  const at = output.reserve(frameHeaderBytes + 4);
  writeFrameHeader(output.bytes, at, 4, type, 0, streamId);
  output.bytes.writeUInt32BE(value, at + frameHeaderBytes);
  output.end = at + frameHeaderBytes + 4;
}

/**
 * Gathers the output of a connection until it is handed over in one piece. Bytes that were handed over never change: later bytes follow
 * them in the same slab, or in a new one.
 */
const firstSlabBytes = 4096;
const largestSlabBytes = 65_536;
const none = Buffer.alloc(0);

export class OutputBuffer {
  /** The current slab. Write from `end` on, after `reserve`. */
  bytes: Buffer = none;
  /** The end of the gathered bytes; the writer moves it. */
  end = 0;
  #start = 0;
  #slabBytes = firstSlabBytes;
  #idle = true;

  get length(): number {
    return this.end - this.#start;
  }

  /** Makes room for this number of bytes at `end`, and returns `end`. */
  reserve(length: number): number {
    if (this.end + length > this.bytes.length) this.#renew(length);
    return this.end;
  }

  /** Hands over the gathered bytes, at most `maxBytes`. Returns undefined if there are none. */
  take(maxBytes = Number.POSITIVE_INFINITY): Uint8Array | undefined {
    if (this.end === this.#start) return undefined;
    const end = Math.min(this.end, this.#start + maxBytes);
    const taken = this.bytes.subarray(this.#start, end);
    this.#start = end;
    this.#idle = false;
    return taken;
  }

  /** Called from time to time. Frees the slab of a connection that has written nothing since the last call. */
  rest(): void {
    if (this.#idle && this.length === 0) {
      this.bytes = none;
      this.#start = 0;
      this.end = 0;
      this.#slabBytes = firstSlabBytes;
    }
    this.#idle = true;
  }

  #renew(length: number): void {
    const gathered = this.length;
    const slab = Buffer.allocUnsafeSlow(Math.max(this.#slabBytes, 2 * (gathered + length)));
    slab.set(this.bytes.subarray(this.#start, this.end));
    this.bytes = slab;
    this.#start = 0;
    this.end = gathered;
    this.#slabBytes = Math.min(2 * this.#slabBytes, largestSlabBytes);
  }
}

export interface OutputPumpOptions {
  output: OutputBuffer;
  transport: Transport;
  /** Reading from the peer pauses if more than this number of bytes wait. */
  pauseQueuedBytes: number;
  /** Called when a written piece of output waits for the peer. */
  onStalled: () => void;
}

/** Chosen: pieces are so small that a slow peer reads them one by one, which shows its progress. */
const pieceBytes = 65_536;

/** Hands the gathered bytes to the transport as fast as the peer reads them. */
export class OutputPump {
  /** Whether the transport waits for the peer. */
  isBlocked = false;
  readonly #options: OutputPumpOptions;
  /** The piece that was handed to the transport and could not be written yet. */
  #handedBytes = 0;
  #paused = false;

  constructor(options: OutputPumpOptions) {
    this.#options = options;
  }

  /** The memory for bytes that cannot be written yet. */
  get bufferedBytes(): number {
    return this.isBlocked ? this.#options.output.bytes.length + this.#handedBytes : 0;
  }

  write(): void {
    const { output, transport, pauseQueuedBytes, onStalled } = this.#options;
    while (!this.isBlocked) {
      const bytes = output.take(pieceBytes);
      if (bytes === undefined) return;
      if (transport.write(bytes)) continue;
      this.isBlocked = true;
      this.#handedBytes = bytes.length;
      onStalled();
    }
    if (!this.#paused && output.length > pauseQueuedBytes) {
      this.#paused = true;
      transport.pause();
    }
  }

  /** Called when the transport accepts bytes again. */
  drained(): void {
    this.isBlocked = false;
    this.write();
    if (!this.#paused || this.isBlocked) return;
    this.#paused = false;
    this.#options.transport.resume();
  }

  /** Writes all remaining bytes, even if the peer does not read them yet. */
  writeRest(): void {
    const bytes = this.#options.output.take();
    if (bytes !== undefined) this.#options.transport.write(bytes);
  }
}
