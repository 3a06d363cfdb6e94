/** A start that takes long is told of again and again: until it is over nobody is served. */

import { BindError } from '../../process/net/bind.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';

export interface WaitingStart {
  /** What the start waits for now. */
  waitsFor: string;
  seconds: number;
}

export interface StartWatchOptions {
  clock: Clock;
  timers: Timers;
  /** Called 10 s after the start began, then every minute. */
  onWaiting(start: WaitingStart): void;
}

const firstMs = 10_000;
const furtherMs = 60_000;

export class StartWatch {
  /** What the start waits for from now on. */
  waitsFor = '';
  readonly #options: StartWatchOptions;
  readonly #beganMs: number;
  #callOff: () => void;

  constructor(options: StartWatchOptions) {
    const { clock, timers } = options;
    this.#options = options;
    this.#beganMs = clock.monotonicMs();
    this.#callOff = timers.after(firstMs, () => {
      this.#callOff = timers.every(furtherMs, () => this.#tell());
      this.#tell();
    });
  }

  /** The start is over, or given up. */
  end(): void {
    this.#callOff();
  }

  #tell(): void {
    const { clock, onWaiting } = this.#options;
    const seconds = Math.round((clock.monotonicMs() - this.#beganMs) / 1000);
    onWaiting({ waitsFor: this.waitsFor, seconds });
  }
}

/** Which listener it is that could not be opened: an address alone does not say it. */

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
