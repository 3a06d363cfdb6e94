/** Reservations in each thread that answers callers, and the state of budgets for operators. */

import type { Entry } from '../../rules/model.ts';
import type { MainContext, MainPart, ThreadContext, ThreadPart } from '../capabilities/parts.ts';
import { type BudgetsAnswer, budgetEndpoints, budgetRoutes, budgetsNow } from './budget-endpoints.ts';
import { createBudgets } from './budget-service.ts';
import type { Budgets } from './budgets.ts';
import { type BudgetSettings, longestReservation } from './settings.ts';

interface BudgetRequest {
  readonly domain: string;
  readonly entries: readonly Entry[];
}

/** Messages to each serving thread. */
interface BudgetMessages {
  budgets(question: BudgetRequest): Promise<BudgetsAnswer>;
}

export function thread({ settings }: ThreadContext<BudgetSettings>): ThreadPart {
  let budgets: Budgets | undefined;
  const messages: BudgetMessages = {
    budgets: async ({ domain, entries }) =>
      budgets === undefined ? noThread : budgetsNow(budgets, domain, entries),
  };
  return {
    messages,
    http: (decisions) => {
      budgets = createBudgets(decisions, longestReservation(settings));
      const { bounds, tooLarge } = decisions.asked;
      return budgetEndpoints({ budgets, bounds, tooLarge, maxBodyBytes: settings.httpMaxBodyBytes });
    },
  };
}

export function main({ threads }: MainContext<BudgetSettings>): MainPart {
  const asked = threads.of<BudgetMessages>();
  // All threads have the same store, so any thread can answer.
  const ask = async (question: BudgetRequest): Promise<BudgetsAnswer> =>
    (await asked.askAny('budgets', question)) ?? noThread;
  return { routes: () => budgetRoutes((domain, entries) => ask({ domain, entries })) };
}

const noThread = { failure: 'unavailable', message: 'no worker answers' } as const;
