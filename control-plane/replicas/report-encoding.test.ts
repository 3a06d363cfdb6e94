import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../test/support/property-cases.ts';
import type { LimiterReport } from '../model/fleet-snapshot.ts';
import {
  boundedReport,
  decodeReport,
  encodeReport,
  type ReportPart,
  readReportPart,
  reportName,
} from './report-collection.ts';

const limiter: LimiterReport = {
  id: 'plane-a/1',
  instance: undefined,
  name: 'limiter-0',
  fleet: 'default',
  isWeir: true,
  countsCompatibly: true,
  connectedMs: 5,
  acceptedVersion: undefined,
  refusal: undefined,
};

const optionalText = fc.option(fc.string(), { nil: undefined });
const anyLimiter: fc.Arbitrary<LimiterReport> = fc.record({
  id: fc.string(),
  instance: optionalText,
  name: fc.string({ unit: 'grapheme' }),
  fleet: fc.string(),
  isWeir: fc.boolean(),
  countsCompatibly: fc.boolean(),
  connectedMs: fc.nat(),
  acceptedVersion: optionalText,
  refusal: fc.option(fc.record({ version: fc.string(), message: fc.string() }), { nil: undefined }),
});

const many = Array.from({ length: 500 }, (_, index) => ({ ...limiter, id: `plane-a/${index}` }));

function partsOf(maps: Awaited<ReturnType<typeof encodeReport>>): ReportPart[] {
  return maps.map((map) => readReportPart(map) as ReportPart);
}

describe('a report in ConfigMaps', () => {
  it('of a replica that knows nothing of counter keys has limiters that count as the Go service does', async () => {
    const [map] = await encodeReport({ replica: 'plane-a', limiters: [limiter] }, { revision: 'r' });
    const json = map!.data['report.json']!.replace(',"countsCompatibly":true', '');
    expect(json).not.toContain('countsCompatibly');
    const older = { ...map!, data: { ...map!.data, 'report.json': json } };
    expect(await decodeReport(partsOf([older]))).toEqual({ replica: 'plane-a', limiters: [limiter] });
  });

  it('comes back as it was', async () => {
    const sizes = fc.oneof(
      fc.array(anyLimiter, { maxLength: 3 }),
      fc.array(anyLimiter, { minLength: 60, maxLength: 90 }),
    );
    await fc.assert(
      fc.asyncProperty(sizes, fc.integer({ min: 200, max: 5_000 }), async (limiters, maxPartBytes) => {
        const report = { replica: 'plane-a', limiters };
        const parts = partsOf(await encodeReport(report, { revision: 'r1', maxPartBytes }));
        expect(parts.map(({ part }) => part)).toEqual(parts.map((_, index) => index + 1));
        expect(new Set(parts.map(({ parts: total }) => total))).toEqual(new Set([parts.length]));
        expect(await decodeReport(parts)).toEqual(report);
      }),
      { numRuns: caseCount(50) },
    );
  });

  it('is readable while it is small', async () => {
    const report = { replica: 'plane-a', limiters: [limiter] };
    expect(await encodeReport(report, { revision: 'r1' })).toEqual([
      {
        name: 'weir-limiters-plane-a',
        data: { replica: 'plane-a', revision: 'r1', part: '1/1', 'report.json': JSON.stringify(report) },
        binaryData: {},
      },
    ]);
  });

  it('is compressed when it is large, and cut where it does not fit', async () => {
    const maps = await encodeReport(
      { replica: 'plane-a', limiters: many },
      { revision: 'r1', maxPartBytes: 1_000 },
    );
    expect(maps.length).toBeGreaterThan(1);
    expect(maps[1]?.name).toBe('weir-limiters-plane-a.2');
    expect(maps[1]?.name).toBe(reportName('plane-a', 2));
    expect(maps[1]?.data).toEqual({ replica: 'plane-a', revision: 'r1', part: `2/${maps.length}` });
    for (const { binaryData } of maps) {
      expect(Buffer.from(binaryData['report.json.gz'] ?? '', 'base64').length).toBeLessThanOrEqual(1_000);
    }
  });

  it('is refused when it is damaged', async () => {
    const map = {
      name: 'x',
      data: { replica: 'a', revision: 'r', part: '1/1', 'report.json': '{"limiters":[{}]}' },
    };
    await expect(decodeReport(partsOf([{ ...map, binaryData: {} }]))).rejects.toThrow(/expected string/);
  });

  it('passes over what another version of the program added', async () => {
    const json = JSON.stringify({ limiters: [{ ...limiter, colour: 'red' }], region: 'north' });
    const data = { replica: 'a', revision: 'r', part: '1/1', 'report.json': json };
    const parts = partsOf([{ name: 'x', data, binaryData: {} }]);
    expect(await decodeReport(parts)).toEqual({ replica: 'a', limiters: [limiter] });
  });

  it.each([
    {},
    { replica: 'a', revision: 'r' },
    { replica: 'a', revision: 'r', part: '0/1' },
    { part: '1/1' },
  ])('is not in a ConfigMap of %j', (data) => {
    expect(readReportPart({ name: 'x', data, binaryData: {} })).toBeUndefined();
  });
});

describe('boundedReport', () => {
  it('cuts long names and messages, and leaves the rest as it is', () => {
    const long = { ...limiter, name: 'n'.repeat(300), refusal: { version: 'v', message: 'm'.repeat(2_000) } };
    const { limiters } = boundedReport({ replica: 'a', limiters: [limiter, long] });
    expect(limiters[0]).toBe(limiter);
    expect(limiters[1]?.name).toBe(`${'n'.repeat(250)}...`);
    expect(limiters[1]?.refusal).toEqual({ version: 'v', message: `${'m'.repeat(1_021)}...` });
  });
});
