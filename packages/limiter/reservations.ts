/** Reservations: amounts that are held until they are committed, released or expire. */
import type { RateLimitRequest } from '../../limiter/decide/messages.ts';
import type {
  BudgetFailure,
  BudgetRequest,
  Budgets,
  EndReservationAnswer,
  EndReservationRequest,
  ReserveAnswer,
} from '../../limiter/reservations/budgets.ts';
import { kindOfId, reservationIdForm } from '../../limiter/reservations/reservation-id.ts';
import type { Entry } from '../../rules/model.ts';
import type { OnError, Reason, Reservation, ReservedDescriptors, ReserveOptions } from './api.ts';
import { checkHits, checkOptions, checkSignal } from './checks.ts';
import { headersOf } from './decision.ts';
import { reservedOf } from './descriptors.ts';
import { LimiterError } from './limiter-error.ts';
import { type OpenCalls, unlessAborted } from './open-calls.ts';

/** Chosen: the wait that callers get after a store failure. */
export const retryFailedSeconds = 1;

export interface ReservationParts {
  readonly budgets: Budgets;
  readonly calls: OpenCalls;
  readonly onError: OnError;
  /** Throws a `LimiterError` once the limiter is closed. */
  throwIfClosed(): void;
  /** Returns undefined if the request is too large. */
  decode(domain: string, descriptors: Entry[][]): RateLimitRequest | undefined;
  noteNoDomain(domain: string): void;
  storeFailed(message: string): void;
}

export class Reservations {
  readonly #parts: ReservationParts;

  constructor(parts: ReservationParts) {
    this.#parts = parts;
  }

  async reserve(
    domain: string,
    given: ReservedDescriptors,
    options: ReserveOptions = {},
  ): Promise<Reservation> {
    this.#parts.throwIfClosed();
    checkOptions('reserve', options, ['amount', 'ttlMs', 'id', 'signal']);
    const { amount, ttlMs, id, signal } = options;
    checkSignal(signal);
    if (ttlMs !== undefined && !Number.isFinite(ttlMs))
      throw new LimiterError('invalid', `ttlMs is a number of milliseconds, not ${String(ttlMs)}`);
    const { descriptors, amounts } = reservedOf(given);
    if (amounts === undefined || amount !== undefined || amounts.includes(undefined))
      checkHits('amount', amount);
    for (const one of amounts ?? []) if (one !== undefined) checkHits('amount', one);
    if (id !== undefined && !isChosenId(id))
      throw new LimiterError('invalid', 'id is 1 to 255 visible ASCII characters, not w0. or w1. first');
    const request = this.#parts.decode(domain, descriptors);
    if (request === undefined) return nothingReserved(amount, { allowed: false, reason: 'too-large' });
    const about = { domain, descriptors: request.descriptors };
    const ask = { ...about, amount, amounts, ttlMs: ttlMs && Math.ceil(ttlMs), id, recalled: false };
    const answer = await unlessAborted(signal, this.#ask(ask, signal));
    return 'failure' in answer
      ? this.#notReserved(amount, answer, domain)
      : this.#reservation(amount, answer, about);
  }

  #ask(
    question: Parameters<Budgets['reserve']>[0],
    signal: AbortSignal | undefined,
  ): Promise<ReserveAnswer | BudgetFailure> {
    const { budgets, calls } = this.#parts;
    const asker = {
      get abandoned() {
        return signal?.aborted === true;
      },
    };
    return calls.while(async () => {
      const answered = await new Promise<ReserveAnswer | BudgetFailure>((done) =>
        budgets.reserve(question, asker, done),
      );
      const { domain, descriptors } = question;
      // The caller has gone and will not commit it.
      if (asker.abandoned && 'allowed' in answered)
        await this.#sendCommit({ domain, descriptors, actual: 0 }, answered);
      return answered;
    });
  }

