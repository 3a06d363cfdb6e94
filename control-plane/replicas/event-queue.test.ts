import { describe, expect, it } from 'vitest';
import { type EventContent, EventQueue } from './event-recorder.ts';

function event(fields: Partial<EventContent> = {}): EventContent {
  return { uid: 'u', type: 'Normal', reason: 'Valid', note: 'accepted', ...fields };
}

describe('an event queue', () => {
  it('hands out events in their order', () => {
    const queue = new EventQueue();
    queue.add(event({ note: '1' }), 5);
    queue.add(event({ note: '2' }), 6);
    expect(queue.next(7)).toEqual({ event: event({ note: '1' }), count: 1, lastMs: 5 });
    expect(queue.next(7)).toEqual({ event: event({ note: '2' }), count: 1, lastMs: 6 });
    expect(queue.next(7)).toBeUndefined();
    expect(queue.nextDueMs(7)).toBeUndefined();
  });

  it('counts an event that comes again while it waits', () => {
    const queue = new EventQueue();
    queue.add(event(), 0);
    queue.add(event(), 1_000);
    expect(queue.size).toBe(1);
    expect(queue.next(1_000)).toEqual({ event: event(), count: 2, lastMs: 1_000 });
  });

  it('repeats an event that was written, until it has been silent for six minutes', () => {
    const queue = new EventQueue();
    const first = event();
    queue.add(first, 0);
    queue.next(0);
    queue.add(event(), 300_000);
    const repeated = queue.next(300_000);
    expect(repeated).toEqual({ event: first, count: 2, lastMs: 300_000 });
    expect(repeated?.event).toBe(first);
    queue.add(event(), 660_000);
    expect(queue.next(660_000)).toMatchObject({ count: 1 });
  });

  it.each([{ uid: 'v' }, { type: 'Warning' as const }, { reason: 'Invalid' }, { note: 'other' }])(
    'takes %j for another event',
    (fields) => {
      const queue = new EventQueue();
      queue.add(event(), 0);
      queue.add(event(fields), 0);
      expect(queue.size).toBe(2);
    },
  );

  it('drops what one object reports too much, not what others report', () => {
    const queue = new EventQueue({ burstPerObject: 2, perSecondPerObject: 0.1 });
    const outcomes = ['1', '2', '3'].map((note) => queue.add(event({ note }), 0));
    expect(outcomes).toEqual([undefined, undefined, 'object']);
    expect(queue.add(event({ uid: 'v' }), 0)).toBeUndefined();
    expect(queue.add(event({ note: '3' }), 10_000)).toBeUndefined();
  });

  it('drops what does not fit', () => {
    const queue = new EventQueue({ maxWaiting: 2 });
    const outcomes = ['1', '2', '3'].map((uid) => queue.add(event({ uid }), 0));
    expect(outcomes).toEqual([undefined, undefined, 'queue']);
  });

  it('keeps to its budget of writes', () => {
    const queue = new EventQueue({ writesPerSecond: 2 });
    for (let index = 0; index < 6; index++) queue.add(event({ uid: String(index) }), 0);
    const written = [0, 1, 2, 3, 4].map(() => queue.next(0)?.count);
    expect(written).toEqual([1, 1, 1, 1, undefined]);
    expect(queue.nextDueMs(0)).toBe(500);
    expect(queue.next(500)?.count).toBe(1);
  });

  it('forgets what waits', () => {
    const queue = new EventQueue();
    queue.add(event(), 0);
    expect(queue.clear()).toBe(1);
    expect(queue.next(0)).toBeUndefined();
  });
});
