/** Deciding ops with a bound, one alone or those of all limits of a rule, from what their counters hold. Pure. */

import type { Bound, CounterState } from '../algorithms/bound.ts';
import type { Operation } from './operation.ts';

/**
 * Answers the group of ops that begins at `first`. Its `op.held` are what the counters held before, undefined for one that
 * is not there, and become what they hold afterwards. True when hits were taken or given back, so that each `held` that is
 * not undefined is to be written. `heldBack`: others of the request do not let them pass; their own bounds are reported as ever.
 */
export function admit(
  ops: readonly Operation[],
  first: number,
  nowMicros: number,
  heldBack = false,
): boolean {
  const { groupSize, hits, verb } = ops[first]!;
  const end = first + groupSize;
  if (verb === 'refund') {
    for (let i = first; i < end; i += 1) giveBack(ops[i]!, nowMicros);
    return hits > 0;
  }
  let passes = !heldBack;
  for (let i = first; i < end; i += 1) {
    const op = ops[i]!;
    const bound = op.counter.bound!;
    const held = bound.heldAt(op.held, nowMicros);
    const room = bound.room(held, nowMicros);
    op.held = held;
    op.over = hits > room;
    if (op.over) passes = false;
    // Until the answer is known.
    op.after = room;
  }
  const taken = passes ? hits : 0;
  for (let i = first; i < end; i += 1) {
    const op = ops[i]!;
    const bound = op.counter.bound!;
    let held = op.held!;
    if (taken > 0) {
      held = bound.take(held, taken);
      op.held = held;
    }
    op.applied = taken;
    const left = op.after - taken;
    op.after = bound.used(held, left);
    op.waitMicros = op.over
      ? bound.untilRoomMicros(held, nowMicros)
      : waitMicros(bound, held, left, nowMicros);
    op.error = undefined;
  }
  return taken > 0;
}

/** What is not there stays so. */
function giveBack(op: Operation, nowMicros: number): void {
  const bound = op.counter.bound!;
  const before = bound.heldAt(op.held, nowMicros);
  const held = bound.giveBack(before, op.hits, nowMicros);
  if (op.held !== undefined) op.held = held;
  op.applied = op.hits;
  op.over = false;
  const left = bound.room(held, nowMicros);
  op.after = bound.used(held, left);
  op.waitMicros = waitMicros(bound, held, left, nowMicros);
  op.error = undefined;
}

/** Until a hit passes where none is left, else until nothing is used. */
export function waitMicros(bound: Bound, held: CounterState, left: number, nowMicros: number): number {
  return left === 0 ? bound.untilRoomMicros(held, nowMicros) : bound.untilUnusedMicros(held, nowMicros);
}

/** As `waitMicros`, of one op of a reservation, which a refusal makes wait for its whole amount. */
export function holdWaitMicros({ counter, hold }: Operation, held: CounterState, nowMicros: number): number {
  const bound = counter.charging!;
  const { outcome, amount } = hold!;
  const left = bound.room(held, nowMicros);
  const isOver = outcome === 'refused' || (outcome === 'left-out' && (amount ?? 0) > left);
  return isOver ? bound.untilRoomMicros(held, nowMicros, amount) : waitMicros(bound, held, left, nowMicros);
}

/** What is used of a limit at this moment, which `held` is of. */
export function used(bound: Bound, held: CounterState, nowMicros: number): number {
  return bound.used(held, bound.room(held, nowMicros));
}

/**
 * Charges hits whatever is left, as far as the counter has room for numbers. `held` is of this moment. Gives what it then holds,
 * and how many hits that took.
 */
export function chargeAnyway(
  bound: Bound,
  held: CounterState,
  hits: number,
  nowMicros: number,
): { held: CounterState; taken: number } {
  const taken = Math.min(hits, bound.mostTaken(held, nowMicros));
  return { held: taken > 0 ? bound.take(held, taken) : held, taken };
}
