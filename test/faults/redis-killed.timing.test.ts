import { compareTimes } from '../support/second-tries.ts';
import { leaseCases, redisKilledCases } from './cases/redis-killed.ts';
import { faultSuite } from './fault-suite.ts';

/** Long enough for the code of both sides to be compiled before the fault. */
const pace = { perSecond: 300, quietMs: 1000, outageMs: 1500 };

faultSuite('a limiter whose breaker is open answers at once', redisKilledCases, {
  pace,
  // Some 4 ms on a quiet machine, 50 ms on a busy one. What waits for the store takes 700 ms, and longer.
  check: ({ figures: { openP99Ms, quietP99Ms } }, expect) => {
    expect(openP99Ms).toBeDefined();
    compareTimes(() => expect(openP99Ms).toBeLessThan(Math.max(350, quietP99Ms ?? 0)));
  },
});

faultSuite('a limiter that leases', leaseCases);