  #reservation(amount: number | undefined, answer: ReserveAnswer, about: BudgetRequest): Reservation {
    const { allowed, id, expiresAtMs } = answer;
    const headers = headersOf(answer.headers);
    const seconds = headers['Retry-After'];
    const commit = (cost: number | readonly number[] | undefined) => this.#commit(cost, answer, about);
    return {
      allowed,
      reason: allowed ? whyReserved(answer) : 'limit',
      id: allowed ? id : undefined,
      amount,
      expiresAt: allowed && expiresAtMs > 0 ? new Date(expiresAtMs) : undefined,
      retryAfterMs: seconds === undefined ? undefined : Number(seconds) * 1000,
      headers,
      commit: (actual) => commit(actual),
      release: async () => void (await commit(0)),
    };
  }

  async #commit(
    cost: number | readonly number[] | undefined,
    answer: ReserveAnswer,
    about: BudgetRequest,
  ): Promise<number> {
    this.#parts.throwIfClosed();
    const [actual, amounts] = isList(cost) ? [undefined, cost] : [cost, undefined];
    const { length } = about.descriptors;
    if (amounts !== undefined && amounts.length !== length)
      throw new LimiterError(
        'invalid',
        `the reservation has ${length} descriptors, so commit takes as many amounts, not ${amounts.length}`,
      );
    for (const one of amounts ?? [actual]) if (one !== undefined) checkHits('actual', one);
    const settled = await this.#parts.calls.while(() =>
      this.#sendCommit({ ...about, actual, amounts }, answer),
    );
    if ('failure' in settled) throw new LimiterError(codeOf(settled), settled.message);
    return settled.charged;
  }

  /** Uses the plans of the reserve call, because the current rules may have no such counter. */
  #sendCommit(
    costs: BudgetRequest & Pick<EndReservationRequest, 'actual'>,
    { allowed, id, plans }: ReserveAnswer,
  ): Promise<Pick<EndReservationAnswer, 'charged'> | BudgetFailure> {
    if (!allowed) return Promise.resolve({ charged: 0 });
    const question = { ...costs, id, plans, unknown: 'charge' } as const;
    return new Promise((done) => this.#parts.budgets.commit(question, { abandoned: false }, done));
  }

  #notReserved(amount: number | undefined, failure: BudgetFailure, domain: string): Reservation {
    const { onError, noteNoDomain, storeFailed } = this.#parts;
    const { message, retryAfterSeconds } = failure;
    switch (failure.failure) {
      case 'no-domain':
        noteNoDomain(domain);
        return nothingReserved(amount, { allowed: true, reason: 'no-rule' });
      case 'full':
        return {
          ...nothingReserved(amount, { allowed: false, reason: 'full' }),
          retryAfterMs: retryAfterSeconds === undefined ? undefined : retryAfterSeconds * 1000,
        };
      case 'unavailable':
        storeFailed(message);
        if (onError === 'throw') throw new LimiterError('store', message);
        return {
          ...nothingReserved(amount, { allowed: onError === 'allow', reason: 'store' }),
          retryAfterMs: onError === 'allow' ? undefined : retryFailedSeconds * 1000,
        };
      default:
        throw new LimiterError(codeOf(failure), message);
    }
  }
}

function isList(cost: number | readonly number[] | undefined): cost is readonly number[] {
  return Array.isArray(cost);
}

function isChosenId(id: unknown): boolean {
  return typeof id === 'string' && reservationIdForm.test(id) && kindOfId(id) === 'chosen';
}

/** Returns why an amount is held although a limit may be exceeded. Undefined if it fits. */
function whyReserved({ amount, plans, scopes }: ReserveAnswer): Reason {
  if (plans.every(({ kind }) => kind !== 'limited'))
    return plans.some(({ kind }) => kind === 'unlimited') ? 'unlimited' : 'no-rule';
  return amount !== 0 && scopes.some((one) => one.rejected || one.isExceeded) ? 'shadow' : undefined;
}

function nothingReserved(
  amount: number | undefined,
  { allowed, reason }: Pick<Reservation, 'allowed' | 'reason'>,
): Reservation {
  return {
    ...{ allowed, reason, amount, headers: {} },
    ...{ id: undefined, expiresAt: undefined, retryAfterMs: undefined },
    commit: async () => 0,
    release: async () => {},
  };
}

function codeOf({ failure }: BudgetFailure): LimiterError['code'] {
  if (failure === 'conflict' || failure === 'unsupported') return failure;
  return failure === 'unavailable' ? 'store' : 'invalid';
}
