/** Stop-when-over, for all stores (STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT). */
import { totalAfter } from './folded-run.ts';
import { copyOperation, failAll, type Operation } from './operation.ts';

/**
 * Decides what each op of one request may count and writes it to `applied`. Before, `after` must be its key's total before the request,
 * or `error` the reason why that is unknown. If ops that would exceed their limits reject the request, the other ops count nothing. As
 * in the Go service, all ops are judged by the totals before the request, even if a key occurs twice; an unknown total is not over
 * limit. Refunds are never held back, and hold back no others. Ops of a group act as one. Ops that are over limit themselves are asked
 * to count; with a bound they will not.
 */
export function stopOthersWhenOver(ops: readonly Operation[]): void {
  let rejected = false;
  let together = 0;
  let togetherOver = 0;
  for (let first = 0; first < ops.length; first += ops[first]!.groupSize) {
    const op = ops[first]!;
    const takesPart = op.verb === 'add';
    const over = takesPart && isAnyOver(ops, first);
    setApplied(ops, first, over);
    if (over && op.holdsBack === 'alone') rejected = true;
    if (takesPart && op.holdsBack === 'together') {
      together += 1;
      if (over) togetherOver += 1;
    }
  }
  if (together > 0 && together === togetherOver) rejected = true;
  for (const op of ops) if (op.verb === 'refund' || (!rejected && op.verb === 'add')) op.applied = op.hits;
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

/** Counts operations, and answers in place. Calls `done` once. */
export type SubmitAll = (ops: Operation[], done: () => void) => void;

/**
 * Counts whole requests that no single step can count: reads every key first, then counts. This is not atomic: callers that read at the
 * same time may all count. The requests are judged in order, each by the totals that the requests before it leave. An op that could not
 * be read is not counted. `beside` are ops of a single request that are counted elsewhere, with their totals before it.
 */
export function readThenCount(
  requests: readonly (readonly Operation[])[],
  submit: SubmitAll,
  done: () => void,
  beside: readonly Operation[] = [],
): void {
  const looks = new Map<string, Operation>();
  for (const op of requests.flat()) if (!looks.has(op.key)) looks.set(op.key, lookAt(op));
  submit([...looks.values()], () => {
    const { counts, later } = judge(requests, looks, beside);
    const copies = counts.map(({ copy }) => copy);
    submit(copies, () => {
      for (const { op, copy } of counts) {
        const { applied, after, over, error, waitMicros, held, mayReturn, hasExpired } = copy;
        Object.assign(op, { applied, after, over, error, waitMicros, held, mayReturn, hasExpired });
      }
      if (later.length === 0) done();
      else readThenCount(later, submit, done, beside);
    });
  });
}

function lookAt(op: Operation): Operation {
  const look = copyOperation(op, 'add', 0);
  look.groupSize = 1;
  return look;
}

/** An op that is to be counted, and the copy of it that is submitted. */
interface CountedCopy {
  readonly op: Operation;
  readonly copy: Operation;
}

/**
 * Returns what requests count. `looks` are updated to what each request leaves. After a refund to a bound this is unknown: requests
 * about its counter are returned as `later`, with all that follow. Answers the ops that need not be submitted.
 */
function judge(
  requests: readonly (readonly Operation[])[],
  looks: ReadonlyMap<string, Operation>,
  beside: readonly Operation[],
): { counts: CountedCopy[]; later: readonly (readonly Operation[])[] } {
  const all: CountedCopy[] = [];
  const changed = new Set<string>();
  const refunded = new Set<string>();
  let judged = 0;
  for (const ops of requests) {
    if (ops.some(({ key }) => refunded.has(key))) break;
    judged += 1;
    for (const op of ops) {
      const { after, error } = looks.get(op.key)!;
      op.after = after;
      op.error = error;
    }
    stopOthersWhenOver([...ops, ...beside]);
    for (let first = 0; first < ops.length; first += ops[first]!.groupSize) {
      const group = ops.slice(first, first + ops[first]!.groupSize);
      const failed = group.find(({ error }) => error !== undefined)?.error;
      if (failed !== undefined) {
        failAll(group, failed.marked(true));
        continue;
      }
      const { applied, hits, verb, counter } = group[0]!;
      for (const op of group) all.push({ op, copy: copyOperation(op, applied < hits ? 'peek' : verb, hits) });
      if (applied === 0) continue;
      const isUnknown = verb === 'refund' && counter.bound !== undefined;
      for (const { key } of group) {
        changed.add(key);
        if (isUnknown) refunded.add(key);
      }
      if (!isUnknown) leave(group, looks);
    }
  }
  for (const { op } of all) if (!changed.has(op.key)) answer(op, looks.get(op.key)!);
  const counts = all.filter(({ op }) => changed.has(op.key) || op.counter.bound !== undefined);
  return { counts, later: requests.slice(judged) };
}

/** Answers an op without a bound from the total that was read, because the op changes nothing. */
function answer(op: Operation, { after, mayReturn, hasExpired }: Operation): void {
  op.after = after;
  op.mayReturn = mayReturn;
  op.hasExpired = hasExpired;
}

/** Updates the totals that were read to the totals after the hits of a group. */
function leave(group: readonly Operation[], looks: ReadonlyMap<string, Operation>): void {
  const hasRoom = group.every(({ key, hits, counter }) => {
    return counter.bound === undefined || looks.get(key)!.after + hits <= counter.capacity;
  });
  if (!hasRoom) return;
  for (const { key, hits, verb } of group) {
    const look = looks.get(key)!;
    look.after = totalAfter(look.after, hits, verb === 'refund');
  }
}
