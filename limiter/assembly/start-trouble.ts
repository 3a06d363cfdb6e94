/** A start that does not go well: what is reported about one that takes long, and which listener could not be opened. */
import { BindError } from '../../process/net/bind.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';

/** So long after it began a start is reported first, and then again and again. */
const firstMs = 10_000;
const furtherMs = 60_000;

/** A start that takes long is reported again and again: until it is over nobody is served. */
export class StartWatch {
  /** What the start waits for from now on. */
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

  /** The start is over, or given up. */
  end(): void {
    this.#callOff();
  }
}

/** Which listener could not be opened: an address alone does not say it. The message begins with listener and settings. */
class ListenerError extends Error {
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
