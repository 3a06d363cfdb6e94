/** Our handlers of bytes as handlers of `@grpc/grpc-js`. */
import type {
  handleServerStreamingCall,
  handleUnaryCall,
  ServerUnaryCall,
  sendUnaryData,
} from '@grpc/grpc-js';
import type { CallObserver } from './call-observer.ts';
import { GrpcCode, type GrpcStatus, type UnaryHandler, type UnaryReply } from './handlers.ts';
import { statusText } from './status-text.ts';
import type { MessageStream, StreamHandler } from './stream-handler.ts';

const fault: GrpcStatus = { code: GrpcCode.INTERNAL, message: 'internal error' };

export function serveUnary(
  method: string,
  handler: UnaryHandler,
  observer: CallObserver,
): handleUnaryCall<Buffer, Uint8Array> {
  return (call, callback) => {
    const reply = new UnaryCall(method, call, callback, observer);
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
  readonly #call: ServerUnaryCall<Buffer, Uint8Array>;
  readonly #callback: sendUnaryData<Uint8Array>;
  readonly #observer: CallObserver;
  readonly #startedMs: number;
  #answered = false;

  constructor(
    method: string,
    call: ServerUnaryCall<Buffer, Uint8Array>,
    callback: sendUnaryData<Uint8Array>,
    observer: CallObserver,
  ) {
    this.#method = method;
    this.#call = call;
    this.#callback = callback;
    this.#observer = observer;
    this.#startedMs = observer.clock.monotonicMs();
  }

  get abandoned(): boolean {
    return !this.#answered && this.#call.cancelled;
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
        if (status === undefined) call.end();
        else call.emit('error', { code: status.code, details: statusText(status.message) });
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
