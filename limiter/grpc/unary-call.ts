/** Unary calls, and the deadlines that end them. */
import {
  type AdmittedCaller,
  type CallDurations,
  type CallSpan,
  GrpcCode,
  type GrpcStatus,
  type RequestOrigin,
  type UnaryHandler,
  type UnaryReply,
} from '../../process/grpc/handlers.ts';
import type { Peer } from '../../process/net/peer.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { readUint32 } from '../http2/frame-writer.ts';
import type { HeaderFields, RequestStream } from '../http2/request-handler.ts';
import type { CallDeadlines, CallWithDeadline } from './call.ts';
import {
  type Call,
  type CallSite,
  deadlineExceeded,
  fault,
  okHeaders,
  okTrailers,
  tooMuchUnfinished,
  trailersOnly,
} from './call.ts';
import { prefixBytes, SingleMessage } from './message-reader.ts';

export interface UnaryMethod {
  readonly kind: 'unary';
  /** The name without the service. */
  readonly name: string;
  readonly handler: UnaryHandler;
  /** Whether the method may be called without authentication, even if others require it. */
  readonly isFree: boolean;
}

/** A method with the durations of its calls. */
export interface ServedUnaryMethod extends UnaryMethod {
  readonly calls: CallDurations;
}

/** The prefix of an answer's message, which the stream copies. Messages are never compressed. */
const prefix = new Uint8Array(prefixBytes);

/** The measured memory for reading a request in pieces, in addition to the pieces. */
const piecesBytes = 768;

const receiving = 0;
const running = 1;
const answered = 2;
const abandoned = 3;
type State = typeof receiving | typeof running | typeof answered | typeof abandoned;

/**
 * One unary call. The handler is called when the request is complete, and the first answer ends the call:
 *
 *   receiving --end of request--> running --send, fail--> answered
 *       |                            |                      ^
 *       +------- rejected ------------|----------------------+
 *       +------- deadline, abort ----+--> abandoned
 */
export class UnaryCall implements Call, UnaryReply {
  readonly deadlineMs: number;
  previousDue: CallWithDeadline | undefined = undefined;
  nextDue: CallWithDeadline | undefined = undefined;
  /** The span, if the call is traced. */
  readonly span: CallSpan | undefined;
  /** The caller, if callers must authenticate. */
  readonly caller: AdmittedCaller | undefined;
  readonly fields: HeaderFields;
  readonly #stream: RequestStream;
  readonly #method: ServedUnaryMethod;
  readonly #site: CallSite;
  #state: State = receiving;
  /** Only set if the request arrives in pieces. */
  #pieces: SingleMessage | undefined;

  constructor(
    stream: RequestStream,
    method: ServedUnaryMethod,
    site: CallSite,
    timeoutMs: number,
    fields: HeaderFields,
    caller: AdmittedCaller | undefined,
    span: CallSpan | undefined,
  ) {
    this.span = span;
    this.caller = caller;
    this.fields = fields;
    this.#stream = stream;
    this.#method = method;
    this.#site = site;
    this.deadlineMs = stream.openedMs + timeoutMs;
    if (timeoutMs !== Number.POSITIVE_INFINITY) site.deadlines.add(this);
  }

