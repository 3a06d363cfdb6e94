import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import type { LimitPlan } from '../../limiter/decide/limit-plan.ts';
import { type Counter, newOperation, type Operation, plainCounter } from '../../limiter/stores/operation.ts';
import type { Store } from '../../limiter/stores/store.ts';

/** An operation as tests describe it: its terms and its counter's, and what may be named shorter. */
export type GivenOperation = GivenTerms & { readonly key: string };

/** The same without its key. */
export type GivenTerms = Partial<Omit<Operation, 'counter' | 'key'>> &
  Partial<Omit<Counter, 'charging'>> & {
    readonly charging?: Counter['charging'] | undefined;
    /** As `capacity`. */
    readonly limit?: number;
    /** A refund. */
    readonly negative?: boolean;
    /** A peek. */
    readonly lookOnly?: boolean;
    readonly counter?: LimitPlan;
  };

/** An op that adds one hit; what the test is about is given. */
export function counterOp(given: GivenOperation): Operation {
  const { key, hits = 1, ttlSeconds = 60, negative = false, lookOnly = false, counter, ...others } = given;
  const { limit = 4_294_967_295, capacity = limit, bound, perSecond = false, ...rest } = others;
  const { counterStem = key, charging, maxLease = 0, place, ...terms } = rest;
  const plain = plainCounter(key, { perSecond, capacity });
  const own = {
    ...plain,
    counterStem,
    bound,
    charging: charging ?? bound ?? new FixedWindow(capacity),
    maxLease,
    place,
  };
  const verb = negative ? 'refund' : lookOnly ? 'peek' : 'add';
  const op = newOperation<Counter>(counter ?? own, key, verb, hits, ttlSeconds);
  return Object.assign(op, { applied: -1, after: -1 }, terms);
}

/** Submits one request and waits for its answer. */
export function submit(
  store: Store,
  ops: Operation[],
  options: { stopWhenOver?: boolean } = {},
): Promise<Operation[]> {
  return new Promise((resolve) => {
    store.submit(ops, { stopWhenOver: options.stopWhenOver ?? false }, () => resolve(ops));
  });
}

/** The total of one key after one op. */
export async function totalOf(store: Store, given: GivenOperation): Promise<number> {
  const [op] = await submit(store, [counterOp(given)]);
  if (op?.error !== undefined) throw op.error;
  return op?.after as number;
}
