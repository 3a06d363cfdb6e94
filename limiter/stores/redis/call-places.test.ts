import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ManualTimers } from '../../../test/support/manual-timers.ts';
import { type CallBounds, CallPlaces } from './call-places.ts';

function places(bounds: Partial<CallBounds> = {}) {
  const timers = new ManualTimers();
  const events: string[] = [];
  const subject = new CallPlaces<string>({
    places: 2,
    whenEmpty: 'CREATE',
    waitMs: 1_000,
    ...bounds,
    timeoutMs: 10_000,
    timers,
    go: (call) => events.push(`go ${call}`),
    refuse: (call, waitedMs) => events.push(`refuse ${call} ${waitedMs}`),
  });
  return { timers, events, subject };
}

describe('CallPlaces', () => {
  it('lets calls wait in order for a place', () => {
    const { events, subject } = places();
    for (const call of ['a', 'b', 'c', 'd']) subject.take(call);
    expect(events).toEqual(['go a', 'go b']);
    subject.free();
    expect(events).toEqual(['go a', 'go b', 'go c']);
    subject.free();
    expect(events).toEqual(['go a', 'go b', 'go c', 'go d']);
    expect(subject.waiting).toBe(0);
  });

  it.each([
    ['CREATE', 1_000, 'go c'],
    ['ERROR', 1_000, 'refuse c 1000'],
    ['WAIT', 10_000, 'refuse c 10000'],
  ] as const)('does with %s after %i ms what it says', (whenEmpty, afterMs, event) => {
    const { timers, events, subject } = places({ whenEmpty });
    for (const call of ['a', 'b', 'c']) subject.take(call);
    timers.advance(afterMs - 1);
    expect(events).toHaveLength(2);
    timers.advance(1);
    expect(events.at(-1)).toBe(event);
    expect(timers.size).toBe(0);
  });

  it('gives no place away while calls beyond the bound are under way', () => {
    const { timers, events, subject } = places({ waitMs: 0 });
    for (const call of ['a', 'b', 'c']) subject.take(call);
    timers.advance(0);
    subject.take('d');
    subject.free();
    expect(events).toEqual(['go a', 'go b', 'go c']);
    subject.free();
    expect(events.at(-1)).toBe('go d');
  });

  it('refuses what waits at its end', () => {
    const { timers, events, subject } = places();
    for (const call of ['a', 'b', 'c']) subject.take(call);
    subject.close();
    expect(events.at(-1)).toBe('refuse c undefined');
    expect(timers.size).toBe(0);
  });

  it('answers every call once, in order, however many there are', () => {
    const steps = fc.array(fc.constantFrom('take', 'free', 'time'), { maxLength: 300 });
    fc.assert(
      fc.property(steps, fc.constantFrom('CREATE', 'ERROR', 'WAIT' as const), (run, whenEmpty) => {
        const { timers, events, subject } = places({ whenEmpty: whenEmpty as CallBounds['whenEmpty'] });
        let taken = 0;
        let underWay = 0;
        const started = (): number => events.filter((event) => event.startsWith('go')).length;
        for (const step of run) {
          const before = started();
          if (step === 'take') subject.take(String(taken++));
          else if (step === 'time') timers.advance(400);
          else if (underWay > 0) {
            underWay -= 1;
            subject.free();
          }
          underWay += started() - before;
          if (whenEmpty !== 'CREATE') expect(underWay).toBeLessThanOrEqual(2);
        }
        subject.close();
        const calls = events.map((event) => Number(event.split(' ')[1]));
        expect(calls).toEqual([...Array(taken).keys()]);
      }),
    );
  });
});
