/** Calls with a stream of answers. Their request is one message or a stream of messages. */
import type {
  AdmittedCaller,
  DuplexHandler,
  DuplexStream,
  GrpcStatus,
  MessageStream,
  RequestOrigin,
  StreamHandler,
} from '../../process/grpc/handlers.ts';
import type { Peer } from '../../process/net/peer.ts';
import { ErrorCode } from '../http2/constants.ts';
import type { HeaderFields, RequestStream } from '../http2/request-handler.ts';
import type { CallWithDeadline } from './call.ts';
import {
  type Call,
  type CallSite,
  deadlineExceeded,
  fault,
  okHeaders,
  okTrailers,
  statusTrailers,
  tooMuchUnfinished,
  trailersOnly,
} from './call.ts';
import {
  MessageReader,
  type MessageRejection,
  SingleMessage,
  unfinished,
  withPrefix,
} from './message-reader.ts';

/** Passes on one message when the request has ended. */
export interface StreamMethod {
  readonly kind: 'stream';
  /** The name without the service. */
  readonly name: string;
  readonly handler: StreamHandler;
  /** Whether the method may be called without authentication, even if others require it. */
  readonly isFree: boolean;
}

/** Passes on messages as they arrive. */
export interface DuplexMethod {
  readonly kind: 'duplex';
  readonly name: string;
  readonly handler: DuplexHandler;
  readonly isFree: boolean;
}

/** Both methods return the reason if the call cannot continue. */
interface CallInput {
  push(data: Uint8Array): MessageRejection | undefined;
  end(): GrpcStatus | undefined;
  release(): void;
}

/** The source of the messages, and their maximum length. */
export interface CallInputSource {
  stream: RequestStream;
  maxMessageBytes: number;
}

function streamInput(
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

function duplexInput(
  method: DuplexMethod,
  answer: DuplexStream,
  { stream, maxMessageBytes }: CallInputSource,
): CallInput {
  const listener = method.handler(answer);
  const reader = new MessageReader({
    maxMessageBytes,
    hold: (bytes) => stream.connection.hold(stream, bytes),
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

/** The measured memory of a call in progress, including its stream and its listeners. */
const callBytes = 2048;

interface StreamCallStart {
  readonly timeoutMs: number;
  readonly caller?: AdmittedCaller | undefined;
  readonly fields?: HeaderFields | undefined;
}

/**
 * A call with a stream of answers, for one message (`serverStream`) or for a stream of messages (`duplex`). The header section is sent
 * with the first message. Without messages, the status is the whole answer.
 */
export class StreamCall implements Call, DuplexStream {
  readonly deadlineMs: number;
  previousDue: CallWithDeadline | undefined = undefined;
  nextDue: CallWithDeadline | undefined = undefined;
  readonly caller: AdmittedCaller | undefined;
  readonly fields: HeaderFields | undefined;
  readonly #stream: RequestStream;
  readonly #name: string;
  readonly #site: CallSite;
  #input: CallInput | undefined;
  #closeListeners: (() => void)[] = [];
  #began = false;
  #over = false;

  constructor(
    stream: RequestStream,
    method: StreamMethod | DuplexMethod,
    site: CallSite,
    { timeoutMs, caller, fields }: StreamCallStart,
  ) {
    this.caller = caller;
    this.fields = fields;
    this.#stream = stream;
    this.#name = method.name;
    this.#site = site;
    this.deadlineMs = stream.openedMs + timeoutMs;
    if (timeoutMs !== Number.POSITIVE_INFINITY) site.deadlines.add(this);
    stream.answerIsStream = true;
    stream.requestIsStream = method.kind === 'duplex';
    stream.connection.hold(stream, callBytes);
    const source = { stream, maxMessageBytes: site.limits.maxMessageBytes };
    this.#guard(() => {
      this.#input =
        method.kind === 'duplex' ? duplexInput(method, this, source) : streamInput(method, this, source);
    });
  }

  get origin(): RequestOrigin {
    const peer = this.#stream.connection.peer as Peer | undefined;
    return { listener: 'gRPC', peer: peer?.address ?? 'unknown' };
  }

  receive(data: Uint8Array, endStream: boolean): void {
    const input = this.#input;
    if (this.#over || input === undefined) return;
    this.#guard(() => {
      const rejection = input.push(data) ?? (endStream && !this.#over ? input.end() : undefined);
      if (rejection instanceof Uint8Array) {
        this.send(rejection);
        this.end();
      } else if (rejection !== undefined) this.end(rejection);
    });
  }

  send(message: Uint8Array): void {
    if (this.#over) return;
    const stream = this.#stream;
    if (stream.queuedBytes > this.#site.limits.maxQueuedBytes) {
      this.#close();
      stream.connection.reset(stream, ErrorCode.ENHANCE_YOUR_CALM);
      return;
    }
    if (!this.#began) stream.connection.sendHeaders(stream, okHeaders, false);
    this.#began = true;
    stream.connection.sendData(stream, withPrefix(message));
  }

  end(status?: GrpcStatus): void {
    if (status !== undefined) this.#end(statusTrailers(status), trailersOnly(status));
    else this.#end(okTrailers, okWithoutMessages);
  }

  whenArrived(listener: () => void): boolean {
    return this.#stream.connection.probe(this.#stream, listener);
  }

  onClose(listener: () => void): void {
    if (this.#over) listener();
    else this.#closeListeners.push(listener);
  }

  expire(): void {
    this.#end(deadlineExceeded.slice(4), deadlineExceeded);
  }

  abort(): void {
    if (!this.#over) this.#close();
  }

  shed(): void {
    // Data that waits for the windows would delay the status.
    if (this.#stream.queuedBytes === 0) this.end(tooMuchUnfinished);
  }

  #end(trailers: HeaderFields, wholeAnswer: HeaderFields): void {
    if (this.#over) return;
    this.#close();
    const { connection } = this.#stream;
    if (this.#began) connection.sendTrailers(this.#stream, trailers);
    else connection.sendHeaders(this.#stream, wholeAnswer, true);
  }

  #close(): void {
    this.#over = true;
    if (this.deadlineMs !== Number.POSITIVE_INFINITY) this.#site.deadlines.remove(this);
    this.#input?.release();
    for (const listener of this.#closeListeners.splice(0)) listener();
  }

  #guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#site.observer.onFault(this.#name, error);
      this.end(fault);
    }
  }
}

const okWithoutMessages: HeaderFields = [...okHeaders, ...okTrailers];
