/** How a method that answers with a stream of messages is served, whatever transport is below. */
import type { GrpcStatus } from './unary-handler.ts';

export interface MessageStream {
  send(message: Uint8Array): void;
  /** Ends the call; what is sent after it is dropped. */
  end(status: GrpcStatus): void;
  /** Calls back once when the call is over, whoever ended it. */
  onClose(listener: () => void): void;
}

/** `request` is only valid until the handler returns. */
export type StreamHandler = (request: Uint8Array, stream: MessageStream) => void;
