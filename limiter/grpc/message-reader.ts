/**
 * Reads and writes the messages of gRPC in a body, and bounds their memory. Its functions are pure.
 * https://github.com/grpc/grpc/blob/v1.60.0/doc/PROTOCOL-HTTP2.md
 */
import {
  GrpcCode,
  type GrpcStatus,
  type LongestRequest,
  type UnaryReply,
} from '../../process/grpc/handlers.ts';
import { readUint32 } from '../http2/frame-writer.ts';
import type { RequestStream } from '../http2/request-handler.ts';

/** The byte and the length in front of a message. */
export const prefixBytes = 5;

/** Chosen: the size of the first buffer for a message that arrives in pieces. An announced length alone reserves no memory. */
const firstRoomBytes = 64;

/** The measured memory of a buffer in addition to its bytes. */
const roomBytes = 192;

/** A status, or an encoded answer. */
export type MessageRejection = GrpcStatus | Uint8Array;

export interface MessageReaderOptions {
  maxMessageBytes: number;
  /** The bound of the method, if it has one. A longer message is rejected at its prefix. */
  longest?: LongestRequest | undefined;
  /** The call that the request belongs to, for reports about rejected messages. */
  call?: Pick<UnaryReply, 'origin'> | undefined;
  /** Notes that the reader holds this number of bytes more. Negative: fewer bytes. */
  hold(bytes: number): void;
  /** `message` is only valid until it returns. */
  onMessage(message: Uint8Array): void;
}

/**
 * Reads messages from the body of a request, regardless of how the body is split. Each message consists of a byte that says whether it is
 * compressed, four bytes with its length, and its content.
 */
export class MessageReader {
  readonly #options: MessageReaderOptions;
  readonly #prefix = new Uint8Array(prefixBytes);
  #prefixLength = 0;
  /** The length of the current message, once its prefix is complete. */
  #wantedBytes = 0;
  #gathered: Uint8Array | undefined;
  #gatheredBytes = 0;
  #released = false;

  constructor(options: MessageReaderOptions) {
    this.#options = options;
  }

  /** Whether the bytes so far end with a complete message, or there are none. */
  get isBetweenMessages(): boolean {
    return this.#prefixLength === 0;
  }

