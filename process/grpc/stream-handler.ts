/** How methods that answer with a stream of messages are served, whatever transport is below. */
import type { GrpcStatus } from './handlers.ts';

export interface MessageStream {
  send(message: Uint8Array): void;
  /** Ends the call, without a status with OK; what is sent after it is dropped. */
  end(status?: GrpcStatus): void;
  /** Calls back once when the call is over, whoever ended it. */
  onClose(listener: () => void): void;
}

/** `request` is only valid until the handler returns. */
export type StreamHandler = (request: Uint8Array, stream: MessageStream) => void;

/** What a caller sends in a method that takes a stream of messages. */
export interface MessageListener {
  /** `message` is only valid until it returns. */
  onMessage(message: Uint8Array): void;
  /** The caller sends no more. */
  onEnd(): void;
}

/** Both sides send as they like. */
export type DuplexHandler = (stream: MessageStream) => MessageListener;
