/** The answers of budgets, made from the plans and the counters of a call. */

import { shownLimit, shownPath } from '../decide/extra-headers.ts';
import type { Plan } from '../decide/limit-plan.ts';
import { assembleResponse, type ResponseOptions } from '../decide/response.ts';
import { marksReached } from '../decide/thresholds.ts';
import type { CountedHit } from '../service/decision.ts';
import { secondsToReset } from '../service/hit-statuses.ts';
import { type DescriptorHold, ReservationsUnsupported } from '../service/reserving.ts';
import type { ReachedReservationBound } from '../stores/operation.ts';
import type { StoreError } from '../stores/store-error.ts';
import type {
  BudgetFailure,
  BudgetScope,
  EndReservationAnswer,
  ReserveAnswer,
  UnlimitedDescriptor,
} from './budgets.ts';

const fullTexts: Readonly<Record<ReachedReservationBound['of'], string>> = {
  counter: 'a counter has as many open reservations as BUDGET_MAX_RESERVATIONS allows',
  domain: 'the domain has as many reservations as BUDGET_MAX_DOMAIN_RESERVATIONS allows',
  caller: 'the caller has as many reservations as BUDGET_MAX_CALLER_RESERVATIONS allows',
  memory: 'the reservations of the domain or of the caller use all of their share of MEMORY_STORE_MAX_BYTES',
};

/** `full` is undefined if the store does not report it. */
export function fullFailure(full: ReachedReservationBound | undefined, nowMs: number): BudgetFailure {
  const { of = 'counter', roomAtMs = 0 } = full ?? {};
  const retryAfterSeconds = Math.max(1, Math.ceil((roomAtMs - nowMs) / 1000));
  return { failure: 'full', message: fullTexts[of], retryAfterSeconds };
}

/** The counters of an answered call, and the time of the answer. */
interface AnsweredCounters {
  readonly held: readonly DescriptorHold[];
  readonly nowMs: number;
}

type ReservedParts = Omit<ReserveAnswer, 'headers' | 'scopes' | 'unlimited'> &
  AnsweredCounters & { readonly headers: () => ReserveAnswer['headers'] };

/** An answer to a reserve. Some protocols do not report its headers, scopes and unlimited descriptors, so these are made when read. */
export class Reserved implements ReserveAnswer {
  readonly #headers: () => ReserveAnswer['headers'];
  readonly #held: readonly DescriptorHold[];
  readonly #nowMs: number;
  readonly allowed: boolean;
  readonly id: string;
  readonly amount: number | undefined;
  readonly expiresAtMs: number;
  readonly isRepeated: boolean;
  readonly plans: readonly Plan[];

  constructor({ headers, held, nowMs, allowed, id, amount, expiresAtMs, isRepeated, plans }: ReservedParts) {
    this.#headers = headers;
    this.#held = held;
    this.#nowMs = nowMs;
    this.allowed = allowed;
    this.id = id;
    this.amount = amount;
    this.expiresAtMs = expiresAtMs;
    this.isRepeated = isRepeated;
    this.plans = plans;
  }

  get headers(): ReserveAnswer['headers'] {
    return this.#headers();
  }

  get scopes(): BudgetScope[] {
    return scopesOf(this.#held, this.#nowMs);
  }

  get unlimited(): UnlimitedDescriptor[] {
    return unlimitedOf(this.plans);
  }
}

/** Returns a function for the headers of an answer. */
export function headersOf(
  decided: Parameters<typeof assembleResponse>[0],
  options: ResponseOptions,
  events: Parameters<typeof assembleResponse>[2],
): () => ReserveAnswer['headers'] {
  const assemble = () => assembleResponse(decided, options, events).responseHeadersToAdd;
  if (!options.shadowMode) return assemble;
  // The answer counts in a statistic if SHADOW_MODE lets it pass.
  const headers = assemble();
  return () => headers;
}

/** An answer to a commit. Its scopes are made when read. */
export class Committed implements EndReservationAnswer {
  readonly #counters: AnsweredCounters;
  readonly outcome: EndReservationAnswer['outcome'];
  readonly charged: number;
  readonly amount: number;
  readonly lost: number | undefined;

  constructor(parts: Omit<EndReservationAnswer, 'scopes'> & AnsweredCounters) {
    this.#counters = parts;
    this.outcome = parts.outcome;
    this.charged = parts.charged;
    this.amount = parts.amount;
    this.lost = parts.lost;
  }

  get scopes(): BudgetScope[] {
    return scopesOf(this.#counters.held, this.#counters.nowMs);
  }
}

/** The call has a different number of descriptors than the reservation. */
export function partialFailure(
  id: string,
  { reserved, named }: { reserved: number; named: number },
): BudgetFailure {
  const has = `${reserved} ${reserved === 1 ? 'descriptor' : 'descriptors'}`;
  const message = `the reservation ${JSON.stringify(id)} has ${has}, but the call names ${named}; name all of them. Nothing was changed`;
  return { failure: 'conflict', message };
}

export function unlimitedOf(plans: readonly Plan[]): UnlimitedDescriptor[] {
  return plans.flatMap(({ kind, rule }, descriptor) =>
    kind === 'limited' ? [] : [{ descriptor, rule: rule && shownPath(rule) }],
  );
}

export function scopesOf(held: readonly DescriptorHold[], nowMs: number): BudgetScope[] {
  return held.flatMap(({ index, isQuota: quota, hits, asked }) =>
    hits.map((hit, i) => scopeOf({ descriptor: index, isQuota: quota }, hit, asked[i], nowMs)),
  );
}

function scopeOf(
  where: Pick<BudgetScope, 'descriptor' | 'isQuota'>,
  hit: CountedHit,
  asked: CountedHit | undefined,
  nowMs: number,
): BudgetScope {
  const { rule, limit, capacity, marks } = hit.counter;
  const used = asked?.after ?? 0;
  const { reserved = 0, open = 0, oldestMs = 0 } = asked?.hold ?? {};
  return {
    ...where,
    rule: shownPath(rule),
    limit: shownLimit(rule, limit),
    isShadow: rule.shadowMode,
    rejected: hit.full || hit.over,
    isExceeded: used > capacity,
    used,
    reserved,
    open,
    oldestSeconds: oldestMs === 0 ? undefined : Math.max(0, Math.floor((nowMs - oldestMs) / 1000)),
    left: hit.full ? 0 : Math.max(0, capacity - used),
    resetSeconds: secondsToReset(hit, hit.over),
    mark: marks?.percents[marksReached(marks, used) - 1],
  };
}

export function failureOf(error: StoreError): BudgetFailure {
  const failure = error instanceof ReservationsUnsupported ? 'unsupported' : 'unavailable';
  return { failure, message: error.textForCallers };
}
