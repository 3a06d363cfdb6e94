/** Stop-when-over, as every store does it (STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT). */
import { type CounterOp, type CounterStore, failOp } from './counter-store.ts';

/**
 * Decides what each op of one request may count and writes it to `applied`; `after` must hold its key's total before the
 * request, and `error` why that is not known. When ops that would exceed their limits refuse the request, the ops that
 * would not count nothing. All are judged by the totals before the request, as the Go service does it, even when a key
 * comes twice; an unknown total is not over. Refunds are never held back, and hold nobody back. Those of one group are as
 * one. What is over itself is told to count: with a bound it will not.
 */
export function holdBack(ops: readonly CounterOp[]): void {
  let refused = false;
  let together = 0;
  let togetherOver = 0;
  for (let first = 0; first < ops.length; first += ops[first]!.groupSize) {
    const op = ops[first]!;
    const takesPart = !op.negative && !op.lookOnly;
    const over = takesPart && isAnyOver(ops, first);
    setApplied(ops, first, over);
    if (over && op.holdsBack === 'alone') refused = true;
    if (takesPart && op.holdsBack === 'together') {
      together += 1;
      if (over) togetherOver += 1;
    }
  }
  if (together > 0 && together === togetherOver) refused = true;
  for (const op of ops) if (op.negative || (!refused && !op.lookOnly)) op.applied = op.hits;
}

function isAnyOver(ops: readonly CounterOp[], first: number): boolean {
  for (let i = first; i < first + ops[first]!.groupSize; i += 1) {
    const op = ops[i]!;
    if (op.error === undefined && op.after + op.hits > op.limit) return true;
  }
  return false;
}

function setApplied(ops: readonly CounterOp[], first: number, over: boolean): void {
  for (let i = first; i < first + ops[first]!.groupSize; i += 1) ops[i]!.applied = over ? ops[i]!.hits : 0;
}

/**
 * For a request that one call of the store cannot take whole: look at every key first, then count. Not atomic: callers
 * that look at the same time may all count. An op whose look failed is not counted. `beside` are ops of the same request
 * that are counted elsewhere, with their totals before it.
 */
export function lookThenCount(
  store: CounterStore,
  ops: CounterOp[],
  done: () => void,
  beside: readonly CounterOp[] = [],
): void {
  const looks = ops.map((op) => ({ ...op, hits: 0, negative: false }));
  store.submit(looks, { stopWhenOver: false }, () => {
    const seen: CounterOp[] = [];
    for (const [i, look] of looks.entries()) {
      const op = ops[i] as CounterOp;
      op.after = look.after;
      op.error = undefined;
      if (look.error === undefined) seen.push(op);
      else failOp(op, look.error.marked(true));
    }
    holdBack([...ops, ...beside]);
    for (const op of ops) if (op.error !== undefined) op.applied = 0;
    const counts = seen.map(toCount);
    store.submit(counts, { stopWhenOver: false }, () => {
      for (const [i, count] of counts.entries()) {
        const { applied, after, error, waitMicros, held, over, mayReturn, hasExpired } = count;
        const op = seen[i] as CounterOp;
        const isOver = isHeldBack(op) ? after + op.hits > op.limit : over;
        Object.assign(op, { applied, after, error, waitMicros, held, over: isOver, mayReturn, hasExpired });
      }
      done();
    });
  });
}

/** What the op counts after all. One that is held back learns how long it waits by its own bound: by more hits than pass, or none. */
function toCount(op: CounterOp): CounterOp {
  if (!isHeldBack(op)) return { ...op, hits: op.applied };
  const wasOver = op.after + op.hits > op.limit;
  return { ...op, groupSize: 1, hits: wasOver ? Number.MAX_SAFE_INTEGER : 0 };
}

function isHeldBack({ bound, applied, hits }: CounterOp): boolean {
  return bound !== undefined && applied < hits;
}
