import { describe, expect, it } from 'vitest';
import { ConfigWrites } from '../../test/support/config-object-builder.ts';
import { recordedTelemetry, reportTo } from '../../test/support/control-plane-telemetry.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { ApiError } from '../kubernetes/api.ts';
import type { ConfigObject, ConfigStatus } from '../model/config-object.ts';
import type { StatusEntry } from './status-queue.ts';
import { StatusPump, type WriteOutcome } from './status-writer.ts';

const unreachable = new ApiError({ status: 0, reason: 'Unreachable', message: 'away' });
const failed = 'Could not write a status: n/a';
/** In the words of an API server 1.36. */
const forbidden = new ApiError({
  status: 403,
  reason: 'Forbidden',
  message:
    'PATCH x: ratelimitconfigs.ratelimit.weir.dev "a" is forbidden: User "u" cannot patch resource "ratelimitconfigs/status" in API group "ratelimit.weir.dev" in the namespace "n"',
});
const invalid = new ApiError({ status: 422, reason: 'Invalid', message: 'bad' });

function entry(uid: string): StatusEntry {
  const object: ConfigObject = {
    namespace: 'n',
    name: uid,
    uid,
    generation: 1,
    createdMs: 0,
    spec: {},
    status: undefined,
  };
  return { object, status: { observedGeneration: 1, conditions: [] } };
}

/** A queue without a budget; writes wait until the test answers them. */
function setUp({ concurrency = 2 } = {}) {
  const waiting: StatusEntry[] = [];
  const reported: string[] = [];
  const done: string[] = [];
  const answers = new Map<string, (outcome: WriteOutcome) => void>();
  const clock = new ManualClock();
  const writes = new ConfigWrites(clock);
  const timers = new ManualTimers();
  const state = { leads: true, dueMs: 0 };
  const telemetry = recordedTelemetry(reportTo(reported));
  const pump = new StatusPump({
    queue: {
      next: () => (state.dueMs > timers.nowMs ? undefined : waiting.shift()),
      nextDueMs: () => (waiting.length === 0 ? undefined : Math.max(0, state.dueMs - timers.nowMs)),
      done: (uid) => done.push(uid),
      spared: () => reported.push('spared'),
    },
    writer: {
      write: ({ object }) => new Promise((resolve) => answers.set(object.uid, resolve)),
    },
    mayWrite: () => state.leads,
    concurrency,
    clock,
    timers,
    random: () => 0,
    ...telemetry,
    written: ({ object }) => reported.push(`written ${object.uid}`),
    record: (change) => {
      writes.ledger = change(writes.ledger);
    },
    again: (ended) => {
      writes.ledger = ended?.(writes.ledger) ?? writes.ledger;
      reported.push('again');
    },
  });
  const answer = async (uid: string, outcome: WriteOutcome) => {
    const resolve = answers.get(uid);
    answers.delete(uid);
    resolve?.(outcome);
    await new Promise((settled) => setImmediate(settled));
  };
  const counted = async () => ({
    written: await telemetry.counted('status_writes_total{outcome="written"}'),
    failed: await telemetry.counted('status_writes_total{outcome="failed"}'),
  });
  return { pump, waiting, reported, done, answers, clock, timers, state, answer, counted, writes };
}

