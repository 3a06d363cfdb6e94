import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FlushTurn } from '../../../process/queues/loop-turns.ts';
import { counterOp } from '../../../test/support/counter-ops.ts';
import { ManualTimers } from '../../../test/support/manual-timers.ts';
import { CountPart } from './count-parts.ts';
import { type Batch, type CallBounds, CallSlots, maxKeysPerCall, TurnBatches } from './turn-batches.ts';

function places(bounds: Partial<CallBounds> = {}) {
  const timers = new ManualTimers();
  const events: string[] = [];
  const subject = new CallSlots<string>({
    places: 2,
    whenEmpty: 'CREATE',
    waitMs: 1_000,
    ...bounds,
    timeoutMs: 10_000,
    timers,
    carrier: {
      send: (call) => events.push(`go ${call}`),
      reject: (call, waitedMs) => events.push(`refuse ${call} ${waitedMs}`),
    },
  });
  return { timers, events, subject };
}

describe('CallSlots', () => {
  it('lets calls wait in order for a place', () => {
    const { events, subject } = places();
    for (const call of ['a', 'b', 'c', 'd']) subject.take(call);
    expect(events).toEqual(['go a', 'go b']);
    expect(['b', 'c', 'd'].map((call) => subject.isWaiting(call))).toEqual([false, true, true]);
    subject.free();
    expect(events).toEqual(['go a', 'go b', 'go c']);
    expect(['b', 'c', 'd'].map((call) => subject.isWaiting(call))).toEqual([false, false, true]);
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
    expect(subject.isWaiting('c')).toBe(false);
    expect(subject.rejected).toBe(whenEmpty === 'CREATE' ? 0 : 1);
    expect(timers.size).toBe(0);
  });

  it('gives no place away while calls beyond the bound are under way', () => {
    const { timers, events, subject } = places({ waitMs: 0 });
    for (const call of ['a', 'b', 'c']) subject.take(call);
    timers.advance(0);
    for (const call of ['d', 'e']) subject.take(call);
    subject.free();
    expect(events).toEqual(['go a', 'go b', 'go c']);
    subject.free();
    expect(events.at(-1)).toBe('go d');
    subject.free();
    expect(events.at(-1)).toBe('go e');
  });

  it('rejects what waits at its end', () => {
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

const turn = () => new Promise(setImmediate);

function gathering(windowMs?: number, isFull = () => false) {
  const flushTurn = new FlushTurn();
  const timers = new ManualTimers();
  const sent: { atMs: number; keys: string[] }[] = [];
  const waiting: Batch[] = [];
  const send = (batch: Batch): void => {
    const args: string[] = [];
    batch.pushArguments(args);
    sent.push({ atMs: timers.nowMs, keys: args.slice(2, 2 + Number(args[1])) });
  };
  const subject = new TurnBatches({
    terms: {
      names: { prefix: '', isCluster: false },
      reservations: { maxReservations: 1, recordMs: 1 },
    },
    windowMs,
    timers,
    monotonicMs: () => timers.nowMs,
    flushTurn,
    calls: {
      take: (batch: Batch) => {
        if (isFull()) waiting.push(batch);
        else send(batch);
        return !isFull();
      },
      isWaiting: (batch) => waiting.includes(batch),
    },
  });
  const add = (...keys: string[]) =>
    subject.add(
      keys.map((key) => counterOp({ key })),
      CountPart,
      { callsLeft: 0, caller: undefined, done: () => {} },
    );
  /** Adds the requests of one read of a socket. */
  const read = (...keys: string[]) => {
    flushTurn.begin();
    for (const key of keys) add(key);
    flushTurn.end();
  };
  /** Gives the first waiting call a place. */
  const free = (): void => {
    send(waiting.shift()!);
  };
  return { timers, sent, subject, add, read, waiting, free };
}

describe('TurnBatches', () => {
  it('sends what one turn brought, in one batch', async () => {
    const { sent, add, timers } = gathering();
    add('a');
    add('b');
    expect(sent).toEqual([]);
    await turn();
    add('c');
    await turn();
    expect(sent.map(({ keys }) => keys)).toEqual([['a', 'b'], ['c']]);
    expect(timers.size).toBe(0);
  });

  it('begins another batch when a call is full', async () => {
    const { sent, add } = gathering();
    add(...Array.from({ length: maxKeysPerCall + 1 }, (_, i) => `key${i}`));
    await turn();
    expect(sent.map(({ keys }) => keys.length)).toEqual([maxKeysPerCall, 1]);
  });

  it('sends what a read brought when that ends, once requests have come alone for a while', async () => {
    const { sent, read } = gathering();
    for (let i = 0; i < 16; i += 1) {
      read(`${i}`);
      expect(sent).toHaveLength(i);
      await turn();
    }
    read('alone');
    expect(sent.at(-1)?.keys).toEqual(['alone']);
  });

  it.each([
    ['one read', (read: (...keys: string[]) => void) => read('x', 'y')],
    ['two reads of a turn', (read: (...keys: string[]) => void) => void [read('x'), read('y')]],
  ])('gathers for a turn again soon after %s brought two', async (_, several) => {
    const { sent, read } = gathering();
    for (let i = 0; i < 17; i += 1) {
      read(`${i}`);
      await turn();
    }
    for (let i = 0; i < 16; i += 1) {
      several(read);
      await turn();
    }
    const before = sent.length;
    read('a');
    read('b');
    expect(sent).toHaveLength(before);
    await turn();
    expect(sent.at(-1)?.keys).toEqual(['a', 'b']);
  });

  it('with a window, sends what comes alone at the end of its turn', async () => {
    const { sent, add, timers } = gathering(10);
    add('a');
    await turn();
    timers.advance(10);
    add('b');
    await turn();
    expect(sent).toEqual([
      { atMs: 0, keys: ['a'] },
      { atMs: 10, keys: ['b'] },
    ]);
  });

  it('with a window, gathers what comes soon after a sending until the window is over', async () => {
    const { sent, add, timers } = gathering(10);
    add('a');
    await turn();
    timers.advance(4);
    add('b');
    timers.advance(5);
    add('c');
    await turn();
    expect(sent).toHaveLength(1);
    timers.advance(1);
    expect(sent[1]).toEqual({ atMs: 10, keys: ['b', 'c'] });
  });

  it('has what comes soon join the last batch that waits for a place', async () => {
    const { sent, add, waiting, free, timers } = gathering(undefined, () => true);
    for (const key of ['a', 'b', 'a']) {
      add(key);
      await turn();
    }
    expect(waiting).toHaveLength(1);
    free();
    add('c');
    await turn();
    timers.advance(5);
    add('d');
    await turn();
    add('e');
    free();
    free();
    expect(sent.map(({ keys }) => keys)).toEqual([['a', 'b'], ['c'], ['d', 'e']]);
  });

  it('joins no full batch, and none of those before the last', async () => {
    const { sent, add, waiting, free } = gathering(undefined, () => true);
    add(...Array.from({ length: maxKeysPerCall }, (_, i) => `${i}`));
    await turn();
    add('x');
    await turn();
    add('y', '0');
    expect(waiting).toHaveLength(2);
    free();
    free();
    expect(sent.map(({ keys }) => keys.length)).toEqual([maxKeysPerCall, 3]);
  });
});
