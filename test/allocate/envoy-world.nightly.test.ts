/** 10,000 Envoys over four limiters whose clocks are 5 s apart, in disorder. */
import { expect, it } from 'vitest';
import { seededRandom } from '../../bench/zipf.ts';
import { propertySeed } from '../support/property-cases.ts';
import { disorder, equalRates, expectWithinLimit, World } from './envoy-world.ts';

it.each(['exact', 'refilling'] as const)(
  '10,000 clients in the %s form stay within the limit',
  { timeout: 900_000 },
  (form) => {
    const requests = 600_000;
    const windowSeconds = form === 'exact' ? 60 : 20;
    const rates = equalRates(10_000, (requests * 1.5) / windowSeconds);
    const random = seededRandom(propertySeed);
    const breaks = 0.001;
    const world = new World({
      ...disorder,
      breaks,
      limiters: 4,
      random,
      form,
      requests,
      windowSeconds,
      rates,
    });
    world.run(400);
    expectWithinLimit(world, requests);
    expect(world.overReported).toBe(0);
  },
);
