/** Calls about reservations as tests describe them: one flat object a call, and one a counter. */
import type { AlgorithmBound } from '../../limiter/algorithms/algorithm-bound.ts';
import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import {
  type Caller,
  newHold,
  newReservation,
  type Operation,
  type Reservation,
  type ReservationHold,
  type ReservationOwner,
} from '../../limiter/stores/operation.ts';
import { countAll, type Note, type Store } from '../../limiter/stores/store.ts';
import type { StoreError } from '../../limiter/stores/store-error.ts';
import { counterOp } from './counter-ops.ts';

/** One counter of a call, answered in place. */
export type ReservedCounter = {
  -readonly [Key in keyof Omit<ReservationHold, 'reservation'>]: ReservationHold[Key];
} & {
  readonly key: string;
  readonly stem: string;
  readonly ttlSeconds: number;
  readonly bound: AlgorithmBound;
  readonly perSecond: boolean;
  used: number;
  waitMicros: number;
};

/** One call, answered in place. */
export interface TestCall extends Omit<Reservation, 'hasMore' | 'width' | 'outcome' | 'commitOutcome'> {
  readonly verb: 'reserve' | 'commit' | 'look';
  readonly counters: ReservedCounter[];
  readonly caller: Caller | undefined;
  error: StoreError | undefined;
  /** For a commit, its `commitOutcome`. */
  outcome: Reservation['outcome' | 'commitOutcome'];
}

type GivenCall = Partial<TestCall> & Pick<TestCall, 'counters'>;

/** A counter of one hour's fixed window of 10, whose key is its stem and the window; what the test is about is given. */
export function reservedCounter(given: Partial<ReservedCounter> & { stem: string }): ReservedCounter {
  const { stem } = given;
  return {
    key: `${stem}3600:0`,
    ttlSeconds: 7200,
    bound: new FixedWindow(10),
    perSecond: false,
    isShadow: false,
    isQuota: false,
    group: 0,
    amount: undefined,
    ttlMs: 3_600_000,
    onExpiry: 'release',
    outcome: 'untouched',
    used: -1,
    reserved: -1,
    open: -1,
    oldestMs: -1,
    changed: -1,
    givenBack: -1,
    lost: -1,
    waitMicros: -1,
    ...given,
  };
}

/** Counters of several limits in one call, each of a rule of its own. */
export function countersOf(
  stems: readonly string[],
  given: Partial<ReservedCounter> & { bound?: AlgorithmBound } = {},
): ReservedCounter[] {
  return stems.map((stem, group) => reservedCounter({ stem, group, ...given }));
}

function callOf(verb: TestCall['verb'], given: GivenCall): TestCall {
  return {
    verb,
    id: '',
    owner: undefined,
    isMarker: false,
    descriptors: 0,
    reservedDescriptors: -1,
    note: undefined,
    otherQuotaPasses: false,
    isOverLimitElsewhere: false,
    unknown: 'report',
    undoes: false,
    outcome: verb === 'commit' ? 'unknown' : 'conflict',
    full: undefined,
    expiresAtMs: -1,
    charged: -1,
    amount: -1,
    caller: undefined,
    error: undefined,
    ...given,
  };
}

export function reserveCall(given: GivenCall & Pick<TestCall, 'id'>): TestCall {
  return callOf('reserve', given);
}

export function settleCall(given: GivenCall & Pick<TestCall, 'id'>): TestCall {
  return callOf('commit', given);
}

export function lookCall(counters: ReservedCounter[]): TestCall {
  return callOf('look', { counters });
}

export function noteOf(id: string, text: string, ttlMs: number, owner?: ReservationOwner): Note {
  return { id, text, ttlMs, owner };
}

/** The operations of a call, without answers. */
export function operationsOf(call: TestCall): Operation[] {
  const { verb, counters, caller, outcome: _, ...terms } = call;
  const reservation = newReservation({ ...terms, width: counters.length });
  return counters.map((one) => {
    const { key, stem: counterStem, bound: charging, ttlSeconds, perSecond } = one;
    const capacity = charging.capacity;
    const op = counterOp({ key, counterStem, charging, capacity, ttlSeconds, perSecond, hits: 0, caller });
    op.verb = verb;
    op.hold = newHold({ ...one, reservation });
    return op;
  });
}

/** Hands a call over; `done` when its answers are written into it. */
export function sendCall(store: Store, call: TestCall, done: () => void): void {
  const ops = operationsOf(call);
  const { reservation } = ops[0]!.hold!;
  store.submit(ops, countAll, () => {
    const {
      outcome,
      commitOutcome: settled,
      full,
      expiresAtMs,
      charged,
      amount,
      reservedDescriptors,
    } = reservation;
    const error = ops.find((op) => op.error !== undefined)?.error;
    const became = call.verb === 'commit' ? settled : outcome;
    Object.assign(call, { outcome: became, full, expiresAtMs, charged, amount, reservedDescriptors, error });
    for (const [i, { hold, after, waitMicros }] of ops.entries()) {
      const { reservation: _, ...answers } = hold!;
      Object.assign(call.counters[i]!, answers, { used: after, waitMicros });
    }
    done();
  });
}

/** Submits a call, waits for its answer and gives it; throws its error. */
export async function submitCall(store: Store, call: TestCall): Promise<TestCall> {
  await new Promise<void>((resolve) => sendCall(store, call, resolve));
  if (call.error !== undefined) throw call.error;
  return call;
}
