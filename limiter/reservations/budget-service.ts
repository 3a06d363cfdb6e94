import { randomFillSync } from 'node:crypto';
import type { Decisions } from '../capabilities/parts.ts';
import type { Plan } from '../decide/limit-plan.ts';
import { type RateLimitRequest, ServiceError } from '../decide/messages.ts';
import { RequestTooLarge } from '../decide/request-bounds.ts';
import { okStatus, type ResponseOptions, unlimitedStatus } from '../decide/response.ts';
import type { CountedHit } from '../service/decision.ts';
import { mixedUnits } from '../service/mixed-units.ts';
import { appended } from '../service/prepare.ts';
import type { DecisionParts } from '../service/rate-limit-service.ts';
import {
  type DescriptorHold,
  newDescriptorHold,
  ownerOf,
  statusOfReserved,
  type UnlimitedNoteFormat,
} from '../service/reserving.ts';
import { type Caller, copyOperation, newReservation, type Reservation } from '../stores/operation.ts';
import { StoreError } from '../stores/store-error.ts';
import {
  Committed,
  failureOf,
  fullFailure,
  headersOf,
  partialFailure,
  Reserved,
  scopesOf,
} from './budget-answers.ts';
import {
  type BudgetFailure,
  type BudgetRequest,
  type BudgetStatus,
  type Budgets,
  defaultTtlMs,
  type EndReservationAnswer,
  type EndReservationRequest,
  minTtlMs,
  type RecalledReservation,
  type ReserveAnswer,
  type ReserveRequest,
} from './budgets.ts';
import { kindOfId, ReservationIds } from './reservation-id.ts';
import { endOfSame, recalledFrom, reservationNoteOf, unlimitedNoteOf } from './reservation-note.ts';

export interface BudgetServiceOptions {
  /** BUDGET_MAX_TTL. */
  readonly maxTtlMs: number;
  /** Returns 128 random bits as 32 hexadecimal digits. */
  readonly newId: () => string;
  /** The settings of headers. */
  readonly response: ResponseOptions;
}

/** The question, and the amounts that can be held for it. */
interface Planned {
  readonly request: RateLimitRequest;
  readonly plans: readonly Plan[];
  readonly holds: readonly DescriptorHold[];
}

interface PlanTerms {
  readonly amount: number | undefined;
  readonly ttlMs?: number;
  /** Whether the same amount may be charged to rules of different `hits_unit`. */
  readonly mixesUnits?: boolean;
}

/** Creates budgets with random ids. */
export function createBudgets(
  { service, wholeResponse }: Decisions,
  longest: Pick<BudgetServiceOptions, 'maxTtlMs'>,
): Budgets {
  return new BudgetService(service.parts, { ...longest, newId: randomIds(), response: wholeResponse });
}

export class BudgetService implements Budgets {
  readonly #parts: DecisionParts;
  readonly #options: BudgetServiceOptions;
  readonly #ids: ReservationIds;

  constructor(parts: DecisionParts, options: BudgetServiceOptions) {
    this.#parts = parts;
    this.#options = options;
    this.#ids = new ReservationIds(options.newId);
  }

