import { describe, expect, it } from 'vitest';
import { counterOp } from '../../../test/support/counter-ops.ts';
import { ManualTimers } from '../../../test/support/manual-timers.ts';
import { type Batch, maxKeysPerCall } from './call-places.ts';
import { TurnGathering } from './turn-gathering.ts';

const turn = () => new Promise(setImmediate);

function gathering(windowMs?: number) {
  const timers = new ManualTimers();
  const sent: { atMs: number; keys: string[] }[] = [];
  const subject = new TurnGathering({
    windowMs,
    timers,
    monotonicMs: () => timers.nowMs,
    send: (batch: Batch) => {
      const [count, ...args] = batch.toArgs();
      sent.push({ atMs: timers.nowMs, keys: args.slice(0, Number(count)) });
    },
  });
  const add = (...keys: string[]) =>
    subject.add(
      keys.map((key) => counterOp({ key })),
      { callsLeft: 0, done: () => {} },
    );
  return { timers, sent, subject, add };
}

describe('TurnGathering', () => {
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
});
