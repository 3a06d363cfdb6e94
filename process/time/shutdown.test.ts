import { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { type ShutdownStep, shutdownOnSignal } from './shutdown.ts';

function start(options: { drainDelayMs?: number; steps?: ShutdownStep[] } = {}) {
  const events: string[] = [];
  const signals = new EventEmitter();
  const timers = new ManualTimers();
  const ended = shutdownOnSignal({
    signals,
    timers,
    drainDelayMs: () => options.drainDelayMs ?? 0,
    markUnhealthy: () => events.push('unhealthy'),
    steps: options.steps ?? [step('grpc', events), step('stats', events)],
    exit: (code) => events.push(`exit ${code}`),
    listener: {
      signaled: (signal, delayMs) => events.push(`${signal}, drains ${delayMs} ms`),
      stepFailed: (name, error) => events.push(`${name} failed: ${(error as Error).message}`),
      stepTookTooLong: (name, timeoutMs) => events.push(`${name} took more than ${timeoutMs} ms`),
      forced: (signal) => events.push(`forced by ${signal}`),
      finished: () => events.push('finished'),
    },
  });
  return { events, signals, timers, ended };
}

function step(name: string, events: string[]): ShutdownStep {
  return {
    name,
    timeoutMs: 1000,
    run: async () => {
      events.push(`${name} begins`);
      await Promise.resolve();
      events.push(`${name} ended`);
    },
  };
}

/** Lets everything run that does not need a timer. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

describe('shutdownOnSignal', () => {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
    it(`is unhealthy first, runs the steps in order and exits with 0 on ${signal}`, async () => {
      const events: string[] = [];
      const run = start({ steps: [step('grpc', events), step('stats', events)] });
      run.signals.emit(signal);
      await run.ended;
      expect(run.events).toEqual(['unhealthy', `${signal}, drains 0 ms`, 'finished', 'exit 0']);
      expect(events).toEqual(['grpc begins', 'grpc ended', 'stats begins', 'stats ended']);
      expect(run.timers.size).toBe(0);
    });
  }

  it('does nothing without a signal', async () => {
    const { events } = start();
    await settle();
    expect(events).toEqual([]);
  });

  it('waits for the drain delay before the first step', async () => {
    const steps: string[] = [];
    const run = start({ drainDelayMs: 5000, steps: [step('grpc', steps)] });
    run.signals.emit('SIGTERM');
    run.timers.advance(4999);
    await settle();
    expect(run.events).toEqual(['unhealthy', 'SIGTERM, drains 5000 ms']);
    expect(steps).toEqual([]);
    run.timers.advance(1);
    await run.ended;
    expect(steps).toEqual(['grpc begins', 'grpc ended']);
    expect(run.events.at(-1)).toBe('exit 0');
  });

  it('continues after a step that takes too long, and ignores its late failure', async () => {
    let fail: (error: Error) => void = () => {};
    const stuck: ShutdownStep = {
      name: 'redis',
      timeoutMs: 300,
      run: () => new Promise((_, reject) => (fail = reject)),
    };
    const run = start({ steps: [stuck, { name: 'stats', timeoutMs: 1, run: () => {} }] });
    run.signals.emit('SIGTERM');
    await settle();
    run.timers.advance(300);
    await run.ended;
    fail(new Error('late'));
    await settle();
    expect(run.events).toEqual([
      'unhealthy',
      'SIGTERM, drains 0 ms',
      'redis took more than 300 ms',
      'finished',
      'exit 0',
    ]);
  });

  it('continues after a step that fails, at once or later', async () => {
    const run = start({
      steps: [
        { name: 'a', timeoutMs: 1, run: () => Promise.reject(new Error('no')) },
        {
          name: 'b',
          timeoutMs: 1,
          run: () => {
            throw new Error('never');
          },
        },
      ],
    });
    run.signals.emit('SIGTERM');
    await run.ended;
    expect(run.events.slice(2)).toEqual(['a failed: no', 'b failed: never', 'finished', 'exit 0']);
  });

  it('exits with 1 at once on a second signal, and with that alone', async () => {
    const steps: string[] = [];
    const run = start({ drainDelayMs: 5000, steps: [step('grpc', steps)] });
    run.signals.emit('SIGTERM');
    run.timers.advance(500);
    run.signals.emit('SIGINT');
    run.signals.emit('SIGTERM');
    await run.ended;
    run.timers.advance(10_000);
    await settle();
    expect(run.events).toEqual(['unhealthy', 'SIGTERM, drains 5000 ms', 'forced by SIGINT', 'exit 1']);
    expect(steps).toEqual([]);
  });

  it('takes a signal that comes again at once for the same one', async () => {
    const steps: string[] = [];
    const run = start({ drainDelayMs: 5000, steps: [step('grpc', steps)] });
    run.signals.emit('SIGINT');
    run.timers.advance(499);
    run.signals.emit('SIGINT');
    run.timers.advance(4501);
    await run.ended;
    expect(run.events).toEqual(['unhealthy', 'SIGINT, drains 5000 ms', 'finished', 'exit 0']);
    expect(steps).toEqual(['grpc begins', 'grpc ended']);
  });
});