  reserve(
    question: ReserveRequest,
    asker: Caller,
    done: (answer: ReserveAnswer | BudgetFailure) => void,
  ): void {
    const { maxTtlMs } = this.#options;
    const { domain, amount, recalled } = question;
    const { ttlMs = Math.min(defaultTtlMs, maxTtlMs) } = question;
    if (!(ttlMs >= minTtlMs && ttlMs <= maxTtlMs)) {
      const bounds = `${minTtlMs / 1000}s to ${maxTtlMs / 1000}s (BUDGET_MAX_TTL)`;
      done({ failure: 'invalid', message: `ttl must be from ${bounds}, not ${ttlMs / 1000}s` });
      return;
    }
    const planned = this.#plan(question, { amount, ttlMs });
    if ('failure' in planned) {
      done(planned);
      return;
    }
    const { plans, holds } = planned;
    const otherQuotaPasses = this.#hasUnlimitedQuota(plans);
    const given = question.id ?? this.#ids.make(domain);
    const stored = question.id === undefined ? given : this.#ids.inStore(domain, given);
    const isUnlimitedNoted =
      question.id !== undefined && planned.request.descriptors.some(({ hitsAddend = 0 }) => hitsAddend > 0);
    const note: UnlimitedNoteFormat | undefined = isUnlimitedNoted
      ? { until: (expiresAtMs) => unlimitedNoteOf(question, { ttlMs, expiresAtMs }), endOfSame }
      : undefined;
    const call = newReservation({
      id: stored,
      owner: ownerOf(domain, asker),
      descriptors: planned.request.descriptors.length,
      note: recalled ? reservationNoteOf(question) : undefined,
      otherQuotaPasses,
      width: 0,
    });
    const answer = (error: StoreError | undefined): void => {
      if (error !== undefined) {
        done(failureOf(error));
        return;
      }
      const isNothing = call.width === 0 && !isUnlimitedNoted;
      const id = isNothing ? this.#ids.makeForNothing(domain, question.id) : given;
      done(this.#reserveAnswer(planned, call, { id, amount, asker }));
    };
    this.#parts.reserving.reserve(holds, call, asker, answer, { ttlMs, note });
  }

  commit(
    question: EndReservationRequest,
    asker: Caller,
    done: (answer: EndReservationAnswer | BudgetFailure) => void,
  ): void {
    const { domain, id, actual, unknown, isUnlimited = false } = question;
    const holdsNothing = isUnlimited || kindOfId(id) === 'nothing';
    // Without an id, hits are reported. They count like the hits of any other request.
    const terms = { amount: actual, mixesUnits: id === '' };
    const planned = holdsNothing ? nothingPlanned : this.#plan(question, terms);
    if ('failure' in planned) {
      done(planned);
      return;
    }
    const owner = ownerOf(domain, asker);
    // A commit without an id settles a new marker, of which no store has a record.
    const call =
      id === ''
        ? newReservation({ id: this.#options.newId(), owner, isMarker: true, unknown: 'charge', width: 0 })
        : newReservation({
            id: this.#ids.inStore(domain, id),
            owner,
            descriptors: holdsNothing ? 0 : question.descriptors.length,
            unknown,
            width: 0,
          });
    const { holds } = planned;
    const commit = (): void =>
      this.#parts.reserving.commit(holds, call, asker, (error) =>
        done(error === undefined ? this.#commitAnswer(id, call, holds) : failureOf(error)),
      );
    if (holdsNothing || holds.length > 0) commit();
    else
      void this.#recalledOther(question).then((failure) =>
        failure === undefined ? commit() : done(failure),
      );
  }

  /**
   * Checks the number of descriptors if no limit applies. In this case, no counter is asked, but the note contains the descriptors of the
   * reservation.
   */
  async #recalledOther({
    id,
    domain,
    descriptors,
  }: EndReservationRequest): Promise<BudgetFailure | undefined> {
    if (id === '' || this.#parts.reserving.reservesNothing !== undefined) return undefined;
    const known = await this.recall(id, domain);
    if (known === undefined || 'failure' in known) return known;
    const reserved = known.descriptors.length;
    if (known.isUnlimited || reserved === descriptors.length) return undefined;
    return partialFailure(id, { reserved, named: descriptors.length });
  }

  status(question: BudgetRequest, asker: Caller, done: (answer: BudgetStatus | BudgetFailure) => void): void {
    const planned = this.#plan(question, { amount: undefined });
    if ('failure' in planned) {
      done(planned);
      return;
    }
    const nowMs = this.#parts.clock.nowMs();
    const { plans, holds } = planned;
    const otherQuotaPasses = this.#hasUnlimitedQuota(plans);
    this.#parts.reserving.look(holds, asker, (error) =>
      done(error === undefined ? { scopes: scopesOf(holds, nowMs), otherQuotaPasses } : failureOf(error)),
    );
  }

