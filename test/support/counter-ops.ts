import { type CounterOp, type CounterStore, unboundAnswer } from '../../limiter/stores/counter-store.ts';

/** An op that adds one hit; what the test is about is given. */
export function counterOp(given: Partial<CounterOp> & { key: string }): CounterOp {
  return {
    hits: 1,
    negative: false,
    ttlSeconds: 60,
    limit: 4_294_967_295,
    lookOnly: false,
    holdsBack: 'alone',
    perSecond: false,
    ...unboundAnswer,
    applied: -1,
    after: -1,
    ...given,
  };
}

/** Submits one request and waits for its answer. */
export function submit(
  store: CounterStore,
  ops: CounterOp[],
  options: { stopWhenOver?: boolean } = {},
): Promise<CounterOp[]> {
  return new Promise((resolve) => {
    store.submit(ops, { stopWhenOver: options.stopWhenOver ?? false }, () => resolve(ops));
  });
}

/** The total of one key after one op. */
export async function totalOf(
  store: CounterStore,
  given: Partial<CounterOp> & { key: string },
): Promise<number> {
  const [op] = await submit(store, [counterOp(given)]);
  if (op?.error !== undefined) throw op.error;
  return op?.after as number;
}
