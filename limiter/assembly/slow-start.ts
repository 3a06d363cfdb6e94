/** Problems at the start: reports a start that takes long, and names the listener that could not be opened. */
import { BindError } from '../../process/net/bind.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';

/** The time after which a slow start is first reported. Further reports follow. */
const firstMs = 10_000;
const furtherMs = 60_000;

/** Reports a start that takes long, repeatedly, because no caller is served until it is over. */
export class SlowStartReporter {
  /** The step that the start waits for. */
  waitsFor = '';
  #callOff: () => void;

  constructor(
    { clock, timers }: { clock: Clock; timers: Timers },
    onWaiting: (start: { waitsFor: string; seconds: number }) => void,
  ) {
    const beganMs = clock.monotonicMs();
    const report = (): void => {
      const seconds = Math.round((clock.monotonicMs() - beganMs) / 1000);
      onWaiting({ waitsFor: this.waitsFor, seconds });
    };
    this.#callOff = timers.after(firstMs, () => {
      this.#callOff = timers.every(furtherMs, report);
      report();
    });
  }

  /** Stops, because the start is over or has failed. */
  end(): void {
    this.#callOff();
  }
}

/**
 * Adds the name of the listener that could not be opened, because the address does not show it. The message begins with the listener and
 * its settings.
 */
class ListenerError extends Error {
  override readonly name = 'ListenerError';
}

/** Errors other than BindError are passed on unchanged. */
function asListenerError(listener: string): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof BindError)) throw error;
    throw new ListenerError(`${listener}: ${error.message}`, { cause: error });
  };
}

/** Handlers for the errors of opening each listener. */
export const listenerErrors = {
  grpc: asListenerError('gRPC (GRPC_HOST, GRPC_PORT)'),
  grpcSocket: asListenerError('GRPC_UDS'),
  http: asListenerError('HTTP (HOST, PORT)'),
  prometheus: asListenerError('Prometheus (PROMETHEUS_ADDR)'),
};
