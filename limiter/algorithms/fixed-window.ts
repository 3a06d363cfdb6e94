import type { CountingAlgorithm } from './algorithm.ts';
import {
  type AlgorithmBound,
  type Charge,
  type CounterState,
  largestExactNumber,
  type ReturnRequest,
  type ReturnResult,
} from './algorithm-bound.ts';

/**
 * A fixed window among several limits of a rule. Its key names the window, so the counter does not depend on the time. The state is the
 * total.
 */
export class FixedWindow implements AlgorithmBound {
  readonly holdsTotal = true;
  readonly capacity: number;
  readonly scriptText: string;

  constructor(requests: number) {
    this.capacity = requests;
    this.scriptText = `fixed ${requests}`;
  }

  stateAt(held: CounterState | undefined): CounterState {
    return held ?? unused;
  }

  room([total]: CounterState): number {
    return Math.max(0, this.capacity - total);
  }

  take([total]: CounterState, hits: number): CounterState {
    return [total + hits, 0, 0];
  }

  used([total]: CounterState): number {
    return total;
  }

  maxTaken([total]: CounterState): number {
    return largestExactNumber - total;
  }

  giveBack([total]: CounterState, hits: number): CounterState {
    return [Math.max(0, total - hits), 0, 0];
  }

  giveBackOf(_: Charge, { held, hits, returned }: ReturnRequest): ReturnResult {
    return { held: this.giveBack(held, hits), given: Math.min(hits, held[0]), returned };
  }

  /** Returns 0, because the end of the key's window determines the wait. */
  untilRoomMicros(): number {
    return 0;
  }

  untilUnusedMicros(): number {
    return 0;
  }
}

const unused: CounterState = [0, 0, 0];

export const fixedWindow: CountingAlgorithm = {
  newBound: ({ requests }) => new FixedWindow(requests),
  lifeSeconds: ({ windowMicros }) => windowMicros / 1_000_000,
  secondsUncounted: ({ windowMicros }) => windowMicros / 1_000_000,
  lua: {
    kind: 'fixed',
    helpers: '',
    stateAt: 'return a or 0, 0, 0',
    room: 'return math.max(0, bound[2] - a)',
    take: 'return a + hits, 0, 0',
    maxTaken: 'return max - a',
    giveBack: 'return math.max(0, a - hits), 0, 0',
    giveBackOf: `
local given = charge.isHere and math.min(hits, a) or 0
return a - given, b, c, given`,
  },
};