describe('a status pump', () => {
  it('records what the server may have, and the version that came of a write', async () => {
    const { pump, waiting, answer, writes, timers } = setUp();
    const { object, status } = entry('a') as { object: ConfigObject; status: ConfigStatus };
    const at = (resourceVersion: string, its?: ConfigStatus) => ({ ...object, resourceVersion, status: its });
    waiting.push({ object: at('7'), status });
    pump.wake();
    expect([at('8', status), at('8')].map((shown) => writes.ledger.isOwn(shown))).toEqual([true, false]);
    await answer('a', { is: 'failed', error: unreachable });
    expect(writes.ledger.isOwn(at('8', status))).toBe(true);
    timers.advance(50);
    await new Promise((settled) => setImmediate(settled));
    await answer('a', { is: 'written', version: '9' });
    expect(writes.look(at('8')).known).toEqual(at('9', status));
  });

  it('writes a few at a time', async () => {
    const { pump, waiting, reported, done, answers, answer } = setUp();
    waiting.push(entry('a'), entry('b'), entry('c'));
    pump.wake();
    expect([...answers.keys()]).toEqual(['a', 'b']);
    await answer('a', { is: 'written', version: '7' });
    expect([...answers.keys()]).toEqual(['b', 'c']);
    expect(reported).toEqual(['written a', 'again']);
    expect(done).toEqual(['a']);
  });

  it('leaves an object that is gone, without a word', async () => {
    const { pump, waiting, reported, done, answers, timers, answer, counted } = setUp({ concurrency: 1 });
    waiting.push(entry('a'), entry('b'));
    pump.wake();
    await answer('a', { is: 'gone' });
    expect(done).toEqual(['a']);
    expect([...answers.keys()]).toEqual(['b']);
    await answer('b', { is: 'written' });
    timers.advance(10_000);
    expect(answers.size).toBe(0);
    expect(reported).toEqual(['written b', 'again']);
    expect(await counted()).toEqual({ written: 1, failed: 0 });
  });

  it('never repeats a status whose object has changed, and says so', async () => {
    const { pump, waiting, reported, done, answers, timers, answer } = setUp();
    waiting.push(entry('a'), entry('b'));
    pump.wake();
    await answer('a', { is: 'outdated' });
    await answer('b', { is: 'failed', error: unreachable });
    timers.advance(50);
    await new Promise((settled) => setImmediate(settled));
    await answer('b', { is: 'outdated' });
    const failure = 'Could not write a status: n/b: away: 50';
    expect(reported).toEqual(['again', failure, 'again']);
    expect(done).toEqual(['a', 'b']);
    expect(answers.size).toBe(0);
  });

  it('waits for the budget', () => {
    const { pump, waiting, answers, timers, state } = setUp();
    state.dueMs = 20;
    waiting.push(entry('a'));
    pump.wake();
    timers.advance(19);
    expect([...answers.keys()]).toEqual([]);
    timers.advance(1);
    expect([...answers.keys()]).toEqual(['a']);
  });

  it('tries again, later each time, until it is written', async () => {
    const { pump, waiting, reported, done, answers, timers, answer } = setUp();
    waiting.push(entry('a'));
    pump.wake();
    await answer('a', { is: 'failed', error: unreachable });
    expect(answers.size).toBe(0);
    timers.advance(50);
    await new Promise((settled) => setImmediate(settled));
    await answer('a', { is: 'failed', error: unreachable });
    timers.advance(100);
    await new Promise((settled) => setImmediate(settled));
    await answer('a', { is: 'written' });
    expect(reported).toEqual([`${failed}: away: 50`, `${failed}: away: 100`, 'written a', 'again']);
    expect(done).toEqual(['a']);
  });

  it('keeps a rejected status from coming again at once, and its place free for others', async () => {
    const { pump, waiting, reported, done, answers, timers, answer } = setUp({ concurrency: 1 });
    waiting.push(entry('a'), entry('b'));
    pump.wake();
    await answer('a', { is: 'refused', error: invalid });
    expect(reported).toEqual([`${failed}: bad`]);
    expect([...answers.keys()]).toEqual(['b']);
    expect(done).toEqual([]);
    timers.advance(5_000);
    expect(done).toEqual(['a']);
    expect(reported).toEqual([`${failed}: bad`, 'again']);
  });

  it('waits longer each time with a status that is rejected again', async () => {
    const { pump, waiting, done, timers, answer } = setUp();
    const pauses: number[] = [];
    for (let refusals = 0; refusals < 6; refusals++) {
      waiting.push(entry('a'));
      pump.wake();
      await answer('a', { is: 'refused', error: invalid });
      const beforeMs = timers.nowMs;
      timers.advanceToNext();
      pauses.push(timers.nowMs - beforeMs);
    }
    expect(pauses).toEqual([2_500, 5_000, 10_000, 20_000, 30_000, 30_000]);
    expect(done).toHaveLength(6);
  });

  it('tries one status of a namespace if the right is missing, and all others once it is there', async () => {
    const { pump, waiting, reported, done, answers, timers, answer, counted } = setUp();
    const all = () => ['a', 'b', 'c', 'd'].map(entry);
    const elsewhere = entry('e');
    elsewhere.object.namespace = 'other';
    waiting.push(...all(), elsewhere);
    pump.wake();
    await answer('a', { is: 'refused', error: forbidden });
    await answer('b', { is: 'refused', error: forbidden });
    expect([...answers.keys()]).toEqual(['e']);
    await answer('e', { is: 'written' });
    const missing =
      "The right to patch 'ratelimitconfigs/status' is missing: the control plane writes no status in the namespace";
    expect(reported.filter((line) => !line.startsWith(missing))).toEqual([
      'spared',
      'spared',
      'written e',
      'again',
    ]);
    expect(reported.filter((line) => line.startsWith(missing))).toHaveLength(1);
    expect(done).toEqual(['e']);
    expect(pump.paused).toBe(4);

    timers.advance(2_500);
    expect(pump.paused).toBe(0);
    expect(done.slice(1).sort()).toEqual(['a', 'b', 'c', 'd']);
    waiting.push(...all());
    pump.wake();
    await answer('a', { is: 'refused', error: forbidden });
    expect([...answers.keys()]).toEqual([]);
    timers.advance(4_999);
    expect(done).toHaveLength(5);
    timers.advance(1);
    expect(done.slice(5).sort()).toEqual(['a', 'b', 'c', 'd']);
    waiting.push(...all());
    pump.wake();
    await new Promise((settled) => setImmediate(settled));
    expect([...answers.keys()]).toEqual(['a']);
    await answer('a', { is: 'written' });
    expect(done.slice(9).sort()).toEqual(['a', 'b', 'c', 'd']);
    waiting.push(...all());
    pump.wake();
    expect([...answers.keys()]).toEqual(['a', 'b']);
    expect(await counted()).toEqual({ written: 2, failed: 3 });
  });

  it('leaves other objects of the namespace alone when a webhook rejects one', async () => {
    const { pump, waiting, done, answers, answer } = setUp({ concurrency: 1 });
    waiting.push(entry('a'), entry('b'));
    pump.wake();
    const message = 'admission webhook "w" denied the request';
    const denied = new ApiError({ status: 403, reason: 'Forbidden', message });
    await answer('a', { is: 'refused', error: denied });
    expect([...answers.keys()]).toEqual(['b']);
    expect(done).toEqual([]);
  });

  it('begins with a short pause again for an object that was not written for a minute', async () => {
    const { pump, waiting, reported, clock, timers, answer } = setUp();
    const refuse = async (uid: string): Promise<void> => {
      waiting.push(entry(uid));
      pump.wake();
      await answer(uid, { is: 'refused', error: invalid });
    };
    const pass = (ms: number): void => {
      timers.advance(ms);
      clock.ms += ms;
    };
    const againAfter = (): number => {
      const before = reported.filter((line) => line === 'again').length;
      for (let ms = 100; ms < 20_000; ms += 100) {
        pass(100);
        if (reported.filter((line) => line === 'again').length > before) return ms;
      }
      throw new Error('the pause does not end');
    };
    await refuse('a');
    expect(againAfter()).toBe(2_500);
    await refuse('a');
    expect(againAfter()).toBe(5_000);
    pass(60_100);
    await refuse('b');
    expect(againAfter()).toBe(2_500);
    await refuse('a');
    expect(againAfter()).toBe(2_500);
    await refuse('b');
    expect(againAfter()).toBe(5_000);
  });

  it('treats a status as rejected if the server fails on it repeatedly', async () => {
    const { pump, waiting, reported, timers, answer } = setUp();
    waiting.push(entry('a'));
    pump.wake();
    const fault = new ApiError({ status: 500, reason: '', message: 'fault' });
    for (let attempt = 0; attempt < 6; attempt++) {
      await answer('a', { is: 'failed', error: fault });
      timers.advance(5_000);
      await new Promise((settled) => setImmediate(settled));
    }
    expect(reported.slice(4)).toEqual([`${failed}: fault: 800`, `${failed}: fault`, 'again']);
  });

  it('stops when it may not write any more', async () => {
    const { pump, waiting, done, answers, timers, state, answer } = setUp();
    waiting.push(entry('a'), entry('b'), entry('c'));
    pump.wake();
    await answer('a', { is: 'failed', error: unreachable });
    state.leads = false;
    pump.stop();
    await answer('b', { is: 'written' });
    expect([...answers.keys()]).toEqual([]);
    expect(done).toEqual(['a', 'b']);
    expect(timers.size).toBe(0);
    state.leads = true;
    pump.wake();
    expect([...answers.keys()]).toEqual(['c']);
  });

  it('ends when the last write has', async () => {
    const { pump, waiting, timers, answer } = setUp();
    waiting.push(entry('a'));
    pump.wake();
    let isClosed = false;
    const closed = pump.close().then(() => {
      isClosed = true;
    });
    await new Promise((settled) => setImmediate(settled));
    expect(isClosed).toBe(false);
    await answer('a', { is: 'written' });
    await closed;
    expect(timers.size).toBe(0);
  });
});
