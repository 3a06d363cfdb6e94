import type {
  BudgetFailure,
  BudgetScope,
  BudgetStatus,
  Budgets,
  EndReservationAnswer,
  EndReservationRequest,
  ReserveAnswer,
  ReserveRequest,
} from '../../limiter/reservations/budgets.ts';
import { limit } from './rule-builder.ts';

const max = Number.MAX_SAFE_INTEGER;
export const budgetScope: BudgetScope = {
  descriptor: 0,
  rule: 'llm.team_a',
  limit: limit({ unit: 'day', requestsPerUnit: max, hitsUnit: 'tokens', warnAt: [80], name: 'daily' }),
  ...{
    isShadow: false,
    isQuota: false,
    rejected: false,
    isExceeded: false,
    used: 700,
    reserved: 600,
    open: 1,
  },
  ...{ oldestSeconds: 12, left: 300, resetSeconds: 40, mark: 80 },
};

/** Answers what it is sent to, and keeps what it was asked. */
export class ScriptedBudgets implements Budgets {
  readonly asked: unknown[] = [];
  readonly recalled: (readonly [id: string, domain: string | undefined])[] = [];
  reserving: Partial<ReserveAnswer> | BudgetFailure = {};
  settling: Partial<EndReservationAnswer> | BudgetFailure = {};
  standing: readonly BudgetScope[] | BudgetFailure = [budgetScope];
  otherQuotaPasses = false;
  remembered: Awaited<ReturnType<Budgets['recall']>>;

  reserve(question: ReserveRequest, _: unknown, done: (answer: ReserveAnswer | BudgetFailure) => void): void {
    const { amount, id = 'ours' } = question;
    this.asked.push(question);
    const common = {
      allowed: true,
      id,
      amount,
      expiresAtMs: 1_000,
      isRepeated: false,
      plans: [],
      scopes: [budgetScope],
      unlimited: [],
      headers: [],
    };
    done('failure' in this.reserving ? this.reserving : { ...common, ...this.reserving });
  }

  commit(
    question: EndReservationRequest,
    _: unknown,
    done: (answer: EndReservationAnswer | BudgetFailure) => void,
  ): void {
    this.asked.push(question);
    const common: EndReservationAnswer = {
      outcome: 'settled',
      charged: question.actual ?? 600,
      amount: 600,
      scopes: [budgetScope],
    };
    done('failure' in this.settling ? this.settling : { ...common, ...this.settling });
  }

  status(_: unknown, __: unknown, done: (answer: BudgetStatus | BudgetFailure) => void): void {
    const { standing: scopes, otherQuotaPasses } = this;
    done('failure' in scopes ? scopes : { scopes, otherQuotaPasses });
  }

  recall(id: string, domain: string | undefined): ReturnType<Budgets['recall']> {
    this.recalled.push([id, domain]);
    return Promise.resolve(this.remembered);
  }
}
