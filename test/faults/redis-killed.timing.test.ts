import { machineSlowness } from '../support/machine-slowness.ts';
import { leaseCases, redisKilledCases } from './cases/redis-killed.ts';
import { faultSuite } from './fault-suite.ts';

/** Long enough for the code of both sides to be compiled before the fault. */
const pace = { perSecond: 400, calmMs: 1500, outageMs: 1500 };

faultSuite('a limiter whose breaker is open answers at once', redisKilledCases, {
  pace,
  // Or as fast as a machine can that takes longer for every answer.
  check: ({ figures: { openP99Ms, calmP99Ms } }, expect) =>
    expect(openP99Ms).toBeLessThan(Math.max(5 * machineSlowness(), calmP99Ms!)),
});

faultSuite('a limiter that leases', leaseCases);
