/** What the streams of a load were let and charged, beside what the store holds of it. Pure, but for the clock. */
import type { BudgetRetries } from './budget-client.ts';
import { counterName, limitOf, type StreamPlan, scopes } from './stream-plan.ts';

export interface BudgetFigures {
  way: string;
  streams: number;
  /** Streams that were under way at once, waiting or let. */
  maxAtOnce: number;
  answered: number;
  refused: number;
  died: number;
  /** Questions asked again. */
  retries: BudgetRetries;
  /** Limiters that had ended when the last stream had. */
  limitersEnded: number;
  /** Tokens of the budget that all streams share, and what it was charged. */
  limit: number;
  charged: number;
  /** What commits beyond their reservations, and after their TTLs, were charged to it whatever was left. */
  allowed: number;
  /** Of that budget: the most at any moment beyond its limit and what is allowed. */
  overspent: number;
  /** Budgets of which that is not 0, of all. */
  overspentBudgets: number;
  budgets: number;
  /** Over all budgets: what the store holds beyond the costs of the streams that ended, what it lacks, what stays reserved. */
  countedTwice: number;
  lost: number;
  leaked: number | undefined;
}

interface Account {
  limit: number;
  /** Costs of streams that ended. */
  cost: number;
  allowed: number;
  overspent: number;
}

export class BudgetLedger {
  readonly #streams: number;
  readonly #accounts: ReadonlyMap<string, Account>;
  /** Streams whose commit is on its way, and from when on it may come after its TTL (`performance.now()`). */
  readonly #settling = new Map<StreamPlan, number>();
  #underWay = 0;
  #maxAtOnce = 0;
  #answered = 0;
  #refused = 0;
  #died = 0;
  /** `performance.now()` when the last stream was let. */
  lastBeganMs = 0;
  /** What stays reserved; undefined where nothing is. */
  leaked: number | undefined;

  constructor(streams: number) {
    this.#streams = streams;
    const account = (key: string): Account => ({
      limit: limitOf(key, streams),
      cost: 0,
      allowed: 0,
      overspent: 0,
    });
    this.#accounts = new Map(scopes.map((scope) => [counterName(scope), account(scope.key)]));
  }

  arrived(): void {
    this.#underWay += 1;
    this.#maxAtOnce = Math.max(this.#maxAtOnce, this.#underWay);
  }

  began(): void {
    this.lastBeganMs = performance.now();
  }

  refused(): void {
    this.#underWay -= 1;
    this.#refused += 1;
  }

  died(): void {
    this.#underWay -= 1;
    this.#died += 1;
  }

  settling(stream: StreamPlan, lateFromMs: number): void {
    this.#settling.set(stream, lateFromMs);
  }

  ended(stream: StreamPlan): void {
    this.#settling.delete(stream);
    this.#underWay -= 1;
    this.#answered += 1;
    for (const account of this.#of(stream)) account.cost += stream.actual;
  }

  /** So many tokens may be charged beyond the limit from now on. */
  allow(stream: StreamPlan, tokens: number): void {
    for (const account of this.#of(stream)) account.allowed += tokens;
  }

  /** What the store holds by counter, at some moment before now. */
  look(held: ReadonlyMap<string, number>): void {
    const mayBeLate = new Map<Account, number>();
    for (const [stream, lateFromMs] of this.#settling) {
      if (performance.now() < lateFromMs) continue;
      for (const account of this.#of(stream))
        mayBeLate.set(account, (mayBeLate.get(account) ?? 0) + stream.estimate);
    }
    for (const [name, account] of this.#accounts) {
      const allowed = account.allowed + (mayBeLate.get(account) ?? 0);
      account.overspent = Math.max(account.overspent, (held.get(name) ?? 0) - account.limit - allowed);
    }
  }

  /** With what the store holds in the end. */
  figures(
    way: string,
    held: ReadonlyMap<string, number>,
    { retries, limitersEnded }: Pick<BudgetFigures, 'retries' | 'limitersEnded'>,
  ): BudgetFigures {
    this.look(held);
    const accounts = [...this.#accounts];
    const beyond = accounts.map(([name, { cost }]) => (held.get(name) ?? 0) - cost);
    const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + Math.max(0, b), 0);
    const [[shared, { limit, allowed, overspent }]] = accounts as [[string, Account]];
    return {
      way,
      streams: this.#streams,
      maxAtOnce: this.#maxAtOnce,
      answered: this.#answered,
      refused: this.#refused,
      died: this.#died,
      retries,
      limitersEnded,
      limit,
      charged: held.get(shared) ?? 0,
      allowed,
      overspent,
      overspentBudgets: accounts.filter(([, account]) => account.overspent > 0).length,
      budgets: accounts.length,
      countedTwice: sum(beyond),
      lost: sum(beyond.map((tokens) => -tokens)),
      leaked: this.leaked,
    };
  }

  #of({ scopes: charged }: StreamPlan): Account[] {
    return charged.map((scope) => {
      const account = this.#accounts.get(counterName(scope));
      if (account === undefined) throw new Error(`no budget ${counterName(scope)}`);
      return account;
    });
  }
}
