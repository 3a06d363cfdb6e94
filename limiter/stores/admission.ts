/** Deciding ops with a bound, one alone or those of all limits of a rule, from what their counters hold. Pure. */

import { FixedWindow, type Held } from './bound.ts';
import type { CounterOp } from './counter-store.ts';

/**
 * Answers the group of ops that begins at `first`. Its `op.held` are what the counters held before, undefined for one that
 * is not there, and become what they hold afterwards. True when hits were taken or given back, so that each `held` that is
 * not undefined is to be written. `heldBack`: others of the request do not let them pass; their own bounds are told as ever.
 */
export function admit(
  ops: readonly CounterOp[],
  first: number,
  nowMicros: number,
  heldBack = false,
): boolean {
  const { groupSize, hits, negative } = ops[first]!;
  const end = first + groupSize;
  let passes = !heldBack;
  if (!negative) {
    for (let i = first; i < end; i += 1) {
      const op = ops[i]!;
      const bound = op.bound!;
      const held = bound.heldAt(op.held, nowMicros);
      op.held = held;
      op.over = hits > bound.room(held, nowMicros);
      if (op.over) passes = false;
    }
  }
  const changes = hits > 0 && (negative || passes);
  for (let i = first; i < end; i += 1) answer(ops[i]!, nowMicros, changes);
  return changes;
}

function answer(op: CounterOp, nowMicros: number, changes: boolean): void {
  const bound = op.bound!;
  const { hits, negative } = op;
  if (negative) {
    op.over = false;
    // What is not there stays so.
    if (op.held !== undefined) op.held = bound.giveBack(bound.heldAt(op.held, nowMicros), hits, nowMicros);
  } else if (changes) {
    op.held = bound.take(op.held!, hits);
  }
  const held = op.held ?? bound.heldAt(undefined, nowMicros);
  op.applied = changes ? hits : 0;
  op.after = used(bound, held, nowMicros);
  op.waitMicros = op.over ? bound.untilRoomMicros(held, nowMicros) : bound.untilUnusedMicros(held, nowMicros);
  op.error = undefined;
}

/** What is used of a limit: of a fixed window the total, which may be more than a limit that was lowered. */
export function used(bound: CounterOp['bound'] & {}, held: Held, nowMicros: number): number {
  return bound instanceof FixedWindow ? held[0] : bound.capacity - bound.room(held, nowMicros);
}
