/** What callers send in methods that answer with a stream: one message, or a stream of them. */

import type { GrpcStatus } from '../../process/grpc/handlers.ts';
import type { DuplexHandler, MessageStream, StreamHandler } from '../../process/grpc/stream-handler.ts';
import type { RequestStream } from '../http2/request-handler.ts';
import { MessageReader } from './message-reader.ts';
import { SingleMessage, unfinished } from './single-message.ts';

/** One message in, once the request has ended. */
export interface StreamMethod {
  readonly kind: 'stream';
  /** Without its service. */
  readonly name: string;
  readonly handler: StreamHandler;
}

/** Messages in as they come. */
export interface DuplexMethod {
  readonly kind: 'duplex';
  readonly name: string;
  readonly handler: DuplexHandler;
}

/** Both give the reason where the call cannot go on. */
export interface CallInput {
  push(data: Uint8Array): GrpcStatus | undefined;
  end(): GrpcStatus | undefined;
  release(): void;
}

/** Where the messages come from, and how long they may be. */
export interface CallInputSource {
  stream: RequestStream;
  maxMessageBytes: number;
}

export function streamInput(
  method: StreamMethod,
  answer: MessageStream,
  { stream, maxMessageBytes }: CallInputSource,
): CallInput {
  const single = new SingleMessage(stream, maxMessageBytes);
  return {
    push: (data) => single.push(data),
    end: () => {
      const message = single.end();
      if (!(message instanceof Uint8Array)) return message;
      method.handler(message, answer);
      single.release();
      return undefined;
    },
    release: () => single.release(),
  };
}

export function duplexInput(
  method: DuplexMethod,
  answer: MessageStream,
  { stream, maxMessageBytes }: CallInputSource,
): CallInput {
  const listener = method.handler(answer);
  const reader = new MessageReader({
    maxMessageBytes,
    hold: (bytes) => stream.hold(bytes),
    onMessage: (message) => listener.onMessage(message),
  });
  return {
    push: (data) => reader.push(data),
    end: () => {
      if (!reader.isBetweenMessages) return unfinished;
      listener.onEnd();
      return undefined;
    },
    release: () => reader.release(),
  };
}
