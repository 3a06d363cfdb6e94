import type { Bound } from '../../limiter/algorithms/bound.ts';
import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import type {
  LookCall,
  Note,
  ReservationCall,
  ReservationOwner,
  ReservationStore,
  ReserveCall,
  ReservedCounter,
  SettleCall,
} from '../../limiter/stores/reservations/reservation-store.ts';

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
  given: Partial<ReservedCounter> & { bound?: Bound } = {},
): ReservedCounter[] {
  return stems.map((stem, group) => reservedCounter({ stem, group, ...given }));
}

export function reserveCall(given: Partial<ReserveCall> & Pick<ReserveCall, 'id' | 'counters'>): ReserveCall {
  return {
    kind: 'reserve',
    isMarker: false,
    otherQuotaPasses: false,
    note: undefined,
    error: undefined,
    outcome: 'conflict',
    expiresAtMs: -1,
    ...given,
  };
}

export function settleCall(given: Partial<SettleCall> & Pick<SettleCall, 'id' | 'counters'>): SettleCall {
  return {
    kind: 'settle',
    isMarker: false,
    unknown: 'tell',
    error: undefined,
    outcome: 'unknown',
    charged: -1,
    amount: -1,
    ...given,
  };
}

export function noteOf(id: string, text: string, ttlMs: number, owner?: ReservationOwner): Note {
  return { id, text, ttlMs, owner };
}

export function lookCall(counters: ReservedCounter[]): LookCall {
  return { kind: 'look', counters, error: undefined };
}

/** Submits a call, waits for its answer and gives it; throws its error. */
export async function submitCall<C extends ReservationCall>(store: ReservationStore, call: C): Promise<C> {
  await new Promise<void>((resolve) => store.submit(call, resolve));
  if (call.error !== undefined) throw call.error;
  return call;
}
