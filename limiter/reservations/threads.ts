/** Each thread that answers callers reserves for them; for operators it says how budgets stand. */

import type { Entry } from '../../rules/model.ts';
import type { MainContext, MainPart, ThreadContext, ThreadPart } from '../capabilities/capability.ts';
import type { ThreadsOf } from '../capabilities/messages.ts';
import { type BudgetsAnswer, budgetEndpoints, budgetRoutes, budgetsNow } from './budget-endpoints.ts';
import { createBudgets } from './budget-service.ts';
import type { Budgets } from './budgets.ts';
import { type BudgetSettings, longestReservation } from './settings.ts';

interface BudgetQuestion {
  readonly domain: string;
  readonly entries: readonly Entry[];
}

/** Messages to each thread that serves. */
interface BudgetMessages {
  budgets(question: BudgetQuestion): Promise<BudgetsAnswer>;
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
  return { routes: () => budgetRoutes((domain, entries) => oneOf(asked, { domain, entries })) };
}

/** Of whichever thread answers first, for as long as it takes: all have the same store. */
async function oneOf(threads: ThreadsOf<BudgetMessages>, question: BudgetQuestion): Promise<BudgetsAnswer> {
  if (threads.count === 0) return (await threads.ask('budgets', question))[0] ?? noThread;
  const answers = Array.from({ length: threads.count }, async (_, index) => {
    const answer = await threads.askOne(index + 1, 'budgets', question);
    if (answer === undefined) throw new Error(noThread.message);
    return answer;
  });
  return Promise.any(answers).catch(() => noThread);
}

const noThread = { failure: 'unavailable', message: 'no worker answers' } as const;
