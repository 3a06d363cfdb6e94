/** The health service on `@grpc/grpc-js`, with handlers that work on bytes. */
import type { handleServerStreamingCall, handleUnaryCall, Server } from '@grpc/grpc-js';
import { decodeBytes, encodeBytes } from '../../process/grpc/grpc-js.ts';
import {
  type CallObserver,
  GrpcCode,
  type GrpcStatus,
  type MessageStream,
  type StreamHandler,
  statusText,
  type UnaryHandler,
  type UnaryReply,
} from '../../process/grpc/handlers.ts';
import type { HealthService } from '../../process/grpc/health-service.ts';

const fault: GrpcStatus = { code: GrpcCode.INTERNAL, message: 'internal error' };

/** Uses only the first answer, so that a handler that throws after its answer does no harm. */
function serveUnary(
  method: string,
  handler: UnaryHandler,
  onFault: CallObserver['onFault'],
): handleUnaryCall<Buffer, Uint8Array> {
  return (call, callback) => {
    let answered = false;
    const reply: UnaryReply = {
      get abandoned() {
        return !answered && call.cancelled;
      },
      send: (message) => {
        if (answered) return;
        answered = true;
        callback(null, message);
      },
      fail: ({ code, message }) => {
        if (answered) return;
        answered = true;
        callback({ code, details: statusText(message) });
      },
    };
    try {
      handler(call.request, reply);
    } catch (error) {
      onFault(method, error);
      reply.fail(fault);
    }
  };
}

function serveStream(
  method: string,
  handler: StreamHandler,
  onFault: CallObserver['onFault'],
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
      onFault(method, error);
      stream.end(fault);
    }
  };
}

const healthPath = '/grpc.health.v1.Health/';

/** Registers the three methods of the health service. */
export function registerHealth(
  server: Server,
  health: HealthService,
  onFault: CallObserver['onFault'],
): void {
  const { check, list, watch } = health;
  for (const [method, handler] of Object.entries({ Check: check, List: list })) {
    const serve = serveUnary(method, handler, onFault);
    server.register(healthPath + method, serve, encodeBytes, decodeBytes, 'unary');
  }
  const serve = serveStream('Watch', watch, onFault);
  server.register(`${healthPath}Watch`, serve, encodeBytes, decodeBytes, 'serverStream');
}
