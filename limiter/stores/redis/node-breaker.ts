import { BreakerState, BreakerTimer, type BreakerTimes } from '../calm/breaker-state.ts';

export interface NodeBreakerOptions extends BreakerTimes {
  /** One call beside the breaker. */
  probe: () => Promise<unknown>;
  /** What calls reject with that were sent and not answered. */
  unanswered: () => Error;
  /** What calls reject with that were never sent. */
  unsent: () => Error;
  /** Whether a call that rejected so was answered all the same. */
  isAnswer: (error: unknown) => boolean;
  onChange?: ((open: boolean) => void) | undefined;
}

/** Opens at the tick after these: an eighth earlier than the silence, before a breaker around everything, for which nine ticks are silence. */
const quietTicks = 6;

/**
 * A breaker around the calls to one server of several: those that wait when it falls silent reject, and all others at
 * once until it answers a probe. Unlike `BreakerStore` it lets everybody through then: who calls is bounded already.
 */
export class NodeBreaker {
  readonly #options: NodeBreakerOptions;
  readonly #state = new BreakerState({ quietTicks });
  /** Rejects each call under way. */
  readonly #waiting = new Set<(error: Error) => void>();
  readonly #timer: BreakerTimer;

  constructor(options: NodeBreakerOptions) {
    this.#options = options;
    this.#timer = new BreakerTimer(this.#state, options, {
      onTick: () => this.#tick(),
      probe: options.probe,
      onProbed: (failure) => {
        if (failure === undefined) options.onChange?.(false);
      },
    });
  }

  get open(): boolean {
    return this.#state.phase === 'open' || this.#state.phase === 'probing';
  }

  /** Calls `send` before it returns, or not at all. */
  call<T>(send: () => Promise<T>): Promise<T> {
    if (this.open) return Promise.reject(this.#options.unsent());
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#waiting.add(reject);
    this.#timer.startTicks();
    send().then(
      (value) => {
        if (this.#waiting.delete(reject)) this.#state.heard = true;
        resolve(value);
      },
      (error: unknown) => {
        if (this.#waiting.delete(reject) && this.#options.isAnswer(error)) this.#state.heard = true;
        reject(error);
      },
    );
    return promise;
  }

  /** Ends its timers. Calls under way are left to end by themselves. */
  close(): void {
    this.#timer.close();
  }

  #tick(): void {
    this.#state.tick(this.#waiting.size > 0);
    const { phase } = this.#state;
    if (phase === 'open') this.#opens();
    else if (phase === 'closed' && this.#waiting.size === 0) this.#timer.stopTicks();
  }

  #opens(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    this.#options.onChange?.(true);
    this.#timer.probeLater();
    const error = this.#options.unanswered();
    for (const reject of waiting) reject(error);
  }
}
