import { GrpcCode, type GrpcStatus, type LongestRequest } from '../../process/grpc/unary-handler.ts';
import type { ByteAllowance } from './byte-budget.ts';
import { chargedBytes, MessageReader, tooMuchUnfinished } from './message-reader.ts';

export interface SingleMessageOptions {
  maxMessageBytes: number;
  longest?: LongestRequest | undefined;
  budget: ByteAllowance;
}

/**
 * The request of a call that takes exactly one message, where it does not come whole in one piece. The message counts once
 * the request has ended: until then another may follow, and the call is none.
 */
export class SingleMessage {
  readonly #budget: ByteAllowance;
  readonly #reader: MessageReader;
  #message: Uint8Array | undefined;
  #refusal: GrpcStatus | undefined;

  constructor(options: SingleMessageOptions) {
    this.#budget = options.budget;
    this.#reader = new MessageReader({ ...options, onMessage: (message) => this.#keep(message) });
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
    if (this.#message !== undefined) this.#budget.give(chargedBytes(this.#message.length));
    this.#message = undefined;
  }

  #keep(message: Uint8Array): void {
    if (this.#message !== undefined) this.#refusal = secondMessage;
    else if (!this.#budget.take(chargedBytes(message.length))) this.#refusal = tooMuchUnfinished;
    else this.#message = Uint8Array.from(message);
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
