/**
 * Decides operations with a bound, a single one or those of all limits of a rule, from the state of their counters. Its functions are
 * pure.
 */

import type { AlgorithmBound, CounterState } from '../algorithms/algorithm-bound.ts';
import type { Operation } from './operation.ts';

/**
 * Answers the group of ops that begins at `first`. Each `op.held` is the state of the counter before, or undefined if it does not
 * exist, and becomes the state after. True if hits were counted or returned: then each defined `held` has to be written.
 * `heldBack`: other ops of the request do not let them pass; their own bounds are still reported.
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
  let passes = !heldBack && verb !== 'peek';
  for (let i = first; i < end; i += 1) {
    const op = ops[i]!;
    const bound = op.counter.bound!;
    const held = bound.stateAt(op.held, nowMicros);
    const room = bound.room(held, nowMicros);
    op.held = held;
    op.over = hits > room;
    if (op.over) passes = false;
    // A provisional value, until the answer is known.
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

/** Gives back hits. A missing counter is not created. */
function giveBack(op: Operation, nowMicros: number): void {
  const bound = op.counter.bound!;
  const before = bound.stateAt(op.held, nowMicros);
  const held = bound.giveBack(before, op.hits, nowMicros);
  if (op.held !== undefined) op.held = held;
  op.applied = op.hits;
  op.over = false;
  const left = bound.room(held, nowMicros);
  op.after = bound.used(held, left);
  op.waitMicros = waitMicros(bound, held, left, nowMicros);
  op.error = undefined;
}

/** Returns the time until a hit passes if no hit is left, and otherwise the time until nothing is used. */
export function waitMicros(
  bound: AlgorithmBound,
  held: CounterState,
  left: number,
  nowMicros: number,
): number {
  return left === 0 ? bound.untilRoomMicros(held, nowMicros) : bound.untilUnusedMicros(held, nowMicros);
}

/** Returns the same as `waitMicros`, for an op of a reservation. A rejected reservation waits until its whole amount fits. */
export function holdWaitMicros({ counter, hold }: Operation, held: CounterState, nowMicros: number): number {
  const bound = counter.charging!;
  const { outcome, amount } = hold!;
  const left = bound.room(held, nowMicros);
  const isOver = outcome === 'refused' || (outcome === 'left-out' && (amount ?? 0) > left);
  return isOver ? bound.untilRoomMicros(held, nowMicros, amount) : waitMicros(bound, held, left, nowMicros);
}

/** Returns how much of a limit is used at the time of `held`. */
export function used(bound: AlgorithmBound, held: CounterState, nowMicros: number): number {
  return bound.used(held, bound.room(held, nowMicros));
}

/**
 * Charges hits regardless of the remaining hits, up to the largest number that the counter can hold. `held` is its current state. Returns
 * the new state, and the number of counted hits.
 */
export function chargeAnyway(
  bound: AlgorithmBound,
  held: CounterState,
  hits: number,
  nowMicros: number,
): { held: CounterState; taken: number } {
  const taken = Math.min(hits, bound.maxTaken(held, nowMicros));
  return { held: taken > 0 ? bound.take(held, taken) : held, taken };
}