  get abandoned(): boolean {
    if (this.#state >= answered) return this.#state === abandoned;
    const { deadlineMs } = this;
    return deadlineMs !== Number.POSITIVE_INFINITY && deadlineMs <= this.#site.observer.clock.monotonicMs();
  }

  get origin(): RequestOrigin {
    const peer = this.#stream.connection.peer as Peer | undefined;
    return { listener: 'gRPC', peer: peer?.address ?? 'unknown' };
  }

  receive(data: Uint8Array, endStream: boolean): void {
    if (this.#state !== receiving) return;
    const length = data.length - prefixBytes;
    if (
      endStream &&
      this.#pieces === undefined &&
      length >= 0 &&
      length <= this.#site.limits.maxMessageBytes &&
      data[0] === 0 &&
      readUint32(data, 1) === length
    ) {
      this.#run(data.subarray(prefixBytes));
      return;
    }
    this.#pieces ??= this.#newPieces();
    const rejection = this.#pieces.push(data);
    if (rejection instanceof Uint8Array) this.send(rejection);
    else if (rejection !== undefined) this.#reject(rejection);
    else if (endStream) this.#runPieces(this.#pieces);
  }

  send(message: Uint8Array): void {
    if (this.#state >= answered) return;
    const stream = this.#stream;
    this.#end(answered);
    this.span?.end(0);
    const { length } = message;
    prefix[1] = length >>> 24;
    prefix[2] = length >>> 16;
    prefix[3] = length >>> 8;
    prefix[4] = length;
    stream.connection.respond(stream, okHeaders, message, okTrailers, prefix);
  }

  fail(status: GrpcStatus): void {
    if (this.#state < answered) this.#reject(status);
  }

  expire(): void {
    if (this.#state >= answered) return;
    this.span?.end(GrpcCode.DEADLINE_EXCEEDED);
    this.#answerOnly(deadlineExceeded, abandoned);
  }

  abort(): void {
    if (this.#state >= answered) return;
    this.span?.end(GrpcCode.CANCELLED);
    this.#end(abandoned);
  }

  shed(): void {
    if (this.#state < answered) this.#reject(tooMuchUnfinished);
  }

  #newPieces(): SingleMessage {
    const { maxMessageBytes } = this.#site.limits;
    const pieces = new SingleMessage(this.#stream, maxMessageBytes, this.#method.handler.longest, this);
    this.#stream.connection.hold(this.#stream, piecesBytes);
    return pieces;
  }

  #runPieces(pieces: SingleMessage): void {
    const message = pieces.end();
    if (!(message instanceof Uint8Array)) {
      this.#reject(message);
      return;
    }
    // A call that waits for the store does not hold memory on behalf of its caller.
    this.#stream.connection.hold(this.#stream, -piecesBytes);
    this.#run(message);
    pieces.release();
  }

  #run(request: Uint8Array): void {
    this.#state = running;
    try {
      this.#method.handler(request, this);
    } catch (error) {
      this.#site.observer.onFault(this.#method.name, error);
      this.fail(fault);
    }
  }

  #reject(status: GrpcStatus): void {
    this.span?.end(status.code);
    this.#answerOnly(trailersOnly(status), answered);
  }

  #answerOnly(fields: HeaderFields, end: State): void {
    const stream = this.#stream;
    this.#end(end);
    stream.connection.sendHeaders(stream, fields, true);
  }

  /** Ends the call. Calls that never reached their handler are not counted. */
  #end(state: State): void {
    const { observer, deadlines } = this.#site;
    const reached = this.#state === running;
    this.#state = state;
    if (this.deadlineMs !== Number.POSITIVE_INFINITY) deadlines.remove(this);
    if (reached) this.#method.calls.record(observer.clock.monotonicMs() - this.#stream.openedMs);
    else this.#pieces?.release();
  }
}

/** Ends calls whose deadline has passed, in coarse steps. Most calls end long before, and a timer for each of them would be expensive. */
export class Deadlines implements CallDeadlines {
  readonly #clock: Clock;
  readonly #timers: Timers;
  readonly #sweepMs: number;
  #first: CallWithDeadline | undefined;
  #endSweeps: (() => void) | undefined;
  /** Whether there was a call since the last sweep. */
  #busy = false;

  constructor(options: { clock: Clock; timers: Timers; sweepMs: number }) {
    this.#clock = options.clock;
    this.#timers = options.timers;
    this.#sweepMs = options.sweepMs;
  }

  add(call: CallWithDeadline): void {
    const first = this.#first;
    call.nextDue = first;
    if (first !== undefined) first.previousDue = call;
    this.#first = call;
    this.#busy = true;
    this.#endSweeps ??= this.#timers.every(this.#sweepMs, () => this.#sweep());
  }

  /** Removes a call that was added. */
  remove(call: CallWithDeadline): void {
    const { previousDue, nextDue } = call;
    if (previousDue === undefined) this.#first = nextDue;
    else previousDue.nextDue = nextDue;
    if (nextDue !== undefined) nextDue.previousDue = previousDue;
    call.previousDue = undefined;
    call.nextDue = undefined;
  }

  close(): void {
    this.#endSweeps?.();
    this.#endSweeps = undefined;
  }

  #sweep(): void {
    if (this.#first === undefined && !this.#busy) {
      this.close();
      return;
    }
    this.#busy = false;
    const nowMs = this.#clock.monotonicMs();
    const due: CallWithDeadline[] = [];
    for (let call = this.#first; call !== undefined; call = call.nextDue) {
      if (call.deadlineMs <= nowMs) due.push(call);
    }
    for (const call of due) call.expire();
  }
}
