/** Our handlers of bytes as handlers of `@grpc/grpc-js`. */
import type { handleServerStreamingCall, handleUnaryCall, sendUnaryData } from '@grpc/grpc-js';
import type { Clock } from '../clock.ts';
import { statusText } from './status-text.ts';
import type { MessageStream, StreamHandler } from './stream-handler.ts';
import { GrpcCode, type GrpcStatus, type UnaryHandler, type UnaryReply } from './unary-handler.ts';

/** Who learns of calls; `method` is its name without the service. */
export interface CallObserver {
  clock: Clock;
  /**
   * Called after every answered unary call, failed ones too. Calls that never reach a handler (unknown method, message
   * too long) are not counted.
   */
  onCall(method: string, durationMs: number): void;
  /** Called when a handler threw. */
  onFault(method: string, error: unknown): void;
}

const fault: GrpcStatus = { code: GrpcCode.INTERNAL, message: 'internal error' };

export function serveUnary(
  method: string,
  handler: UnaryHandler,
  observer: CallObserver,
): handleUnaryCall<Buffer, Uint8Array> {
  return (call, callback) => {
    const reply = new UnaryCall(method, callback, observer);
    try {
      handler(call.request, reply);
    } catch (error) {
      observer.onFault(method, error);
      reply.fail(fault);
    }
  };
}

/** One running call. Only the first answer counts, so that a handler that answers and then throws does no harm. */
class UnaryCall implements UnaryReply {
  readonly #method: string;
  readonly #callback: sendUnaryData<Uint8Array>;
  readonly #observer: CallObserver;
  readonly #startedMs: number;
  #answered = false;

  constructor(method: string, callback: sendUnaryData<Uint8Array>, observer: CallObserver) {
    this.#method = method;
    this.#callback = callback;
    this.#observer = observer;
    this.#startedMs = observer.clock.monotonicMs();
  }

  send(message: Uint8Array): void {
    if (this.#answered) return;
    this.#answered = true;
    this.#callback(null, message);
    this.#observe();
  }

  fail(status: GrpcStatus): void {
    if (this.#answered) return;
    this.#answered = true;
    this.#callback({ code: status.code, details: statusText(status.message) });
    this.#observe();
  }

  #observe(): void {
    this.#observer.onCall(this.#method, this.#observer.clock.monotonicMs() - this.#startedMs);
  }
}

export function serveStream(
  method: string,
  handler: StreamHandler,
  observer: CallObserver,
): handleServerStreamingCall<Buffer, Uint8Array> {
  return (call) => {
    let ended = false;
    const closeListeners: (() => void)[] = [];
    const close = (): void => {
      ended = true;
      for (const listener of closeListeners.splice(0)) listener();
    };
    const stream: MessageStream = {
      send: (message) => {
        if (!ended) call.write(message);
      },
      end: (status) => {
        if (ended) return;
        close();
        call.emit('error', { code: status.code, details: statusText(status.message) });
      },
      onClose: (listener) => {
        if (ended) listener();
        else closeListeners.push(listener);
      },
    };
    call.on('cancelled', close);
    try {
      handler(call.request, stream);
    } catch (error) {
      observer.onFault(method, error);
      stream.end(fault);
    }
  };
}
