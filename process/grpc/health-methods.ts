import type { Server } from '@grpc/grpc-js';
import type { CallObserver } from './call-observer.ts';
import { serveStream, serveUnary } from './grpc-js-calls.ts';
import type { HealthService } from './health-service.ts';
import { decodeBytes, encodeBytes } from './raw-bytes.ts';

const path = '/grpc.health.v1.Health/';

/** Registers the three methods of the health service. */
export function registerHealth(server: Server, health: HealthService, observer: CallObserver): void {
  const { check, list, watch } = health;
  for (const [method, handler] of Object.entries({ Check: check, List: list })) {
    const serve = serveUnary(method, handler, observer);
    server.register(path + method, serve, encodeBytes, decodeBytes, 'unary');
  }
  const serve = serveStream('Watch', watch, observer);
  server.register(`${path}Watch`, serve, encodeBytes, decodeBytes, 'serverStream');
}
