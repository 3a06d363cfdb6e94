/** The two ways to keep a budget whose costs are known afterward. */
import type { BudgetClient } from './budget-client.ts';
import { domain, type StreamPlan } from './stream-plan.ts';

export interface EndTerms {
  /** So many tokens may be charged whatever is left. */
  allow(tokens: number): void;
  /** From when on its reservation may have expired, of `performance.now()`. */
  lateFromMs: number;
}

export interface Way {
  name: string;
  reserves: boolean;
  /** Whether the stream may begin. */
  begin(client: BudgetClient, stream: StreamPlan): Promise<boolean>;
  /** Says what it cost. */
  end(client: BudgetClient, stream: StreamPlan, terms: EndTerms): Promise<void>;
}

function question({ scopes }: StreamPlan): object {
  return { domain, descriptors: scopes.map(({ key, value }) => [{ [key]: value }]) };
}

function isLet(status: number, body: unknown): boolean {
  if (status === 200 || status === 429) return status === 200;
  throw new Error(`${status}: ${JSON.stringify(body)}`);
}

/** Holds the estimate before, and settles it after. */
export function reserveThenCommit(ttlMs: number): Way {
  return {
    name: 'reserve, then commit',
    reserves: true,
    async begin(client, stream) {
      const { estimate: amount, id: reservationId } = stream;
      const asked = { ...question(stream), amount, ttl: `${ttlMs / 1000}s`, reservationId };
      const { status, body } = await client.ask('/v1/reserve', asked);
      return isLet(status, body);
    },
    async end(client, stream, { allow, lateFromMs }) {
      const { id: reservationId, actual: actualAmount, estimate } = stream;
      allow(Math.max(0, actualAmount - estimate));
      const asked = { ...question(stream), reservationId, actualAmount };
      const { status, body } = await client.ask('/v1/commit', asked);
      isLet(status, body);
      // After its TTL the reserved part is charged anew, whatever is left. That may be what an answer said that was lost.
      const wasLate = body.outcome === 'repeated' && performance.now() > lateFromMs;
      if (wasLate || body.outcome === 'late' || body.outcome === 'unknown')
        allow(Math.min(actualAmount, estimate));
    },
  };
}

/** Looks whether anything is left, and charges what it cost. */
export const checkThenCharge: Way = {
  name: 'check, then charge',
  reserves: false,
  async begin(client, stream) {
    const { status, body } = await client.ask('/v1/check', { ...question(stream), hits: 0 });
    return isLet(status, body);
  },
  async end(client, stream) {
    const { status, body } = await client.ask('/v1/check', { ...question(stream), hits: stream.actual });
    isLet(status, body);
  },
};
