import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { carryRate, newRequestRates, takeRequest } from './request-rates.ts';

describe('takeRequest', () => {
  it('lets a second’s worth through at once, then as many as a second brings', () => {
    const rates = newRequestRates([undefined, 3], 0);
    const taken = (nowMs: number): number => {
      let count = 0;
      while (takeRequest(rates, 1, 3, nowMs)) count++;
      return count;
    };
    expect([taken(0), taken(100), taken(334), taken(667), taken(1_000), taken(60_000)]).toEqual([
      3, 0, 1, 1, 1, 3,
    ]);
  });

  it('never admits more than burst and rate allow, whatever the times', () => {
    const steps = fc.array(fc.nat({ max: 3_000 }), { maxLength: 200 });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 50 }),
        fc.integer({ min: -5_000, max: 5_000 }),
        steps,
        (rate, shift, waits) => {
          // Around the place where the word of the time comes round.
          const beginMs = 2 ** 31 + shift;
          const rates = newRequestRates([rate], beginMs);
          let [nowMs, admitted] = [beginMs, 0];
          for (const waitMs of waits) {
            nowMs += waitMs;
            for (let tries = 0; tries < 60; tries++) if (takeRequest(rates, 0, rate, nowMs)) admitted++;
          }
          expect(admitted).toBeLessThanOrEqual(rate + Math.floor(((nowMs - beginMs) * rate) / 1000));
        },
      ),
    );
  });

  it('is full again after weeks without a request', () => {
    const rates = newRequestRates([2], 0);
    while (takeRequest(rates, 0, 2, 0));
    expect(takeRequest(rates, 0, 2, 30 * 86_400_000)).toBe(true);
  });

  it('takes no time back from a clock that is a little behind', () => {
    const rates = newRequestRates([1], 1_000);
    expect([
      takeRequest(rates, 0, 1, 1_000),
      takeRequest(rates, 0, 1, 990),
      takeRequest(rates, 0, 1, 1_999),
    ]).toEqual([true, false, false]);
    expect(takeRequest(rates, 0, 1, 2_000)).toBe(true);
  });

  it('is one bucket for all threads', async () => {
    const rates = newRequestRates([1_000], 0);
    const program = `
      const { workerData, parentPort } = require('node:worker_threads');
      import(workerData.module).then(({ takeRequest }) => {
        let admitted = 0;
        for (let tries = 0; tries < 20_000; tries++) if (takeRequest(workerData.rates, 0, 1_000, 0)) admitted++;
        parentPort.postMessage(admitted);
      });`;
    const module = new URL('./request-rates.ts', import.meta.url).href;
    const threads = Array.from(
      { length: 4 },
      () => new Worker(program, { eval: true, workerData: { rates, module } }),
    );
    const admitted = await Promise.all(
      threads.map((thread) => new Promise<number>((resolve) => thread.once('message', resolve))),
    );
    const sum = admitted.reduce((total, one) => total + one, 0);
    // Two that find the last one at once may both leave it.
    expect(sum).toBeLessThanOrEqual(1_000);
    while (takeRequest(rates, 0, 1_000, 0)) admitted[0]!++;
    expect(admitted.reduce((total, one) => total + one, 0)).toBe(1_000);
  });

  it('continues with what was left when the file changes', () => {
    const before = newRequestRates([5], 0);
    for (let taken = 0; taken < 4; taken++) takeRequest(before, 0, 5, 0);
    const after = newRequestRates([9, 3], 0);
    carryRate({ rates: before, index: 0 }, { rates: after, index: 1 });
    expect([takeRequest(after, 1, 3, 0), takeRequest(after, 1, 3, 0)]).toEqual([true, false]);
  });
});