  /** Whether a descriptor without a limit counts as a quota that passes. */
  #hasUnlimitedQuota(plans: readonly Plan[]): boolean {
    return plans.some((plan) => plan.kind !== 'limited' && this.#parts.isQuota(plan));
  }

  async recall(
    id: string,
    domain: string | undefined,
  ): Promise<RecalledReservation | undefined | BudgetFailure> {
    const { reserving, store } = this.#parts;
    if (reserving.reservesNothing !== undefined) return failureOf(reserving.reservesNothing);
    try {
      const note = await store.notes!.recall(domain === undefined ? id : this.#ids.inStore(domain, id));
      const found = note === undefined ? undefined : recalledFrom(note);
      return domain === undefined || found?.domain === domain ? found : undefined;
    } catch (error) {
      if (error instanceof StoreError) return failureOf(error);
      throw error;
    }
  }

  #plan(
    {
      domain,
      descriptors,
      amounts,
      leftOut,
      plans: known,
    }: BudgetRequest & Pick<EndReservationRequest, 'plans'>,
    { amount, ttlMs = 0, mixesUnits = false }: PlanTerms,
  ): Planned | BudgetFailure {
    const { clock, isQuota, plans: inForce } = this.#parts;
    const request = {
      domain,
      descriptors: descriptors.map((one, index) => ({ ...one, hitsAddend: amounts?.[index] ?? amount })),
      hitsAddend: amount ?? 0,
      leftOut,
    };
    // This check covers all callers, because a bad number would corrupt the counter in the store.
    const wrong = request.descriptors.find(({ hitsAddend = 0 }) => !isAmount(hitsAddend));
    if (wrong !== undefined) {
      const message = `an amount is a whole number from 0 to 2^53 - 1, not ${wrong.hitsAddend}`;
      return { failure: 'invalid', message };
    }
    let plans: readonly Plan[];
    try {
      plans = known ?? inForce.plan(request, clock.nowMs());
    } catch (error) {
      if (error instanceof RequestTooLarge)
        return { failure: 'invalid', message: error.message, tooLarge: error };
      if (!(error instanceof ServiceError)) throw error;
      return { failure: error.transient ? 'unavailable' : 'invalid', message: error.message };
    }
    if (plans.every(({ kind }) => kind === 'domain-not-found')) {
      inForce.noteNoDomain(domain);
      return { failure: 'no-domain', message: `there are no rules for the domain ${JSON.stringify(domain)}` };
    }
    let holds: readonly DescriptorHold[] = nothingPlanned.holds;
    for (let index = 0; index < plans.length; index++) {
      const plan = plans[index]!;
      if (plan.kind !== 'limited') continue;
      const own = request.descriptors[index]!.hitsAddend;
      const terms = { amount: own, ttlMs, onExpiry: 'release' } as const;
      holds = appended(holds, newDescriptorHold({ index, plan, isQuota: isQuota(plan), ...terms }));
    }
    const mixed = mixesUnits ? undefined : mixedUnitsOf(holds, amounts);
    return mixed ?? { request, plans, holds };
  }

