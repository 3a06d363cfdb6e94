import { type GrpcLimits, withPrefix } from '../../limiter/grpc/message-reader.ts';
import { type GrpcMethod, GrpcRequestHandler } from '../../limiter/grpc/request-handler.ts';
import { grpcMethods } from '../../limiter/grpc/server.ts';
import type {
  CallerGate,
  CallTracer,
  DuplexHandler,
  StreamHandler,
  UnaryHandler,
} from '../../process/grpc/handlers.ts';
import { Health } from '../../process/grpc/health.ts';
import { HealthService } from '../../process/grpc/health-service.ts';
import { ManualClock } from './manual-clock.ts';
import { ManualTimers } from './manual-timers.ts';
import { PlayedStream } from './played-stream.ts';

const echoPath = '/test.Service/Echo';
const echo: UnaryHandler = (request, reply) => reply.send(Uint8Array.from(request));

interface PlayedCallsOptions {
  unary?: UnaryHandler;
  stream?: StreamHandler;
  duplex?: DuplexHandler;
  limits?: Partial<GrpcLimits>;
  tracer?: CallTracer;
  gate?: CallerGate;
}

/** A handler of gRPC with one method of each kind, on streams that are played. */
export class PlayedCalls {
  readonly clock = new ManualClock(1_000);
  readonly timers = new ManualTimers();
  readonly calls: [string, number][] = [];
  readonly faults: [string, string][] = [];
  readonly handler: GrpcRequestHandler;

  constructor({ unary = echo, stream, duplex, limits = {}, tracer, gate }: PlayedCallsOptions = {}) {
    const methods: Map<string, GrpcMethod> = grpcMethods({
      unary: new Map([[echoPath, unary]]),
      health: new HealthService(new Health(), []),
    });
    if (stream !== undefined)
      methods.set('/test.Service/Stream', { kind: 'stream', name: 'Stream', handler: stream, isFree: false });
    if (duplex !== undefined)
      methods.set('/test.Service/Duplex', { kind: 'duplex', name: 'Duplex', handler: duplex, isFree: false });
    this.handler = new GrpcRequestHandler({
      methods,
      clock: this.clock,
      timers: this.timers,
      limits,
      tracer,
      gate,
      callsOf: (method) => ({ record: (ms) => this.calls.push([method, ms]) }),
      onFault: (method, error) => this.faults.push([method, (error as Error).message]),
    });
  }

  /** Begins a request: a call of Echo, but for the fields given. An empty value leaves the field out. */
  request(given: Record<string, string> = {}, endStream = false, stream = new PlayedStream()): PlayedStream {
    const fields = {
      ':method': 'POST',
      ':scheme': 'http',
      ':path': echoPath,
      ':authority': 'limiter',
      te: 'trailers',
      'content-type': 'application/grpc',
      ...given,
    };
    const list = Object.entries(fields).filter(([, value]) => value !== '');
    stream.openedMs = this.clock.ms;
    this.handler.onRequest(stream, list.flat(), endStream);
    return stream;
  }

  /** A whole call. */
  call(message: Uint8Array, given: Record<string, string> = {}): PlayedStream {
    const stream = this.request(given);
    stream.receiver?.receive(withPrefix(message), true);
    return stream;
  }

  advance(ms: number): void {
    this.clock.ms += ms;
    this.timers.advance(ms);
  }
}

/** The sections of an answer with a message. */
export const okAnswer = [{ ':status': '200', 'content-type': 'application/grpc' }, { 'grpc-status': '0' }];

/** The sections of an answer without one. */
export function failed(code: number, message: string, httpStatus = 200): Record<string, string>[] {
  return [
    {
      ':status': String(httpStatus),
      'content-type': 'application/grpc',
      'grpc-status': String(code),
      'grpc-message': message,
    },
  ];
}
