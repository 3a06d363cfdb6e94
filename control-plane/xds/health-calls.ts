/** The health service on `@grpc/grpc-js`. */
import type { handleUnaryCall, Server, ServerWritableStream } from '@grpc/grpc-js';
import { decodeBytes, encodeBytes } from '../../process/grpc/grpc-js.ts';
import { type MessageStream, statusText } from '../../process/grpc/handlers.ts';
import type { HealthService } from '../../process/grpc/health-service.ts';

const healthPath = '/grpc.health.v1.Health/';

/** Registers the three methods of the health service. */
export function registerHealth(server: Server, { check, list, watch }: HealthService): void {
  for (const [method, handler] of Object.entries({ Check: check, List: list })) {
    const serve: handleUnaryCall<Buffer, Uint8Array> = (call, callback) =>
      handler(call.request, {
        abandoned: call.cancelled,
        send: (message) => callback(null, message),
        fail: ({ code, message }) => callback({ code, details: statusText(message) }),
      });
    server.register(healthPath + method, serve, encodeBytes, decodeBytes, 'unary');
  }
  const serve = (call: ServerWritableStream<Buffer, Uint8Array>): void => watch(call.request, streamOf(call));
  server.register(`${healthPath}Watch`, serve, encodeBytes, decodeBytes, 'serverStream');
}

function streamOf(call: ServerWritableStream<Buffer, Uint8Array>): MessageStream {
  return {
    send: (message) => {
      if (!call.writableEnded) call.write(message);
    },
    end: (status) => {
      if (call.writableEnded) return;
      if (status === undefined) call.end();
      else call.emit('error', { code: status.code, details: statusText(status.message) });
    },
    onClose: (listener) => call.once('close', listener),
  };
}