  #reserveAnswer(
    planned: Planned,
    call: Reservation,
    { id, amount, asker }: { id: string; amount: number | undefined; asker: Caller },
  ): ReserveAnswer | BudgetFailure {
    const { outcome, expiresAtMs } = call;
    const { plans, holds: held } = planned;
    if (outcome === 'conflict') {
      const message = `the reservation ${JSON.stringify(id)} has another amount, ttl or descriptors, or was made under other rules: use another reservationId`;
      return { failure: 'conflict', message };
    }
    const nowMs = this.#parts.clock.nowMs();
    const allowed = outcome !== 'refused' && outcome !== 'full';
    const isRepeated = outcome === 'repeated';
    // A repeated call was counted before. A full counter rejects as a limit does.
    if (!isRepeated) for (const { hits } of held) this.#parts.answered.countHeld(hits, allowed);
    if (outcome === 'full') return fullFailure(call.full, nowMs);
    if (!isRepeated) this.#parts.answered.countUnlimited(planned, allowed);
    const headers = this.#concluded(planned, isRepeated, asker);
    const endMs = allowed ? expiresAtMs : 0;
    return new Reserved({ allowed, id, amount, expiresAtMs: endMs, isRepeated, plans, headers, held, nowMs });
  }

  #commitAnswer(
    id: string,
    call: Reservation,
    held: readonly DescriptorHold[],
  ): EndReservationAnswer | BudgetFailure {
    const { commitOutcome: outcome, charged, amount, reservedDescriptors: reserved, descriptors } = call;
    if (outcome === 'partial') return partialFailure(id, { reserved, named: descriptors });
    let max = 0;
    for (const { asked } of held) for (const { hold } of asked) max = Math.max(max, hold!.lost);
    const lost = max === 0 ? undefined : max;
    return new Committed({ outcome, charged, amount, lost, held, nowMs: this.#parts.clock.nowMs() });
  }

  /** Counts in the rules' statistics like hits, unless the call is repeated, and returns a function for the headers of the answer. */
  #concluded(
    { request, plans, holds }: Planned,
    isRepeated: boolean,
    asker: Caller,
  ): () => ReserveAnswer['headers'] {
    const { plans: inForce, events } = this.#parts;
    const asked = { request, epoch: inForce.epoch, asker };
    const statuses = plans.map((plan, index) => {
      const one = holds.find((other) => other.index === index);
      if (one !== undefined) {
        const [hit] = isRepeated ? uncounted(one.hits) : one.hits;
        return statusOfReserved(this.#parts, one, asked, { reports: true, hit: hit! });
      }
      if (plan.kind !== 'unlimited') return okStatus;
      if (plan.metrics !== undefined && !isRepeated)
        this.#parts.hits.countUnlimited(plan.metrics, request, index);
      return unlimitedStatus;
    });
    return headersOf({ request, plans, statuses }, this.#options.response, events);
  }
}

/** Returns the reason why an amount cannot be charged to all of its rules, if there is one. An amount of 0 fits any unit. */
function mixedUnitsOf(
  holds: readonly DescriptorHold[],
  amounts: BudgetRequest['amounts'],
): BudgetFailure | undefined {
  // The usual case: a single limit has one unit.
  if (holds.length === 1 && holds[0]!.plan.limits.length === 1) return undefined;
  const charged = holds.filter(({ amount = 0 }) => amount > 0);
  const isOwn = ({ index }: DescriptorHold): boolean => amounts?.[index] !== undefined;
  const shared = charged.filter((one) => !isOwn(one));
  for (const group of [shared, ...charged.filter(isOwn).map((one) => [one])]) {
    const mixed = mixedUnits(group.map(({ plan }) => plan));
    if (mixed === undefined) continue;
    const advice = mixed.isOneRule
      ? 'the limits of a rule need one hits_unit'
      : 'give each descriptor its own amount';
    const words = `the amount ${group[0]!.amount} cannot be charged to rules of different hits_unit`;
    return { failure: 'invalid', message: `${words}: ${mixed.words}; ${advice}` };
  }
  return undefined;
}

function isAmount(amount: number): boolean {
  return Number.isSafeInteger(amount) && amount >= 0;
}

/** The plan of a settle that has nothing to do. */
const nothingPlanned: Pick<Planned, 'holds'> = { holds: [] };

/** Returns hits as if they had only been read. */
function uncounted(hits: readonly CountedHit[]): readonly CountedHit[] {
  const copies = hits.map((hit) => copyOperation(hit, hit.verb, 0));
  for (const copy of copies) copy.applied = 0;
  if (copies.length > 1) copies[0]!.group = copies;
  return copies;
}

/** Returns a generator of 128 random bits as text. It generates many at once, because a call costs more than its bytes. */
function randomIds(): () => string {
  const idBytes = 16;
  const bytes = Buffer.alloc(256 * idBytes);
  let drawn = bytes.length;
  return () => {
    if (drawn === bytes.length) {
      randomFillSync(bytes);
      drawn = 0;
    }
    drawn += idBytes;
    return bytes.toString('hex', drawn - idBytes, drawn);
  };
}
