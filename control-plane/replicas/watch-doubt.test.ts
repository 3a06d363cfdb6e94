import { expect, it } from 'vitest';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { WatchDoubt } from './replicas.ts';

function setUp() {
  const reported: string[] = [];
  const timers = new ManualTimers();
  const doubt = new WatchDoubt({
    patienceMs: 2_500,
    clock: { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs },
    timers,
    random: () => 0,
    cutOff: (isCutOff) => reported.push(isCutOff ? 'cut off' : 'back'),
    reconnect: () => reported.push(`reconnect at ${timers.nowMs}`),
  });
  /** A slow renewal and a good one. */
  const slow = (version: string): void => {
    doubt.unanswered(true);
    doubt.answered(version);
  };
  const since = (): string[] => reported.splice(0);
  return { doubt, slow, timers, since };
}

it('opens new connections after a renewal that had no answer, before anything is trusted', () => {
  const { slow, since } = setUp();
  slow('9');
  expect(since()).toEqual(['cut off', 'reconnect at 0', 'back']);
});

it('takes no new connections if the API server was not reached, or a renewal was rejected', () => {
  const { doubt, since } = setUp();
  doubt.unanswered(false);
  doubt.answered('1');
  doubt.answered(undefined);
  expect(since()).toEqual(['cut off', 'back', 'back']);
});

it('leaves connections alone while a slow API server shows renewals, except for once a minute', () => {
  const { doubt, slow, timers, since } = setUp();
  slow('9');
  since();
  // Shown after the answer, before it, and by a later renewal.
  for (const [made, before, after] of [
    ['10', '9', '10'],
    ['12', '12', '12'],
    ['14', '12', '15'],
  ] as const) {
    doubt.shown(before);
    slow(made);
    doubt.shown(after);
    timers.advance(5_000);
    expect(since()).toEqual(['cut off', 'back']);
  }
  // Away meanwhile: nothing says that it is back.
  doubt.unanswered(false);
  timers.advance(60_000);
  expect(since()).toEqual(['cut off', 'reconnect at 60000']);
  timers.advance(600_000);
  expect(since()).toEqual([]);
});

it('opens new connections at once, however often, when the watch does not show the renewal', () => {
  const { doubt, slow, timers, since } = setUp();
  doubt.shown('9');
  slow('10');
  timers.advance(5_000);
  since();
  for (const version of ['11', '12']) {
    slow(version);
    expect(since()).toEqual(['cut off']);
    doubt.answered('13');
    const atMs = timers.nowMs + 2_500;
    timers.advance(2_500);
    expect(since()).toEqual([`reconnect at ${atMs}`, 'back']);
  }
});

it('opens new connections when the watch does not show renewals that have answers', () => {
  const { doubt, timers, since } = setUp();
  // Not while it has shown nothing at all: the right to watch may be missing.
  doubt.answered('5');
  timers.advance(10_000);
  doubt.shown('5');
  doubt.answered('6');
  timers.advance(2_499);
  doubt.shown('6');
  timers.advance(10_000);
  expect(since()).toEqual(['back', 'back']);

  // Two renewals in its silence, and the first one counts.
  doubt.answered('7');
  timers.advance(1_500);
  doubt.answered('8');
  since();
  timers.advance(1_000);
  expect(since()).toEqual([`reconnect at ${timers.nowMs}`, 'back']);

  // It lags, but lives.
  for (let version = 8; version < 20; version++) {
    doubt.answered(String(version + 2));
    timers.advance(1_500);
    doubt.shown(String(version));
  }
  expect(since().filter((line) => line !== 'back')).toEqual([]);
  doubt.shown('21');

  // At once again when it has worked meanwhile, else once a minute.
  doubt.answered('22');
  timers.advance(2_500);
  expect(since()).toEqual(['back', `reconnect at ${timers.nowMs}`, 'back']);
  const lastMs = timers.nowMs;
  for (let version = 30; timers.nowMs < lastMs + 70_000; version++) {
    doubt.answered(String(version));
    timers.advance(5_000);
  }
  expect(since().filter((line) => line !== 'back')).toEqual([`reconnect at ${lastMs + 62_500}`]);
  doubt.answered('99');
  doubt.close();
  expect(timers.size).toBe(0);
});

it('waits for no event of the watch while renewals have no answers', () => {
  const { doubt, timers, since } = setUp();
  doubt.shown('5');
  doubt.answered('6');
  timers.advance(1_000);
  doubt.unanswered(true);
  timers.advance(60_000);
  expect(since()).toEqual(['back', 'cut off']);
});

it('stays in doubt while renewals go unanswered, and sets no timer after its end', () => {
  const { doubt, slow, timers, since } = setUp();
  slow('9');
  slow('10');
  doubt.unanswered(true);
  timers.advance(5_000);
  expect(since().slice(-2)).toEqual(['cut off', 'cut off']);
  doubt.answered('11');
  doubt.close();
  expect(timers.size).toBe(0);
});

it('trusts the watch after a renewal that was rejected while connections are new, and replaces them later', () => {
  const { doubt, slow, timers, since } = setUp();
  slow('9');
  since();
  timers.advance(1_000);
  doubt.unanswered(true);
  doubt.answered(undefined);
  expect(since()).toEqual(['cut off', 'back']);
  timers.advance(60_000);
  expect(since()).toEqual(['reconnect at 60000']);
});
