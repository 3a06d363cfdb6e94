/** Stop-when-over, for all stores (STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT). */
import { copyOperation, failOp, type Operation } from './operation.ts';
import { countAll, type Store } from './store.ts';

/**
 * Decides what each op of one request may count and writes it to `applied`. Before, `after` must be its key's total before the request,
 * or `error` the reason why that is unknown. If ops that would exceed their limits refuse the request, the other ops count nothing. As
 * in the Go service, all ops are judged by the totals before the request, even if a key occurs twice; an unknown total is not over
 * limit. Refunds are never held back, and hold back no others. Ops of a group act as one. Ops that are over limit themselves are asked
 * to count; with a bound they will not.
 */
export function holdBack(ops: readonly Operation[]): void {
  let refused = false;
  let together = 0;
  let togetherOver = 0;
  for (let first = 0; first < ops.length; first += ops[first]!.groupSize) {
    const op = ops[first]!;
    const takesPart = op.verb === 'add';
    const over = takesPart && isAnyOver(ops, first);
    setApplied(ops, first, over);
    if (over && op.holdsBack === 'alone') refused = true;
    if (takesPart && op.holdsBack === 'together') {
      together += 1;
      if (over) togetherOver += 1;
    }
  }
  if (together > 0 && together === togetherOver) refused = true;
  for (const op of ops) if (op.verb === 'refund' || (!refused && op.verb === 'add')) op.applied = op.hits;
}

function isAnyOver(ops: readonly Operation[], first: number): boolean {
  for (let i = first; i < first + ops[first]!.groupSize; i += 1) {
    const op = ops[i]!;
    if (op.error === undefined && op.after + op.hits > op.counter.capacity) return true;
  }
  return false;
}

function setApplied(ops: readonly Operation[], first: number, over: boolean): void {
  for (let i = first; i < first + ops[first]!.groupSize; i += 1) ops[i]!.applied = over ? ops[i]!.hits : 0;
}

/**
 * Counts a request that one call of the store cannot hold: reads every key first, then counts. This is not atomic: callers that read at
 * the same time may all count. An op that could not be read is not counted. `beside` are ops of the same request that are counted
 * elsewhere, with their totals before it.
 */
export function lookThenCount(
  store: Store,
  ops: Operation[],
  done: () => void,
  beside: readonly Operation[] = [],
): void {
  const looks = ops.map((op) => copyOperation(op, 'add', 0));
  store.submit(looks, countAll, () => {
    const seen: Operation[] = [];
    for (const [i, look] of looks.entries()) {
      const op = ops[i] as Operation;
      op.after = look.after;
      op.error = undefined;
      if (look.error === undefined) seen.push(op);
      else failOp(op, look.error.marked(true));
    }
    holdBack([...ops, ...beside]);
    for (const op of ops) if (op.error !== undefined) op.applied = 0;
    const counts = seen.map(toCount);
    store.submit(counts, countAll, () => {
      for (const [i, count] of counts.entries()) {
        const { applied, after, error, waitMicros, held, over, mayReturn, hasExpired } = count;
        const op = seen[i] as Operation;
        const isOver = isHeldBack(op) ? after + op.hits > op.counter.capacity : over;
        Object.assign(op, { applied, after, error, waitMicros, held, over: isOver, mayReturn, hasExpired });
      }
      done();
    });
  });
}

/**
 * Returns the op with the hits that it counts. An op that is held back gets its waiting time from its own bound, which is asked with
 * more hits than can pass, or with none.
 */
function toCount(op: Operation): Operation {
  if (!isHeldBack(op)) return copyOperation(op, op.verb, op.applied);
  const wasOver = op.after + op.hits > op.counter.capacity;
  const asked = copyOperation(op, op.verb, wasOver ? Number.MAX_SAFE_INTEGER : 0);
  asked.groupSize = 1;
  return asked;
}

function isHeldBack({ counter, applied, hits }: Operation): boolean {
  return counter.bound !== undefined && applied < hits;
}
