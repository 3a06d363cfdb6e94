import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { capabilities } from '../../rules/language/capabilities.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import type { LimiterReport, ReplicaReport } from '../model/fleet-snapshot.ts';
import { type ConfigMap, completeParts, gzipCodec, jsonOfParts, splitJson } from './own-objects.ts';
import { reportFormat } from './replica-reports.ts';

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

const { prefix, file } = reportFormat;
const progress = { id: 'run.1', decided: { 'ratelimitconfigs *': '7' } };

function encode(report: ReplicaReport, revision = 'r1', maxPartBytes?: number): Promise<ConfigMap[]> {
  const name = `${prefix}${report.replica}`;
  return splitJson({
    ...{ name, file, revision, maxPartBytes, codec: gzipCodec },
    json: reportFormat.write({ report, progress }),
  });
}

async function decode(maps: readonly ConfigMap[]): Promise<ReplicaReport> {
  const read = reportFormat.read(await jsonOfParts(maps, file, gzipCodec), 'plane-a');
  expect(read.progress).toEqual(progress);
  return read.report;
}

describe('a report in ConfigMaps', () => {
  it('comes back as it was', async () => {
    const sizes = fc.oneof(
      fc.array(anyLimiter, { maxLength: 3 }),
      fc.array(anyLimiter, { minLength: 60, maxLength: 90 }),
    );
    await fc.assert(
      fc.asyncProperty(sizes, fc.integer({ min: 200, max: 5_000 }), async (limiters, maxPartBytes) => {
        const report = { replica: 'plane-a', limiters };
        const maps = await encode(report, 'r1', maxPartBytes);
        expect(completeParts(maps.toReversed())).toEqual(maps);
        expect(completeParts(maps.slice(0, -1))).toEqual(maps.length === 1 ? [] : undefined);
        expect(await decode(maps)).toEqual(report);
      }),
      { numRuns: caseCount(25) },
    );
  });

  it('is readable while it is small', async () => {
    const report = { replica: 'plane-a', limiters: [limiter] };
    expect(await encode(report)).toEqual([
      {
        name: 'weir-limiters-plane-a',
        data: {
          revision: 'r1',
          part: '1/1',
          'report.json': JSON.stringify({ replica: 'plane-a', ...progress, limiters: [limiter] }),
        },
        binaryData: {},
      },
    ]);
  });

  it('is compressed when it is large, and cut if it does not fit', async () => {
    const maps = await encode({ replica: 'plane-a', limiters: many }, 'r1', 1_000);
    expect(maps.length).toBeGreaterThan(1);
    expect(maps[1]?.name).toBe('weir-limiters-plane-a.2');
    expect(maps[1]?.data).toEqual({ revision: 'r1', part: `2/${maps.length}` });
    for (const { binaryData } of maps) {
      expect(Buffer.from(binaryData['report.json.gz'] ?? '', 'base64').length).toBeLessThanOrEqual(1_000);
    }
  });

  it('has once what all limiters of a fleet reject', async () => {
    const resources = Array.from({ length: 1_000 }, (_, n) => ({ name: `team/${n}`, message: `bad ${n}` }));
    const refusal = { version: 'v', message: 'bad', resources };
    const limiters = many.map((one) => ({ ...one, refusal }));
    const { limiters: read } = await decode(await encode({ replica: 'plane-a', limiters }));
    expect(read).toEqual(limiters);
    expect(new Set(read.map((one) => one.refusal?.resources)).size).toBe(1);
  });

  it('is rejected when it is damaged', () => {
    expect(() => reportFormat.read({ limiters: [{}] }, 'a')).toThrow(/expected string/);
  });

  it('passes over what another version of the program added', () => {
    const json = JSON.parse(
      JSON.stringify({ limiters: [{ ...limiter, colour: 'red' }], region: 'north' }),
    ) as unknown;
    expect(reportFormat.read(json, 'a')).toEqual({
      report: { replica: 'a', limiters: [limiter] },
      // Of a version that does not report it.
      progress: { id: '', decided: {} },
    });
  });
});
