import { describe, expect, it } from 'vitest';
import { ManualTimers } from '../../../../test/support/manual-timers.ts';
import { NodeBreaker } from './cluster-nodes.ts';

class Answered extends Error {}

function setUp() {
  const timers = new ManualTimers();
  const changes: boolean[] = [];
  const probes: PromiseWithResolvers<void>[] = [];
  const breaker = new NodeBreaker({
    timers,
    random: () => 0,
    silenceMs: 800,
    probeIntervalMs: 250,
    probe: () => {
      const probe = Promise.withResolvers<void>();
      probes.push(probe);
      return probe.promise;
    },
    unanswered: () => new Error('unanswered'),
    unsent: () => new Error('unsent'),
    isAnswer: (error) => error instanceof Answered,
    onChange: (open) => changes.push(open),
  });
  const sent: PromiseWithResolvers<string>[] = [];
  /** One call. `outcome` is its outcome so far. */
  const call = () => {
    const made = { outcome: 'waits' };
    const send = () => {
      const answer = Promise.withResolvers<string>();
      sent.push(answer);
      return answer.promise;
    };
    breaker.call(send).then(
      (value) => {
        made.outcome = value;
      },
      (error: Error) => {
        made.outcome = error.message;
      },
    );
    return made;
  };
  return { timers, changes, probes, breaker, sent, call };
}

/** Runs the continuations of settled promises. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

async function opened() {
  const parts = setUp();
  const waiting = parts.call();
  parts.timers.advance(700);
  await turn();
  return { ...parts, waiting };
}

describe('NodeBreaker', () => {
  it('hands answers and errors on, and sets no timer while nothing waits', async () => {
    const { timers, sent, call, breaker } = setUp();
    const [first, second] = [call(), call()];
    sent[0]?.resolve('one');
    sent[1]?.reject(new Error('two'));
    await turn();
    expect([first.outcome, second.outcome, breaker.open]).toEqual(['one', 'two', false]);
    timers.advance(100);
    expect(timers.size).toBe(0);
  });

  it('rejects callers that wait after seven eighths of the silence, and all others at once, unsent', async () => {
    const { timers, sent, call, changes } = setUp();
    const waiting = call();
    timers.advance(699);
    await turn();
    expect([waiting.outcome, changes]).toEqual(['waits', []]);
    timers.advance(1);
    const later = call();
    await turn();
    expect([waiting.outcome, later.outcome, sent.length]).toEqual(['unanswered', 'unsent', 1]);
    expect(changes).toEqual([true]);
  });

  it.each([
    ['an answer', (answer: PromiseWithResolvers<string>) => answer.resolve('one'), false],
    ['a refusal', (answer: PromiseWithResolvers<string>) => answer.reject(new Answered('no')), false],
    ['a broken call', (answer: PromiseWithResolvers<string>) => answer.reject(new Error('lost')), true],
  ])('restarts the silence: %s', async (_, settle, opens) => {
    const { timers, sent, call, breaker } = setUp();
    call();
    call();
    timers.advance(650);
    settle(sent[0] as PromiseWithResolvers<string>);
    await turn();
    timers.advance(650);
    expect(breaker.open).toBe(opens);
  });

  it('reports no answer that arrives after the wait has ended', async () => {
    const { sent, waiting, breaker } = await opened();
    sent[0]?.resolve('late');
    await turn();
    expect([waiting.outcome, breaker.open]).toEqual(['unanswered', true]);
  });

  it('probes until one is answered, and lets everybody through then', async () => {
    const { timers, probes, changes, call, sent } = await opened();
    timers.advance(250);
    expect(probes).toHaveLength(1);
    timers.advance(1000);
    expect(probes).toHaveLength(1);
    probes[0]?.reject(new Error('no'));
    await turn();
    expect(call().outcome).toBe('waits');
    await turn();
    expect(sent).toHaveLength(1);
    timers.advance(250);
    probes[1]?.resolve();
    await turn();
    expect(changes).toEqual([true, false]);
    Array.from({ length: 100 }, call);
    expect(sent).toHaveLength(101);
  });

  it('opens again when the silence continues behind an answered probe', async () => {
    const { timers, probes, changes, call } = await opened();
    timers.advance(250);
    probes[0]?.resolve();
    await turn();
    const waiting = call();
    timers.advance(700);
    await turn();
    expect([waiting.outcome, changes]).toEqual(['unanswered', [true, false, true]]);
  });

  it('leaves no timer behind when it is closed, open or not', async () => {
    const waits = setUp();
    waits.call();
    waits.breaker.close();
    const isOpen = await opened();
    isOpen.breaker.close();
    const probing = await opened();
    probing.timers.advance(250);
    probing.breaker.close();
    probing.probes[0]?.reject(new Error('closed'));
    await turn();
    expect([waits, isOpen, probing].map(({ timers }) => timers.size)).toEqual([0, 0, 0]);
  });
});
