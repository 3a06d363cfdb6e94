import { describe, expect, it } from 'vitest';
import { type LeaseRecord, leaseRecord } from './lease-api.ts';
import { type ElectionOptions, ElectionState } from './lease-election.ts';

const options: ElectionOptions = {
  identity: 'a',
  leaseDurationMs: 15_000,
  renewDeadlineMs: 10_000,
  retryPeriodMs: 2_000,
};

function record(fields: Partial<LeaseRecord>): LeaseRecord {
  return {
    resourceVersion: '1',
    holder: 'b',
    durationMs: 15_000,
    acquireTime: '2026-01-02T03:04:05.000000Z',
    transitions: 3,
    ...fields,
  };
}

/** It has written at 0, and got the answer at 100. */
function leading(): ElectionState {
  const state = new ElectionState(options);
  state.read(undefined, 0);
  state.written(record({ holder: 'a' }), 0, 100);
  return state;
}

describe('the record of a Lease object', () => {
  const metadata = { name: 'weir', uid: 'u', resourceVersion: '7' };
  const nothing = { resourceVersion: '7', holder: '', durationMs: undefined, acquireTime: undefined };

  it('has all that the holder wrote', () => {
    const acquireTime = '2026-01-02T03:04:05.000000Z';
    const spec = { holderIdentity: 'b', leaseDurationSeconds: 15, leaseTransitions: 3, acquireTime };
    expect(leaseRecord({ metadata, spec })).toEqual(record({ resourceVersion: '7' }));
  });

  it.each([
    undefined,
    {},
    { holderIdentity: null, leaseDurationSeconds: null, acquireTime: null, leaseTransitions: null },
    { leaseDurationSeconds: 0 },
  ])('is of a free Lease without these: %j', (spec) => {
    expect(leaseRecord({ metadata, ...(spec && { spec }) })).toEqual({ ...nothing, transitions: 0 });
  });
});

describe('a candidate that knows nothing', () => {
  it('reads', () => {
    expect(new ElectionState(options).next(0)).toEqual({ do: 'read' });
  });

  it('reads again a retry period after a read that failed was sent', () => {
    const state = new ElectionState(options);
    state.failed(500);
    expect(state.next(600)).toEqual({ do: 'wait', untilMs: 2_500 });
    expect(state.next(2_500)).toEqual({ do: 'read' });
  });

  it('does not trust a watch before its own first read', () => {
    const state = new ElectionState(options);
    state.observed(record({ holder: '' }), 0);
    expect(state.next(0)).toEqual({ do: 'read' });
  });
});

describe('a follower', () => {
  it('creates a Lease that is not there', () => {
    const state = new ElectionState(options);
    state.read(undefined, 0);
    expect(state.next(0)).toEqual({ do: 'write', over: undefined, transitions: 0, acquireTime: undefined });
  });

  it('takes a Lease that is released, at once', () => {
    const state = new ElectionState(options);
    const released = record({ holder: '' });
    state.read(released, 0);
    expect(state.leader).toBeUndefined();
    expect(state.next(0)).toEqual({ do: 'write', over: released, transitions: 4, acquireTime: undefined });
  });

  it('waits for as long as the holder claimed, from when it saw the record', () => {
    const state = new ElectionState(options);
    const held = record({ durationMs: 7_000 });
    state.read(held, 1_000);
    expect(state.leader).toBe('b');
    expect(state.next(1_000)).toEqual({ do: 'wait', untilMs: 8_000 });
    expect(state.next(8_000)).toEqual({ do: 'write', over: held, transitions: 4, acquireTime: undefined });
  });

  it('waits for its own duration if the holder claimed none', () => {
    const state = new ElectionState(options);
    state.read(record({ durationMs: undefined }), 1_000);
    expect(state.next(1_000)).toEqual({ do: 'wait', untilMs: 16_000 });
  });

  it('does not begin to wait again for a record that it has seen before', () => {
    const state = new ElectionState(options);
    state.read(record({}), 0);
    state.observed(record({}), 9_000);
    expect(state.next(9_000)).toEqual({ do: 'wait', untilMs: 15_000 });
  });

  it('begins to wait again for a record that was renewed', () => {
    const state = new ElectionState(options);
    state.read(record({}), 0);
    state.observed(record({ resourceVersion: '2' }), 9_000);
    expect(state.next(9_000)).toEqual({ do: 'wait', untilMs: 24_000 });
  });

  it('takes the Lease as soon as it hears of its release', () => {
    const state = new ElectionState(options);
    state.read(record({}), 0);
    state.observed(record({ resourceVersion: '2', holder: '' }), 500);
    expect(state.next(500)).toMatchObject({ do: 'write' });
  });

  it('waits for the time of a holder whose Lease somebody deleted', () => {
    const state = new ElectionState(options);
    state.read(record({}), 0);
    state.observed(undefined, 500);
    expect(state.next(500)).toEqual({ do: 'wait', untilMs: 15_000 });
    expect(state.next(15_000)).toMatchObject({ do: 'write', over: undefined });
  });

  it('reads at once when its write named an old version', () => {
    const state = new ElectionState(options);
    state.read(record({}), 0);
    state.conflicted();
    expect(state.next(15_000)).toEqual({ do: 'read' });
  });

  it('takes over a write of its own whose answer was lost', () => {
    const state = new ElectionState(options);
    state.read(undefined, 0);
    state.failed(0);
    expect(state.leads(2_000)).toBe(false);
    const own = record({ holder: 'a' });
    state.read(own, 2_000);
    expect(state.leads(2_000)).toBe(false);
    expect(state.next(2_000)).toEqual({
      do: 'write',
      over: own,
      transitions: 3,
      acquireTime: own.acquireTime,
    });
  });

  it('does not lead by a write whose answer came after the deadline', () => {
    const state = new ElectionState(options);
    state.read(undefined, 0);
    state.written(record({ holder: 'a' }), 0, 10_000);
    expect(state.leads(10_000)).toBe(false);
  });

  it('has nothing to release', () => {
    const state = new ElectionState(options);
    state.read(record({}), 0);
    expect(state.resign(0)).toBeUndefined();
  });
});

