/**
 * A server on the limiter's HTTP/2 alone, without gRPC: it answers every request that came whole with what it held,
 * and not at once, so that streams stay open beside each other.
 */
import { defaultHttp2Limits, type Http2Limits } from '../../limiter/http2/limits.ts';
import type { RequestHandler, RequestStream } from '../../limiter/http2/request-handler.ts';
import { Http2SocketServer } from '../../limiter/sockets/socket-server.ts';
import type { TlsOptions } from '../../limiter/sockets/tls-listener.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';

export interface Http2EchoServer {
  port: number;
  stop(): Promise<void>;
}

/** What is said to a request without a body. */
const greeting = Buffer.from('hello');
const delayMs = 20;

export async function startHttp2Echo(options: {
  limits?: Partial<Http2Limits>;
  tls?: TlsOptions;
}): Promise<Http2EchoServer> {
  const server = new Http2SocketServer({
    handler: echoHandler(),
    limits: { ...defaultHttp2Limits, ...options.limits },
    maxConnections: 1_000,
    tls: options.tls,
    clock: systemClock,
    timers: systemTimers,
    random: Math.random,
    listener: {
      rejected: () => {},
      certificateInUse: () => {},
      certificateRejected: () => {},
    },
    onFault: (error) => {
      throw error;
    },
  });
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
  return { port, stop: () => server.close(1_000) };
}

function echoHandler(): RequestHandler {
  const answer = (stream: RequestStream, pieces: readonly Buffer[]): void => {
    setTimeout(() => {
      const body = Buffer.concat(pieces);
      const answer = body.length === 0 ? greeting : body;
      stream.connection.respond(stream, [':status', '200'], answer, ['x-end', 'yes']);
    }, delayMs);
  };
  return {
    onRequest: (stream, _fields, endStream) => {
      const pieces: Buffer[] = [];
      stream.receiver = {
        receive(bytes, isLast) {
          pieces.push(Buffer.from(bytes));
          if (isLast) answer(stream, pieces);
        },
        // What is said to it later does nothing.
        abort: () => {},
      };
      if (endStream) answer(stream, pieces);
    },
  };
}
