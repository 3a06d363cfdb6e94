/** Which listener it is that could not be opened: an address alone does not say it. */
import { BindError } from '../../process/net/process-bind.ts';

/** The message begins with the listener and its settings. */
export class ListenerError extends Error {
  override readonly name = 'ListenerError';
}

/** Other errors than a BindError stay as they are. */
function asListenerError(listener: string): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof BindError)) throw error;
    throw new ListenerError(`${listener}: ${error.message}`, { cause: error });
  };
}

/** To catch what opening each listener rejects with. */
export const listenerErrors = {
  grpc: asListenerError('gRPC (GRPC_HOST, GRPC_PORT)'),
  grpcSocket: asListenerError('GRPC_UDS'),
  http: asListenerError('HTTP (HOST, PORT)'),
  prometheus: asListenerError('Prometheus (PROMETHEUS_ADDR)'),
};
