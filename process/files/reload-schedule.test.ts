import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ReloadSchedule } from './reload-schedule.ts';

const options = { quietMs: 50, maxDelayMs: 500 };

describe('ReloadSchedule', () => {
  it('is not due before anything changed', () => {
    expect(new ReloadSchedule(options).dueMs).toBeUndefined();
  });

  it('is due when changes have been quiet', () => {
    const schedule = new ReloadSchedule(options);
    schedule.changed(1000);
    expect(schedule.dueMs).toBe(1050);
    schedule.changed(1040);
    expect(schedule.dueMs).toBe(1090);
  });

  it('is due at the latest maxDelayMs after the first change of a burst', () => {
    const schedule = new ReloadSchedule(options);
    for (let nowMs = 1000; nowMs <= 1480; nowMs += 40) schedule.changed(nowMs);
    expect(schedule.dueMs).toBe(1500);
  });

  it('is not due while a load runs', () => {
    const schedule = new ReloadSchedule(options);
    schedule.started();
    schedule.changed(1000);
    expect(schedule.dueMs).toBeUndefined();
  });

  it('is due once more after changes during a load', () => {
    const schedule = new ReloadSchedule(options);
    schedule.started();
    schedule.changed(1000);
    schedule.changed(1010);
    schedule.ended();
    expect(schedule.dueMs).toBe(1060);
    schedule.started();
    schedule.ended();
    expect(schedule.dueMs).toBeUndefined();
  });

  it('is not due after a load without changes meanwhile', () => {
    const schedule = new ReloadSchedule(options);
    schedule.changed(1000);
    schedule.started();
    schedule.ended();
    expect(schedule.dueMs).toBeUndefined();
  });

  it('loses no change and starts no load without one', () => {
    const step = fc.record({ event: fc.constantFrom('changed', 'due', 'ended'), afterMs: fc.nat(200) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const schedule = new ReloadSchedule(options);
        let nowMs = 0;
        let isLoading = false;
        let unseen: number | undefined;
        for (const { event, afterMs } of steps) {
          nowMs += afterMs;
          if (event === 'changed') {
            schedule.changed(nowMs);
            unseen ??= nowMs;
          } else if (event === 'due' && schedule.dueMs !== undefined && schedule.dueMs <= nowMs) {
            schedule.started();
            isLoading = true;
            unseen = undefined;
          } else if (event === 'ended' && isLoading) {
            schedule.ended();
            isLoading = false;
          }
          expect(schedule.dueMs !== undefined).toBe(!isLoading && unseen !== undefined);
          if (schedule.dueMs !== undefined) {
            expect(schedule.dueMs).toBeLessThanOrEqual(unseen! + options.maxDelayMs);
          }
        }
      }),
    );
  });
});
