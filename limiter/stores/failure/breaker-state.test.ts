import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BreakerState, firstAdmitted, lastAdmitted } from './breaker-state.ts';

const quietTicks = 3;

function closed(): BreakerState {
  return new BreakerState({ quietTicks });
}

function open(): BreakerState {
  const state = closed();
  state.unreachable();
  return state;
}

function probing(): BreakerState {
  const state = open();
  state.probeSent();
  return state;
}

function ramping(): BreakerState {
  const state = probing();
  state.probeAnswered();
  return state;
}

function tick(state: BreakerState, times: number, waiting: boolean): void {
  for (let i = 0; i < times; i += 1) state.tick(waiting);
}

describe('BreakerState', () => {
  it('admits everything while closed and nothing while open or probing', () => {
    expect(closed().admitted).toBe(Number.POSITIVE_INFINITY);
    expect([open().admitted, probing().admitted, ramping().admitted]).toEqual([0, 0, firstAdmitted]);
  });

  it('goes from closed to open after silence', () => {
    const state = closed();
    tick(state, quietTicks, true);
    expect(state.phase).toBe('closed');
    state.tick(true);
    expect(state.phase).toBe('open');
  });

  it('restarts the count of silence with every answer, and when no caller waits', () => {
    const state = closed();
    for (let i = 0; i < 5; i += 1) {
      tick(state, quietTicks, true);
      if (i % 2 === 0) state.hasAnswered = true;
      state.tick(i % 2 === 0);
    }
    expect(state.phase).toBe('closed');
  });

  it('goes from closed to open if the store is unreachable', () => {
    expect(open().phase).toBe('open');
  });

  it('goes from open to probing, and back when the probe failed', () => {
    const state = probing();
    expect(state.phase).toBe('probing');
    state.probeFailed();
    expect(state.phase).toBe('open');
  });

  it('goes from probing to ramping when the probe is answered', () => {
    expect(ramping().phase).toBe('ramping');
  });

  it('doubles what it admits with every tick until it is closed', () => {
    const state = ramping();
    const admitted: number[] = [];
    while (state.phase === 'ramping') {
      admitted.push(state.admitted);
      state.tick(false);
    }
    expect(admitted).toEqual([8, 16, 32, 64, 128, 256, lastAdmitted]);
    expect([state.phase, state.admitted]).toEqual(['closed', Number.POSITIVE_INFINITY]);
  });

  it('admits no more as long as there are no answers, and opens after silence', () => {
    const state = ramping();
    tick(state, quietTicks, true);
    expect([state.phase, state.admitted]).toEqual(['ramping', firstAdmitted]);
    state.tick(true);
    expect([state.phase, state.admitted]).toEqual(['open', 0]);
  });

  it('goes from ramping to open if the store is unreachable', () => {
    const state = ramping();
    state.unreachable();
    expect([state.phase, state.admitted]).toEqual(['open', 0]);
  });

  it('ignores every event that has no arrow', () => {
    const events = ['probeSent', 'probeFailed', 'probeAnswered', 'unreachable'] as const;
    const outcomes = [closed, open, probing, ramping].map((make) =>
      events.map((event) => {
        const state = make();
        state[event]();
        return state.phase;
      }),
    );
    expect(outcomes).toEqual([
      ['closed', 'closed', 'closed', 'open'],
      ['probing', 'open', 'open', 'open'],
      ['probing', 'open', 'ramping', 'probing'],
      ['ramping', 'ramping', 'ramping', 'open'],
    ]);
  });

  it('never opens while every tick has an answer, and always does after silence, in any order of events', () => {
    const event = fc.constantFrom('hasAnswered', 'probeSent', 'probeFailed', 'probeAnswered', 'tick');
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60 }), (events) => {
        const state = closed();
        for (const name of events) {
          if (name === 'hasAnswered') {
            state.hasAnswered = true;
          } else if (name === 'tick') {
            state.hasAnswered = true;
            state.tick(true);
          } else {
            state[name]();
          }
          expect(state.phase).toBe('closed');
        }
        tick(state, quietTicks + 2, true);
        expect([state.phase, state.admitted]).toEqual(['open', 0]);
      }),
    );
  });

  it('comes to closed only by an answered probe and ticks, in any order of events', () => {
    const event = fc.constantFrom(
      'hasAnswered',
      'probeSent',
      'probeFailed',
      'probeAnswered',
      'unreachable',
      'tick',
      'quiet',
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 100 }), (events) => {
        const state = open();
        let answered = false;
        let ticks = 0;
        for (const name of events) {
          const before = state.phase;
          if (name === 'tick') state.tick(false);
          else if (name === 'quiet') state.tick(true);
          else if (name === 'hasAnswered') state.hasAnswered = true;
          else state[name]();
          if (before === 'probing' && name === 'probeAnswered') [answered, ticks] = [true, 0];
          if (state.phase === 'open') answered = false;
          if (name === 'tick' || name === 'quiet') ticks += 1;
          if (before !== 'closed' && state.phase === 'closed') {
            expect(answered).toBe(true);
            expect(ticks).toBeGreaterThanOrEqual(7);
          }
          if (state.phase === 'open' || state.phase === 'probing') expect(state.admitted).toBe(0);
        }
      }),
    );
  });
});
