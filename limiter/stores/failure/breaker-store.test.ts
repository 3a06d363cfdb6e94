import { describe, expect, it } from 'vitest';
import { counterOp, submit } from '../../../test/support/counter-ops.ts';
import { HandDrivenStore } from '../../../test/support/hand-driven-store.ts';
import { ManualTimers } from '../../../test/support/manual-timers.ts';
import { noteOf } from '../../../test/support/reservation-calls.ts';
import { callAbandoned, failOp } from '../operation.ts';
import { StoreError } from '../store-error.ts';
import { BreakerStore, type BreakerStoreOptions } from './breaker-store.ts';

function setUp(options: Partial<BreakerStoreOptions> = {}) {
  const inner = new HandDrivenStore();
  const timers = new ManualTimers();
  const changes: [boolean, string | undefined][] = [];
  const store = new BreakerStore({
    store: inner,
    timers,
    random: () => 0,
    silenceMs: 800,
    probeIntervalMs: 250,
    patienceMs: 60_000,
    maxWaiting: 1000,
    maxWaitingBytes: 1_000_000,
    onChange: (open, reason) => changes.push([open, reason]),
    ...options,
  });
  /** Submits one op; returns it, and the number of its answers. */
  const ask = (key = 'a') => {
    const asked = { op: counterOp({ key }), answers: 0 };
    store.submit([asked.op], { stopWhenOver: false }, () => {
      asked.answers += 1;
    });
    return asked;
  };
  return { inner, timers, store, changes, ask };
}

/** A breaker that silence has opened. */
function opened() {
  const parts = setUp();
  parts.ask();
  parts.timers.advance(900);
  return parts;
}

