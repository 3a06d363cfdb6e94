import type { BudgetLimits } from './limits.ts';

/** What is left of one allowance. */
export class Budget {
  readonly #limits: BudgetLimits;
  #left: number;
  #refilledMs: number;

  constructor(limits: BudgetLimits, nowMs: number) {
    this.#limits = limits;
    this.#left = limits.burst;
    this.#refilledMs = nowMs;
  }

  /** False when the allowance does not reach. */
  spend(cost: number, nowMs: number): boolean {
    if (nowMs > this.#refilledMs) this.#refill(nowMs);
    this.#left -= cost;
    return this.#left >= 0;
  }

  requestCompleted(): void {
    this.#left = Math.min(this.#left + this.#limits.perRequest, this.#limits.burst);
  }

  #refill(nowMs: number): void {
    const gained = ((nowMs - this.#refilledMs) / 1000) * this.#limits.perSecond;
    this.#left = Math.min(this.#limits.burst, this.#left + gained);
    this.#refilledMs = nowMs;
  }
}
