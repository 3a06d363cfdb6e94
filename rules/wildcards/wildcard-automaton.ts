import { State } from '../bytes/rule-table-format.ts';

const { words, firstChild } = State;

/** The child of a state for one code unit, or -1. Labels of children ascend, so this is a binary search. */
export function childState(states: Int32Array, labels: Uint16Array, state: number, unit: number): number {
  let low = states[state * words + firstChild]!;
  const end = states[(state + 1) * words + firstChild]!;
  let high = end;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (labels[middle]! < unit) low = middle + 1;
    else high = middle;
  }
  return low < end && labels[low] === unit ? low : -1;
}
