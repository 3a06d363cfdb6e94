import type { ThreadContext, ThreadPart } from '../capabilities/parts.ts';
import { createBudgets } from '../reservations/budget-service.ts';
import { longestReservation } from '../reservations/settings.ts';
import { createKuadrantMethods } from './kuadrant-service.ts';

export interface KuadrantSettings {
  readonly budgetMaxTtlMs: number;
}

export const thread = ({ settings }: ThreadContext<KuadrantSettings>): ThreadPart => ({
  grpc: (decisions) => {
    const { asked, excess } = decisions;
    const longest = longestReservation(settings);
    return createKuadrantMethods({
      ...asked,
      ...longest,
      budgets: createBudgets(decisions, longest),
      excess,
    });
  },
});
