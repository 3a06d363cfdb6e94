/**
 * gRPC's messages, in and out of a body, and what they may occupy. Pure.
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

/** Chosen: the first room for a message that comes in pieces. What a peer announces is not worth memory by itself. */
const firstRoomBytes = 64;

/** What a room takes beside its bytes, measured. */
const roomBytes = 192;

/** A status, or the answer itself. */
export type MessageRefusal = GrpcStatus | Uint8Array;

export interface MessageReaderOptions {
  maxMessageBytes: number;
  /** The method's own bound, where it has one: what is longer is refused at its prefix. */
  longest?: LongestRequest | undefined;
  /** Whose request it is: what that method refuses is reported with it. */
  call?: Pick<UnaryReply, 'origin'> | undefined;
  /** It keeps so many bytes more, below 0 less. */
  hold(bytes: number): void;
  /** `message` is only valid until it returns. */
  onMessage(message: Uint8Array): void;
}

/**
 * Messages out of the body of a request, however its bytes are cut. Each is one byte, which says whether it is compressed,
 * four of length, and as many bytes as that.
 */
export class MessageReader {
  readonly #options: MessageReaderOptions;
  readonly #prefix = new Uint8Array(prefixBytes);
  #prefixLength = 0;
  /** Of the message under way, once its prefix is complete. */
  #wantedBytes = 0;
  #gathered: Uint8Array | undefined;
  #gatheredBytes = 0;
  #released = false;

  constructor(options: MessageReaderOptions) {
    this.#options = options;
  }

  /** Whether the bytes so far end with a message, or are none. */
  get isBetweenMessages(): boolean {
    return this.#prefixLength === 0;
  }

  /** Undefined, or what its caller gets where nothing more is read. A reader that was released takes bytes and gives nothing. */
  push(data: Uint8Array): MessageRefusal | undefined {
    let position = 0;
    while (position < data.length && !this.#released) {
      if (this.#prefixLength < prefixBytes) {
        position = this.#readPrefix(data, position);
        if (this.#prefixLength < prefixBytes) return undefined;
        const refusal = prefixRefusal(this.#prefix, this.#options);
        if (refusal !== undefined) return refusal;
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

  /** Gives back what it holds. */
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
    // Anyone who keeps it does so on a count of its own.
    this.#drop();
    this.#options.onMessage(message);
  }

  #drop(): void {
    if (this.#gathered !== undefined) this.#options.hold(-bufferedBytes(this.#gathered));
    this.#gathered = undefined;
    this.#gatheredBytes = 0;
  }
}

/** What a buffer of its own takes. */
export function bufferedBytes(buffer: Uint8Array | undefined): number {
  return buffer === undefined ? 0 : roomBytes + buffer.length;
}

/** The message with its prefix, in a buffer of its own. */
export function withPrefix(message: Uint8Array): Uint8Array {
  const bytes = Buffer.alloc(prefixBytes + message.length);
  bytes.writeUInt32BE(message.length, 1);
  bytes.set(message, prefixBytes);
  return bytes;
}

function prefixRefusal(
  prefix: Uint8Array,
  { maxMessageBytes, longest, call }: MessageReaderOptions,
): MessageRefusal | undefined {
  const length = readUint32(prefix, 1);
  if (longest !== undefined && length > longest.maxBytes) return longest.refuse(length, call?.origin);
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
 * The request of a call that takes exactly one message, where it does not come whole in one piece. The message counts once
 * the request has ended: until then another may follow, and the call is none.
 */
export class SingleMessage {
  readonly #stream: RequestStream;
  readonly #reader: MessageReader;
  #message: Uint8Array | undefined;
  #refusal: GrpcStatus | undefined;

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
      hold: (bytes) => stream.hold(bytes),
      onMessage: (message) => this.#keep(message),
    });
  }

  /** What the caller gets where there will be no message; undefined as long as there may be one. */
  push(data: Uint8Array): MessageRefusal | undefined {
    const refusal = this.#reader.push(data);
    return this.#refusal ?? refusal;
  }

  /** The request has ended: its message, valid until `release`, or why there is none. */
  end(): Uint8Array | GrpcStatus {
    if (!this.#reader.isBetweenMessages) return unfinished;
    return this.#message ?? noMessage;
  }

  release(): void {
    this.#reader.release();
    if (this.#message !== undefined) this.#stream.hold(-bufferedBytes(this.#message));
    this.#message = undefined;
  }

  #keep(message: Uint8Array): void {
    if (this.#message !== undefined) {
      this.#refusal = secondMessage;
      return;
    }
    this.#message = Uint8Array.from(message);
    this.#stream.hold(bufferedBytes(this.#message));
  }
}

/** A request that ended within a message. */
export const unfinished: GrpcStatus = { code: GrpcCode.INTERNAL, message: 'unexpected EOF' };

const noMessage: GrpcStatus = {
  code: GrpcCode.INTERNAL,
  message: 'cardinality violation: received no request message',
};
const secondMessage: GrpcStatus = {
  code: GrpcCode.INTERNAL,
  message: 'cardinality violation: received more than one request message',
};

/** Bounds of what calls may occupy; none of them is fixed by gRPC. */
export interface GrpcLimits {
  /** Longest message of a request. */
  maxMessageBytes: number;
  /** What one call's answers may occupy that its caller does not take. */
  maxQueuedBytes: number;
  /** From one look for expired calls to the next. */
  deadlineSweepMs: number;
}

const mebibyte = 1024 * 1024;

export const defaultGrpcLimits: GrpcLimits = {
  // As gRPC's other servers have it.
  maxMessageBytes: 4 * mebibyte,
  maxQueuedBytes: mebibyte,
  deadlineSweepMs: 20,
};
