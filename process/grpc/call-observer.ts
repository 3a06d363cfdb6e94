import type { Clock } from '../time/process-clock.ts';

/** Who learns of calls; `method` is its name without the service. */
export interface CallObserver {
  clock: Clock;
  /**
   * Called after every unary call that reached its handler, failed ones too. Others (unknown method, message too long)
   * are not counted.
   */
  onCall(method: string, durationMs: number): void;
  /** Called when a handler threw. */
  onFault(method: string, error: unknown): void;
}
