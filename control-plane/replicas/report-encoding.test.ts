import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { capabilities } from '../../rules/language/capabilities.ts';
import { recordedTelemetry, reportTo } from '../../test/support/control-plane-telemetry.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import type { LimiterReport } from '../model/fleet-snapshot.ts';
import { lines } from '../telemetry/log-lines.ts';
import { gzipCodec, readPart, type StoredConfigMap, StoredValues } from './config-maps.ts';
import { boundedReport, decodeReport, encodeReport, reportFormat, reportName } from './replica-reports.ts';
import { findValues } from './shared-values.ts';

const limiter: LimiterReport = {
  id: 'plane-a/1',
  instance: undefined,
  name: 'limiter-0',
  fleet: 'default',
  isWeir: true,
  countsCompatibly: true,
  capabilities: [],
  connectedMs: 5,
  acceptedVersion: undefined,
  refusal: undefined,
};

const optionalText = fc.option(fc.string(), { nil: undefined });
const optionalReason = fc.constantFrom('REDIS_SCRIPTS=never keeps none', undefined);
const anyLimiter: fc.Arbitrary<LimiterReport> = fc.record({
  id: fc.string(),
  instance: optionalText,
  name: fc.string({ unit: 'grapheme' }),
  fleet: fc.string(),
  isWeir: fc.boolean(),
  podUid: optionalText,
  address: optionalText,
  countsCompatibly: fc.boolean(),
  ruleSupport: fc.option(
    fc.record({
      ...{ admission: optionalReason, groups: optionalReason, reservations: optionalReason },
      calendarMonths: fc.boolean(),
    }),
    { nil: undefined },
  ),
  capabilities: fc.subarray([...capabilities]),
  connectedMs: fc.nat(),
  acceptedVersion: optionalText,
  sentVersion: optionalText,
  refusal: fc.option(
    fc.record(
      {
        version: fc.string(),
        message: fc.string(),
        resources: fc.array(fc.record({ name: fc.string(), message: fc.string() }), { maxLength: 3 }),
      },
      { requiredKeys: ['version', 'message'] },
    ),
    { nil: undefined },
  ),
});

const many = Array.from({ length: 500 }, (_, index) => ({ ...limiter, id: `plane-a/${index}` }));

const format = reportFormat({ codec: gzipCodec });