  /** Returns undefined, or the answer for the caller if the reader accepts no more bytes. After `release`, it ignores bytes. */
  push(data: Uint8Array): MessageRejection | undefined {
    let position = 0;
    while (position < data.length && !this.#released) {
      if (this.#prefixLength < prefixBytes) {
        position = this.#readPrefix(data, position);
        if (this.#prefixLength < prefixBytes) return undefined;
        const rejection = prefixRejection(this.#prefix, this.#options);
        if (rejection !== undefined) return rejection;
        this.#wantedBytes = readUint32(this.#prefix, 1);
      }
      const end = Math.min(data.length, position + this.#wantedBytes - this.#gatheredBytes);
      const piece = data.subarray(position, end);
      position = end;
      if (this.#gatheredBytes + piece.length < this.#wantedBytes) this.#gather(piece);
      else this.#complete(piece);
    }
    return undefined;
  }

  /** Releases the held bytes. */
  release(): void {
    this.#released = true;
    this.#drop();
  }

  #readPrefix(data: Uint8Array, from: number): number {
    let position = from;
    while (this.#prefixLength < prefixBytes && position < data.length) {
      this.#prefix[this.#prefixLength++] = data[position++]!;
    }
    return position;
  }

  #gather(piece: Uint8Array): void {
    const needed = this.#gatheredBytes + piece.length;
    const held = this.#gathered;
    if (held === undefined || needed > held.length) {
      const larger = new Uint8Array(Math.min(this.#wantedBytes, Math.max(firstRoomBytes, 2 * needed)));
      if (held !== undefined) larger.set(held.subarray(0, this.#gatheredBytes));
      this.#gathered = larger;
      this.#options.hold(bufferedBytes(larger) - bufferedBytes(held));
    }
    this.#gathered?.set(piece, this.#gatheredBytes);
    this.#gatheredBytes = needed;
  }

  #complete(piece: Uint8Array): void {
    let message = piece;
    if (this.#gatheredBytes > 0) {
      this.#gather(piece);
      message = this.#gathered!.subarray(0, this.#wantedBytes);
    }
    this.#prefixLength = 0;
    // A handler that keeps the message counts its bytes itself.
    this.#drop();
    this.#options.onMessage(message);
  }

  #drop(): void {
    if (this.#gathered !== undefined) this.#options.hold(-bufferedBytes(this.#gathered));
    this.#gathered = undefined;
    this.#gatheredBytes = 0;
  }
}

/** The memory of a buffer. */
export function bufferedBytes(buffer: Uint8Array | undefined): number {
  return buffer === undefined ? 0 : roomBytes + buffer.length;
}

/** Returns the message with its prefix, in a new buffer. */
export function withPrefix(message: Uint8Array): Uint8Array {
  const bytes = Buffer.alloc(prefixBytes + message.length);
  bytes.writeUInt32BE(message.length, 1);
  bytes.set(message, prefixBytes);
  return bytes;
}

function prefixRejection(
  prefix: Uint8Array,
  { maxMessageBytes, longest, call }: MessageReaderOptions,
): MessageRejection | undefined {
  const length = readUint32(prefix, 1);
  if (longest !== undefined && length > longest.maxBytes) return longest.reject(length, call?.origin);
  if (length > maxMessageBytes) {
    return {
      code: GrpcCode.RESOURCE_EXHAUSTED,
      message: `received message larger than max (${length} vs. ${maxMessageBytes})`,
    };
  }
  if (prefix[0] === 0) return undefined;
  const message =
    prefix[0] === 1
      ? 'compressed flag set with identity or empty encoding'
      : `received unexpected payload format ${prefix[0]}`;
  return { code: GrpcCode.INTERNAL, message };
}

/**
 * Reads the request of a call that takes exactly one message, if the request does not arrive in one piece. The message counts when the
 * request has ended. Before that, another message may follow, which makes the call invalid.
 */
export class SingleMessage {
  readonly #stream: RequestStream;
  readonly #reader: MessageReader;
  #message: Uint8Array | undefined;
  #rejection: GrpcStatus | undefined;

  constructor(
    stream: RequestStream,
    maxMessageBytes: number,
    longest?: LongestRequest,
    call?: Pick<UnaryReply, 'origin'>,
  ) {
    this.#stream = stream;
    this.#reader = new MessageReader({
      maxMessageBytes,
      longest,
      call,
      hold: (bytes) => stream.connection.hold(stream, bytes),
      onMessage: (message) => this.#keep(message),
    });
  }

  /** Returns the answer for the caller if the call is rejected, or undefined as long as a message is possible. */
  push(data: Uint8Array): MessageRejection | undefined {
    const rejection = this.#reader.push(data);
    return this.#rejection ?? rejection;
  }

  /** Ends the request. Returns its message, valid until `release`, or the reason why there is none. */
  end(): Uint8Array | GrpcStatus {
    if (!this.#reader.isBetweenMessages) return unfinished;
    return this.#message ?? noMessage;
  }

  release(): void {
    this.#reader.release();
    if (this.#message !== undefined) this.#hold(-bufferedBytes(this.#message));
    this.#message = undefined;
  }

  #keep(message: Uint8Array): void {
    if (this.#message !== undefined) {
      this.#rejection = secondMessage;
      return;
    }
    this.#message = Uint8Array.from(message);
    this.#hold(bufferedBytes(this.#message));
  }
  #hold(bytes: number): void {
    this.#stream.connection.hold(this.#stream, bytes);
  }
}

/** The status for a request that ended within a message. */
export const unfinished: GrpcStatus = { code: GrpcCode.INTERNAL, message: 'unexpected EOF' };

const noMessage: GrpcStatus = {
  code: GrpcCode.INTERNAL,
  message: 'cardinality violation: received no request message',
};
const secondMessage: GrpcStatus = {
  code: GrpcCode.INTERNAL,
  message: 'cardinality violation: received more than one request message',
};

/** Bounds on the memory of calls. gRPC defines none. */
export interface GrpcLimits {
  /** The longest message of a request. */
  maxMessageBytes: number;
  /** The memory for answers of one call that its caller does not read. */
  maxQueuedBytes: number;
  /** The interval at which expired calls are ended. */
  deadlineSweepMs: number;
}

const mebibyte = 1024 * 1024;

export const defaultGrpcLimits: GrpcLimits = {
  // This is the default of gRPC's other servers.
  maxMessageBytes: 4 * mebibyte,
  maxQueuedBytes: mebibyte,
  deadlineSweepMs: 20,
};
