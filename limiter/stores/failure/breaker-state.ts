/**
 * Decides when the store is asked:
 *
 *            silence, unreachable              probe sent
 *   closed ───────────────────────> open ──────────────────> probing
 *     ^                             ^  ^                      │    │
 *     │                             │  └──── probe failed ────┘    │ probe answered
 *     │ doubled to the end          │ silence, unreachable         v
 *     └─────────────────────────── ramping <───────────────────────┘
 *
 * Time is measured in ticks. A tick is quiet if requests wait and none was answered since the previous tick. More than `quietTicks` of
 * them in a row are silence. A process that stalls misses ticks, and each tick comes after the store's answers were read
 * (`ticksAfterReading`), so it does not mistake its own pause for the store's. While ramping, a bounded number of requests is in flight,
 * which doubles with every tick that was not quiet. Pure.
 */
export type BreakerPhase = 'closed' | 'open' | 'probing' | 'ramping';

/** The first number of requests in flight when the store is back: enough to see that it works, but too few to overload it. */
export const firstAdmitted = 8;
/** Above this number, the ramp ends. */
export const lastAdmitted = 512;

export class BreakerState {
  readonly #quietTicks: number;
  /** The number of requests that may be in flight. */
  admitted = Number.POSITIVE_INFINITY;
  /** Set when the store answered a request. A tick resets it. */
  hasAnswered = false;
  #phase: BreakerPhase = 'closed';
  #quiet = 0;

  constructor(options: { quietTicks: number }) {
    this.#quietTicks = options.quietTicks;
  }

  get phase(): BreakerPhase {
    return this.#phase;
  }

  /** `waiting`: requests are in flight. */
  tick(waiting: boolean): void {
    if (this.#phase === 'open' || this.#phase === 'probing') return;
    this.#quiet = waiting && !this.hasAnswered ? this.#quiet + 1 : 0;
    this.hasAnswered = false;
    if (this.#quiet > this.#quietTicks) this.#open();
    else if (this.#phase === 'ramping' && this.#quiet === 0) this.#widen();
  }

  /** Called when the store reports that it has no connection. */
  unreachable(): void {
    if (this.#phase === 'closed' || this.#phase === 'ramping') this.#open();
  }

  probeSent(): void {
    if (this.#phase === 'open') this.#phase = 'probing';
  }

  probeFailed(): void {
    if (this.#phase === 'probing') this.#phase = 'open';
  }

  probeAnswered(): void {
    if (this.#phase !== 'probing') return;
    this.#phase = 'ramping';
    this.admitted = firstAdmitted;
  }

  #open(): void {
    this.#phase = 'open';
    this.admitted = 0;
    this.#quiet = 0;
    this.hasAnswered = false;
  }

  #widen(): void {
    this.admitted *= 2;
    if (this.admitted <= lastAdmitted) return;
    this.#phase = 'closed';
    this.admitted = Number.POSITIVE_INFINITY;
  }
}
