/** The short form of `npm run quota`. */
import { expect, it } from 'vitest';
import { longTestDefects, withDefect } from '../mutants/long-test-defects.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { envoyProgram, redisProgram } from '../support/find-server.ts';
import { compareTimes } from '../support/second-tries.ts';
import { runQuota } from './quota-run.ts';

describeWithServer('three Envoys and two limiters', envoyProgram, (envoy) => {
  describeWithServer('on one Redis', redisProgram, (redis) => {
    // Reports come every 5 s: in a shorter window nobody would be sent anything else.
    const run = { limit: 300, windowSeconds: 5, demand: 1.5, windows: 2, isPoisson: true, seed: 1 } as const;

    it('never exceed a limit that they share, while one limiter is killed', async () => {
      const skew = [0.6, 0.25, 0.15];
      const figures = await runQuota({ ...run, skew, fault: 'limiter killed' }, { envoy, redis });
      expect(figures.limitersEnded).toBe(1);
      expect(figures.over).toBe(0);
      // Half of the last window is without the limiter of two Envoys.
      expect(figures.used).toBeGreaterThan(0.2);
      // Each Envoy has its first assignment at once, though one of them has the limit for itself for a moment.
      compareTimes(() => expect(figures.firstMs).toBeLessThan(10_000));
    });

    it('exceed it with a known defect, which is found', async () => {
      const skew = [0.6, 0.4];
      const figures = await withDefect(longTestDefects.quota, () =>
        runQuota({ ...run, skew }, { envoy, redis }),
      );
      expect(figures.over).toBeGreaterThan(0);
    });
  });
});
