import {
  GrpcCode,
  type GrpcStatus,
  type LongestRequest,
  type UnaryReply,
} from '../../process/grpc/handlers.ts';
import type { RequestStream } from '../http2/request-handler.ts';
import { heldBytes, MessageReader } from './message-reader.ts';

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

  /** Why there will be no message; undefined as long as there may be one. */
  push(data: Uint8Array): GrpcStatus | undefined {
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
    if (this.#message !== undefined) this.#stream.hold(-heldBytes(this.#message));
    this.#message = undefined;
  }

  #keep(message: Uint8Array): void {
    if (this.#message !== undefined) {
      this.#refusal = secondMessage;
      return;
    }
    this.#message = Uint8Array.from(message);
    this.#stream.hold(heldBytes(this.#message));
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
