/** The health service on `@grpc/grpc-js`, with handlers that work on bytes. */
import type { handleServerStreamingCall, handleUnaryCall, Server } from '@grpc/grpc-js';
import { decodeBytes, encodeBytes } from '../../process/grpc/grpc-js.ts';
import {
  type MessageStream,
  type StreamHandler,
  statusText,
  type UnaryHandler,
} from '../../process/grpc/handlers.ts';
import type { HealthService } from '../../process/grpc/health-service.ts';

function serveUnary(handler: UnaryHandler): handleUnaryCall<Buffer, Uint8Array> {
  return (call, callback) =>
    handler(call.request, {
      abandoned: call.cancelled,
      send: (message) => callback(null, message),
      fail: ({ code, message }) => callback({ code, details: statusText(message) }),
    });
}

function serveStream(handler: StreamHandler): handleServerStreamingCall<Buffer, Uint8Array> {
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
    handler(call.request, stream);
  };
}

const healthPath = '/grpc.health.v1.Health/';

/** Registers the three methods of the health service. Its handlers never throw, and answer once. */
export function registerHealth(server: Server, { check, list, watch }: HealthService): void {
  for (const [method, handler] of Object.entries({ Check: check, List: list }))
    server.register(healthPath + method, serveUnary(handler), encodeBytes, decodeBytes, 'unary');
  server.register(`${healthPath}Watch`, serveStream(watch), encodeBytes, decodeBytes, 'serverStream');
}
