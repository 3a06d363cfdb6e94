import { describe, type ExpectStatic, it } from 'vitest';
import { findServer } from '../support/find-server.ts';
import { compareTimes } from '../support/second-tries.ts';
import type { FaultBounds, FaultCase } from './fault-case.ts';
import { breaches, type FaultFigures } from './fault-figures.ts';
import { type FaultPace, type FaultReport, runFaultCase } from './fault-run.ts';

/** A shorter time than `npm run faults` takes. */
export const testPace: FaultPace = { perSecond: 300, quietMs: 500, outageMs: 1200 };

/** Code that is compiled late and caches that fill; a leak of what waits would be more. */
export const maxHeapGrowthBytes = 4 * 1024 * 1024;

/** What a request may leave where a busy machine makes the load last longer: leases of its counter, for example. */
const maxHeapGrowthByRequest = 2 * 1024;

/** One test for each case, several at a time, as they mostly wait: its bounds hold, the program had no fault of its own, its memory is back where it was. */
export function faultSuite(
  name: string,
  cases: readonly FaultCase[],
  {
    pace = testPace,
    check = () => {},
  }: { pace?: FaultPace; check?: (report: FaultReport, expect: ExpectStatic) => void } = {},
): void {
  describe(name, () => {
    for (const faultCase of cases.filter(({ guardedBy }) => guardedBy === undefined)) {
      const missing = missingServer(faultCase);
      const isOptional = process.env['CI'] !== 'true';
      const title = missing === undefined ? faultCase.name : `${faultCase.name} (${missing})`;
      const isSkipped = missing !== undefined && isOptional;
      it.skipIf(isSkipped)(title, { timeout: 90_000, concurrent: true }, async ({ expect }) => {
        const report = await runFaultCase(faultCase, pace);
        const reported = JSON.stringify({ ...report, messages: [...report.messages] });
        expect(breaches(report.figures, inAnyTime(faultCase.bounds, report.figures)), reported).toEqual([]);
        expect(report.internalFaults).toEqual([]);
        const mayGrow = Math.max(maxHeapGrowthBytes, report.figures.sent * maxHeapGrowthByRequest);
        expect(report.heapGrowthBytes, reported).toBeLessThan(mayGrow);
        compareTimes(() => expect(breaches(report.figures, faultCase.bounds), reported).toEqual([]));
        check(report, expect);
      });
    }
  });
}

/** The bounds without those of times: a breaker that opens though it should not found an answer too late, and then requests fail. */
function inAnyTime(bounds: FaultBounds, { opened }: FaultFigures): FaultBounds {
  const { POSITIVE_INFINITY: any } = Number;
  const hasOpened = opened > (bounds.opened ?? any);
  return { ...bounds, slowestMs: any, opened: any, ...(hasOpened && { errors: any }) };
}

function missingServer({ needs }: FaultCase): string | undefined {
  for (const program of needs) {
    const found = findServer(program);
    if ('missing' in found) return found.missing;
  }
  return undefined;
}