/** Lets the callbacks of a settled probe run. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

const silent = 'the store did not answer within 800 ms';

describe('BreakerStore', () => {
  it('hands ops and answers on while closed', () => {
    const { inner, store, ask } = setUp();
    const asked = ask('k');
    expect([asked.answers, store.waiting]).toEqual([0, 1]);
    inner.answerAll(7);
    expect(asked).toEqual({ op: counterOp({ key: 'k', applied: 1, after: 7 }), answers: 1 });
    expect([store.phase, store.waiting]).toEqual(['closed', 0]);
  });

  it('does not take what was left out for a word of the store', () => {
    const { timers, store, ask, inner, changes } = setUp();
    ask('waits');
    for (let turns = 0; turns < 9; turns += 1) {
      const left = ask('left');
      inner.requests.pop()?.fail(callAbandoned);
      expect([left.answers, left.op.error]).toEqual([1, callAbandoned]);
      timers.advance(100);
    }
    expect([store.phase, changes]).toEqual(['open', [[true, silent]]]);
  });

  it('does not open for what was left out while the store is away', () => {
    const { store, ask, inner, changes } = setUp();
    ask();
    inner.connected = false;
    inner.requests.pop()?.fail(callAbandoned);
    expect([store.phase, store.waiting, changes]).toEqual(['closed', 0, []]);
  });

  it('answers all callers that wait within 900 ms of silence, and then all others at once', () => {
    const { timers, store, ask, inner, changes } = setUp();
    const waiting = [ask('a'), ask('b')];
    timers.advance(800);
    expect(waiting.map(({ answers }) => answers)).toEqual([0, 0]);
    timers.advance(100);
    expect(waiting.map(({ op, answers }) => [op.error?.message, op.error?.notCounted, answers])).toEqual([
      [silent, false, 1],
      [silent, false, 1],
    ]);
    const { op, answers } = ask();
    expect([answers, op.error?.message, op.error?.notCounted]).toEqual([
      1,
      `the limiter does not ask the store until it answers again: ${silent}`,
      true,
    ]);
    expect([inner.requests.length, store.opened, store.rejected]).toEqual([2, 1, 1]);
    expect(changes).toEqual([[true, silent]]);
  });

  it('stays closed while answers come, however long one request waits', () => {
    const { timers, store, ask, inner } = setUp();
    const longest = ask('longest');
    const [held] = inner.requests.splice(0);
    for (let i = 0; i < 50; i += 1) {
      ask();
      inner.answerAll(1);
      timers.advance(100);
    }
    held?.answer(1);
    expect([store.phase, longest.op.after, longest.answers]).toEqual(['closed', 1, 1]);
  });

  it('answers a caller that waited as long as the timeout, however many others are answered meanwhile', () => {
    const { timers, store, ask, inner } = setUp({ patienceMs: 2000 });
    const late = ask('late');
    inner.requests.splice(0);
    for (let i = 0; i < 20; i += 1) {
      expect(late.answers).toBe(0);
      ask();
      inner.answerAll(1);
      timers.advance(100);
    }
    timers.advance(100);
    expect([late.answers, late.op.error?.message, late.op.error?.notCounted]).toEqual([
      1,
      'the store did not answer this request within 2000 ms',
      false,
    ]);
    expect([store.phase, store.waiting]).toEqual(['closed', 0]);
  });

  it('shows no caller when the store answers after all', () => {
    const { timers, store, ask, inner } = setUp();
    const asked = ask();
    timers.advance(900);
    expect([asked.answers, asked.op.error?.message]).toEqual([1, silent]);
    inner.answerAll(7);
    expect([asked.answers, store.waiting, store.phase]).toEqual([1, 0, 'open']);
  });

  it('takes an error that the store never saw for no answer', () => {
    const { timers, store, ask, inner, changes } = setUp();
    ask('hangs');
    for (let i = 0; i < 18; i += 1) {
      ask('refused');
      timers.advance(50);
      const error = new StoreError('no place', { transient: true, notCounted: true, noAnswer: true });
      inner.requests.at(-1)?.fail(error);
    }
    expect([store.phase, changes]).toEqual(['open', [[true, silent]]]);
  });

  it('says while it is open why the last probe failed', async () => {
    const { timers, ask, inner } = opened();
    timers.advance(250);
    inner.pings[0]?.reject(new StoreError('Redis is not connected: WRONGPASS', { transient: true }));
    await turn();
    expect(ask().op.error?.message).toBe(
      'the limiter does not ask the store until it answers again: Redis is not connected: WRONGPASS',
    );
  });

  it('opens at once when the store says that it is not connected', () => {
    const { store, ask, inner, changes } = setUp();
    const [first, second] = [ask(), ask()];
    inner.connected = false;
    inner.requests[0]?.fail(new StoreError('Redis is not connected', { transient: true, notCounted: true }));
    expect([first.op.error?.message, first.op.error?.notCounted]).toEqual(['Redis is not connected', true]);
    expect([second.op.error?.message, second.op.error?.notCounted, second.answers]).toEqual([
      'Redis is not connected',
      false,
      1,
    ]);
    expect([store.phase, store.waiting, changes.length]).toEqual(['open', 0, 1]);
  });

  it('stays closed at errors of a store that is connected', () => {
    const { store, ask, inner, timers } = setUp();
    ask('waits');
    for (let i = 0; i < 20; i += 1) {
      ask();
      inner.requests.pop()?.fail(new StoreError('WRONGTYPE', { transient: false }));
      timers.advance(100);
    }
    expect(store.phase).toBe('closed');
  });

  it('probes until the store answers, then lets more and more through, and says so once', async () => {
    const { timers, store, ask, inner, changes } = opened();
    timers.advance(249);
    expect(inner.pings.length).toBe(0);
    timers.advance(1);
    inner.pings[0]?.reject(new StoreError('Redis is not connected', { transient: true }));
    await turn();
    expect(ask().answers).toBe(1);
    timers.advance(250);
    expect(inner.pings.length).toBe(2);
    inner.pings[1]?.resolve();
    await turn();
    inner.requests.splice(0);
    const under = Array.from({ length: 20 }, () => ask());
    expect(inner.requests.length).toBe(8);
    expect(under.filter(({ answers }) => answers === 1).length).toBe(12);
    inner.answerAll(1);
    timers.advance(100);
    for (let i = 0; i < 20; i += 1) ask();
    expect(inner.requests.length).toBe(16);
    inner.answerAll(1);
    timers.advance(600);
    expect(store.phase).toBe('closed');
    expect(changes).toEqual([
      [true, silent],
      [false, undefined],
    ]);
    timers.advance(100);
    expect(timers.size).toBe(0);
  });

  it('reports nothing new when the store fails again before it was let go', async () => {
    const { timers, store, ask, inner, changes } = opened();
    timers.advance(250);
    inner.pings[0]?.resolve();
    await turn();
    ask();
    timers.advance(900);
    expect([store.phase, store.opened, changes.length]).toEqual(['open', 2, 1]);
  });

  it('rejects more than may wait, and names the bound', () => {
    const { ask, store } = setUp({ maxWaiting: 2 });
    const asked = [ask(), ask(), ask()];
    expect(asked.map(({ op }) => op.error?.message)).toEqual([
      undefined,
      undefined,
      '2 requests wait for the store, and STORE_BREAKER_MAX_WAITING allows no more',
    ]);
    expect([store.phase, store.rejected]).toEqual(['closed', 1]);
  });

  it('rejects more bytes than may wait, and takes them again when others left', () => {
    const { ask, inner } = setUp({ maxWaitingBytes: 1000 });
    ask('a'.repeat(400));
    expect(ask('b'.repeat(100)).op.error?.message).toBe(
      'requests that wait for the store would occupy 1012 bytes, and STORE_BREAKER_MAX_WAITING_BYTES allows 1000',
    );
    inner.answerAll(1);
    expect(ask('b'.repeat(100)).answers).toBe(0);
  });

  it('answers all callers that wait although one of them throws', () => {
    const { store, timers, ask } = setUp();
    store.submit([counterOp({ key: 'a' })], { stopWhenOver: false }, () => {
      throw new Error('fault');
    });
    const other = ask();
    expect(() => timers.advance(900)).toThrow('fault');
    expect(other.answers).toBe(1);
  });

  it('leaves no timer when closed, also while a probe is under way', async () => {
    const { timers, store, inner } = opened();
    timers.advance(250);
    await store.close();
    inner.pings[0]?.reject(new StoreError('Redis store is closed', { transient: false }));
    await turn();
    expect(timers.size).toBe(0);
  });

  it('stays closed while the store answers a part of each request', () => {
    const { timers, store, inner, ask } = setUp();
    ask('waits');
    inner.submit = ([answered, failed], _, done) => {
      Object.assign(answered!, { error: undefined });
      failOp(failed!, new StoreError('one node is away', { transient: true, noAnswer: true }));
      done();
    };
    for (let turns = 0; turns < 20; turns += 1) {
      void submit(store, [counterOp({ key: 'a' }), counterOp({ key: 'b' })]);
      timers.advance(100);
    }
    expect(store.phase).toBe('closed');
  });

  it('takes the answer to a request without ops for no word of the store', async () => {
    const { timers, store, ask, inner } = setUp();
    ask('waits');
    for (let turns = 0; turns < 9; turns += 1) {
      const empty = submit(store, []);
      inner.requests.pop()?.answer(0);
      expect(await empty).toEqual([]);
      timers.advance(100);
    }
    expect(store.phase).toBe('open');
  });

  it('waits no longer for notes of reservations than for counters, and asks for none while it is open', async () => {
    const { timers, store, inner, changes } = setUp();
    const asked: string[] = [];
    let answer: Promise<string | undefined> = Promise.resolve('known');
    const ask = (name: string) => {
      asked.push(name);
      return answer;
    };
    Object.assign(inner, { notes: { recall: () => ask('recall'), note: () => ask('note') } });
    const guarded = store.notes!;
    expect([await guarded.recall('a'), await guarded.note(noteOf('a', 'text', 1_000))]).toEqual([
      'known',
      'known',
    ]);
    const wrong = new StoreError('WRONGTYPE', { transient: true });
    answer = Promise.reject(wrong);
    await expect(guarded.recall('a')).rejects.toBe(wrong);
    expect([store.phase, store.waiting]).toEqual(['closed', 0]);

    answer = new Promise(() => {});
    const late = [guarded.recall('a'), guarded.note(noteOf('a', 'text', 1_000))];
    expect(store.waiting).toBe(2);
    const refused = Promise.all(late.map((one) => expect(one).rejects.toThrow(silent)));
    timers.advance(1_200);
    await refused;
    await expect(guarded.note(noteOf('a', 'text', 1_000))).rejects.toThrow(
      `the limiter does not ask the store until it answers again: ${silent}`,
    );
    expect(asked).toEqual(['recall', 'note', 'recall', 'recall', 'note']);
    expect(changes).toEqual([[true, silent]]);
  });
});