describe('a leader', () => {
  it('leads until the deadline, counted from when its write was sent', () => {
    const state = leading();
    expect(state.leader).toBe('a');
    expect(state.leadsUntilMs).toBe(10_000);
    expect(state.leads(9_999)).toBe(true);
    expect(state.leads(10_000)).toBe(false);
  });

  it('renews every retry period, which moves the deadline', () => {
    const state = leading();
    expect(state.next(100)).toEqual({ do: 'wait', untilMs: 2_000 });
    expect(state.next(2_000)).toMatchObject({ do: 'write', over: { resourceVersion: '1' }, transitions: 3 });
    state.written(record({ holder: 'a', resourceVersion: '2' }), 2_000, 2_100);
    expect(state.leadsUntilMs).toBe(12_000);
  });

  it('leads on in doubt, and reads before it writes again', () => {
    const state = leading();
    state.failed(2_000);
    expect(state.leads(3_000)).toBe(true);
    expect(state.next(3_000)).toEqual({ do: 'wait', untilMs: 4_000 });
    expect(state.next(4_000)).toEqual({ do: 'read' });
    const own = record({ holder: 'a', resourceVersion: '2' });
    state.read(own, 4_100);
    expect(state.next(4_100)).toMatchObject({ do: 'write', over: own });
    expect(state.leadsUntilMs).toBe(10_000);
  });

  it('stops at once when it reads that another one holds the Lease', () => {
    const state = leading();
    state.conflicted();
    state.read(record({ resourceVersion: '2' }), 2_100);
    expect(state.leads(2_100)).toBe(false);
    expect(state.next(2_100)).toEqual({ do: 'wait', untilMs: 17_100 });
  });

  it('is not confused by what a watch brings late', () => {
    const state = leading();
    state.observed(record({ resourceVersion: '0', holder: 'b' }), 200);
    expect(state.leader).toBe('a');
    expect(state.leads(200)).toBe(true);
  });

  it('creates its Lease again when somebody deleted it', () => {
    const state = leading();
    state.conflicted();
    state.read(undefined, 2_100);
    expect(state.leads(2_100)).toBe(true);
    expect(state.next(2_100)).toMatchObject({ do: 'write', over: undefined });
  });

  it('tries again at once after the deadline, because it knows of no other writer', () => {
    const state = leading();
    expect(state.next(11_000)).toMatchObject({ do: 'write', over: { holder: 'a' } });
  });

  it('releases what it holds', () => {
    const state = leading();
    expect(state.resign(5_000)).toEqual(record({ holder: 'a' }));
    expect(state.leads(5_000)).toBe(false);
  });

  it('has nothing to release after the deadline', () => {
    expect(leading().resign(10_000)).toBeUndefined();
  });
});
