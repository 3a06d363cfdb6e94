/** Stop-when-over, as every store does it (STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT). */
import type { CounterOp, CounterStore } from './counter-store.ts';
import { failOp } from './folded-run.ts';

/**
 * Decides what each op of one request may count and writes it to `applied`; `after` must hold its key's total before the
 * request. When an op would exceed its limit, the ops that would not count nothing. All are judged by the totals before
 * the request, as the Go service does it, even when a key comes twice. Refunds are never held back.
 */
export function holdBack(ops: readonly CounterOp[]): void {
  let anyOver = false;
  for (const op of ops) {
    const over = !op.negative && !op.lookOnly && op.after + op.hits > op.limit;
    op.applied = over ? op.hits : 0;
    if (over) anyOver = true;
  }
  for (const op of ops) if (op.negative || (!anyOver && !op.lookOnly)) op.applied = op.hits;
}

/**
 * For a request that one call of the store cannot take whole: look at every key first, then count. Not atomic: callers
 * that look at the same time may all count. An op whose look failed is not counted.
 */
export function lookThenCount(store: CounterStore, ops: CounterOp[], done: () => void): void {
  const looks = ops.map((op) => ({ ...op, hits: 0, negative: false }));
  store.submit(looks, { stopWhenOver: false }, () => {
    const seen: CounterOp[] = [];
    for (const [i, look] of looks.entries()) {
      const op = ops[i] as CounterOp;
      op.after = look.after;
      if (look.error === undefined) seen.push(op);
      else failOp(op, look.error.marked(true));
    }
    holdBack(seen);
    const counts = seen.map((op) => ({ ...op, hits: op.applied }));
    store.submit(counts, { stopWhenOver: false }, () => {
      for (const [i, { applied, after, error }] of counts.entries())
        Object.assign(seen[i] as CounterOp, { applied, after, error });
      done();
    });
  });
}
