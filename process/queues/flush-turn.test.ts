import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { FlushTurn } from './loop-turns.ts';

it('flushes each that asked, once, when the turn is over', async () => {
  const turn = new FlushTurn();
  const flushed: string[] = [];
  const named = (name: string) => ({ flush: () => flushed.push(name) });
  turn.schedule(named('a'));
  turn.schedule(named('b'));
  await Promise.resolve();
  expect(flushed).toEqual([]);
  await nextTurn();
  expect(flushed).toEqual(['a', 'b']);
});

it('leaves what is asked for during a flush to the next turn', async () => {
  const turn = new FlushTurn();
  let flushes = 0;
  const again = {
    flush: () => {
      flushes += 1;
      if (flushes === 1) turn.schedule(again);
    },
  };
  turn.schedule(again);
  await nextTurn();
  expect(flushes).toBe(1);
  await nextTurn();
  expect(flushes).toBe(2);
});

it('flushes what its driver brought at once when that ends, and the others with it', async () => {
  const turn = new FlushTurn();
  const flushed: string[] = [];
  const named = (name: string) => ({ flush: () => flushed.push(name) });
  turn.schedule(named('before'));
  turn.begin();
  turn.schedule(named('a'));
  turn.schedule(named('b'));
  expect(flushed).toEqual([]);
  turn.end();
  expect(flushed).toEqual(['before', 'a', 'b']);
  turn.schedule(named('after'));
  expect(flushed).toHaveLength(3);
  await nextTurn();
  expect(flushed).toEqual(['before', 'a', 'b', 'after']);
});