describe('a report in ConfigMaps', () => {
  it('of a replica that knows nothing of counter keys has limiters that count as the Go service does', async () => {
    const [map] = await encodeReport(
      { replica: 'plane-a', limiters: [limiter] },
      { revision: 'r', codec: gzipCodec },
    );
    const json = map!.data['report.json']!.replace(',"countsCompatibly":true', '');
    expect(json).not.toContain('countsCompatibly');
    const older = { ...map!, data: { ...map!.data, 'report.json': json } };
    expect(await decodeReport([older], gzipCodec)).toEqual({
      replica: 'plane-a',
      limiters: [limiter],
    });
  });

  it('comes back as it was', async () => {
    const sizes = fc.oneof(
      fc.array(anyLimiter, { maxLength: 3 }),
      fc.array(anyLimiter, { minLength: 60, maxLength: 90 }),
    );
    await fc.assert(
      fc.asyncProperty(sizes, fc.integer({ min: 200, max: 5_000 }), async (limiters, maxPartBytes) => {
        const report = { replica: 'plane-a', limiters };
        const maps = await encodeReport(report, { revision: 'r1', maxPartBytes, codec: gzipCodec });
        const parts = maps.map((map) => readPart(map)!);
        expect(parts.map(({ part }) => part)).toEqual(parts.map((_, index) => index + 1));
        expect(new Set(parts.map(({ parts: total }) => total))).toEqual(new Set([parts.length]));
        expect(await decodeReport(maps, gzipCodec)).toEqual(report);
      }),
      { numRuns: caseCount(25) },
    );
  });

  it('is readable while it is small', async () => {
    const report = { replica: 'plane-a', limiters: [limiter] };
    expect(await encodeReport(report, { revision: 'r1', codec: gzipCodec })).toEqual([
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
      { revision: 'r1', maxPartBytes: 1_000, codec: gzipCodec },
    );
    expect(maps.length).toBeGreaterThan(1);
    expect(maps[1]?.name).toBe('weir-limiters-plane-a.2');
    expect(maps[1]?.name).toBe(reportName('plane-a', 2));
    expect(maps[1]?.data).toEqual({ replica: 'plane-a', revision: 'r1', part: `2/${maps.length}` });
    for (const { binaryData } of maps) {
      expect(Buffer.from(binaryData['report.json.gz'] ?? '', 'base64').length).toBeLessThanOrEqual(1_000);
    }
  });

  it('has once what all limiters of a fleet refuse', async () => {
    const resources = Array.from({ length: 1_000 }, (_, n) => ({ name: `team/${n}`, message: `bad ${n}` }));
    const refusal = { version: 'v', message: 'bad', resources };
    const limiters = many.map((one) => ({ ...one, refusal }));
    const maps = await encodeReport({ replica: 'plane-a', limiters }, { revision: 'r1', codec: gzipCodec });
    const { limiters: read } = await decodeReport(maps, gzipCodec);
    expect(read).toEqual(limiters);
    expect(new Set(read.map((one) => one.refusal?.resources)).size).toBe(1);
  });

  it('still has what a replica of before says that is refused', async () => {
    const refusal = { version: 'v', message: 'bad', resources: [{ name: 'a', message: 'x' }] };
    const report = { replica: 'plane-a', limiters: [{ ...limiter, refusal }] };
    const [map] = await encodeReport(
      { replica: 'plane-a', limiters: [] },
      { revision: 'r', codec: gzipCodec },
    );
    const before = { ...map!, data: { ...map!.data, 'report.json': JSON.stringify(report) } };
    expect(await decodeReport([before], gzipCodec)).toEqual(report);
  });

  it('is refused when it is damaged', async () => {
    const map = {
      name: 'x',
      data: { replica: 'a', revision: 'r', part: '1/1', 'report.json': '{"limiters":[{}]}' },
    };
    await expect(decodeReport([{ ...map, binaryData: {} }], gzipCodec)).rejects.toThrow(/expected string/);
  });

  it('passes over what another version of the program added', async () => {
    const json = JSON.stringify({ limiters: [{ ...limiter, colour: 'red' }], region: 'north' });
    const data = { replica: 'a', revision: 'r', part: '1/1', 'report.json': json };
    expect(await decodeReport([{ name: 'x', data, binaryData: {} }], gzipCodec)).toEqual({
      replica: 'a',
      limiters: [limiter],
    });
  });

  it.each([
    {},
    { replica: 'a', revision: 'r' },
    { replica: 'a', revision: 'r', part: '0/1' },
    { part: '1/1' },
  ])('is not in a ConfigMap of %j', (data) => {
    expect(format.keyOf({ name: 'x', data, binaryData: {} })).toBeUndefined();
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

function reportOf(replica: string, count: number) {
  const limiters = Array.from({ length: count }, (_, index) => ({
    id: `${replica}/${index}`,
    instance: undefined,
    name: `pod-${index}`,
    fleet: 'default',
    isWeir: true,
    countsCompatibly: true,
    capabilities: [],
    connectedMs: 1,
    acceptedVersion: undefined,
    refusal: undefined,
  }));
  return { replica, limiters };
}

/** In parts, if it holds many limiters. */
async function mapsOf(replica: string, count: number, revision: string): Promise<StoredConfigMap[]> {
  const maps = await encodeReport(reportOf(replica, count), {
    revision,
    maxPartBytes: 200,
    codec: gzipCodec,
  });
  return maps.map((map) => ({ ...map, resourceVersion: revision }));
}

function collection() {
  const reported: string[] = [];
  const { log } = recordedTelemetry(reportTo(reported));
  const find = findValues(format, (name, reason) => lines.reportSkipped(log, { name, reason }));
  const reports = new StoredValues(find, (hasChanged) => {
    if (hasChanged) reported.push('changed');
  });
  const limitersOf = (wanted: string) => reports.values.get(wanted)?.report.limiters;
  return { reports, reported, limitersOf };
}

describe('a collection of reports', () => {
  it('holds one report for each replica', async () => {
    const { reports, reported } = collection();
    await reports.update([...(await mapsOf('a', 1, 'r1')), ...(await mapsOf('b', 200, 'r1'))]);
    expect([...reports.values.values()].map(({ report }) => report)).toEqual([
      reportOf('a', 1),
      reportOf('b', 200),
    ]);
    expect(reported).toEqual(['changed']);
  });

  it('keeps the report before until all parts of the next one are there', async () => {
    const { reports, reported, limitersOf } = collection();
    const before = await mapsOf('a', 200, 'r1');
    const next = await mapsOf('a', 300, 'r2');
    expect(before.length).toBeGreaterThan(2);
    await reports.update(before);
    await reports.update([...next.slice(0, 1), ...before.slice(1)]);
    expect(limitersOf('a')).toHaveLength(200);
    await reports.update(next);
    expect(limitersOf('a')).toHaveLength(300);
    expect(reported).toEqual(['changed', 'changed']);
  });

  it('passes over parts that a longer report left', async () => {
    const { reports, limitersOf } = collection();
    const long = await mapsOf('a', 200, 'r1');
    await reports.update([...(await mapsOf('a', 1, 'r2')), ...long.slice(1)]);
    expect(limitersOf('a')).toHaveLength(1);
  });

  it('says nothing when nothing changed', async () => {
    const { reports, reported } = collection();
    const maps = await mapsOf('a', 1, 'r1');
    await reports.update(maps);
    await reports.update(maps);
    expect(reported).toEqual(['changed']);
  });

  it('forgets a report that is gone', async () => {
    const { reports, reported } = collection();
    await reports.update(await mapsOf('a', 1, 'r1'));
    await reports.update([]);
    expect([...reports.values]).toEqual([]);
    expect(reported).toEqual(['changed', 'changed']);
  });

  it('keeps the readable report before a damaged one, and reports it once', async () => {
    const { reports, reported, limitersOf } = collection();
    await reports.update(await mapsOf('a', 1, 'r1'));
    const damaged = {
      name: 'weir-limiters-a',
      resourceVersion: 'r2',
      binaryData: {},
      data: { replica: 'a', revision: 'r2', part: '1/1', 'report.json': '{' },
    };
    await reports.update([damaged]);
    await reports.update([damaged]);
    expect(limitersOf('a')).toHaveLength(1);
    expect(reported).toEqual([
      'changed',
      expect.stringMatching(/^Cannot read a report of another replica: weir-limiters-a: /),
    ]);
  });

  it('ends with the newest of what comes while it reads', async () => {
    const { reports, limitersOf } = collection();
    const versions = await Promise.all(
      ['r1', 'r2', 'r3'].map((revision, index) => mapsOf('a', index + 1, revision)),
    );
    await Promise.all(versions.map((maps) => reports.update(maps)));
    expect(limitersOf('a')).toHaveLength(3);
  });
});
