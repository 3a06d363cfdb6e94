import { expect } from 'vitest';
import { redisKilledCases } from './cases/redis-killed.ts';
import { faultSuite } from './fault-suite.ts';

/** Long enough for the code of both sides to be compiled before the fault. */
const pace = { perSecond: 400, calmMs: 2500, outageMs: 3000 };

faultSuite('a limiter whose breaker is open answers at once', redisKilledCases, {
  pace,
  check: ({ figures }) => expect(figures.openP99Ms).toBeLessThan(5),
});
