import { describe, expect, it } from 'vitest';
import type { ConfigMap } from './config-map-api.ts';
import { encodeReport, ReportCollection } from './report-collection.ts';

function reportOf(replica: string, count: number) {
  const limiters = Array.from({ length: count }, (_, index) => ({
    id: `${replica}/${index}`,
    instance: undefined,
    name: `pod-${index}`,
    fleet: 'default',
    isWeir: true,
    countsCompatibly: true,
    connectedMs: 1,
    acceptedVersion: undefined,
    refusal: undefined,
  }));
  return { replica, limiters };
}

/** In parts, if it holds many limiters. */
function mapsOf(replica: string, count: number, revision: string): Promise<ConfigMap[]> {
  return encodeReport(reportOf(replica, count), { revision, maxPartBytes: 200 });
}

function collection() {
  const told: string[] = [];
  const reports = new ReportCollection({
    changed: () => told.push('changed'),
    damaged: (replica) => told.push(`damaged ${replica}`),
  });
  return { reports, told };
}

describe('a collection of reports', () => {
  it('holds one report for each replica', async () => {
    const { reports, told } = collection();
    await reports.update([...(await mapsOf('a', 1, 'r1')), ...(await mapsOf('b', 200, 'r1'))]);
    expect([...reports.reports.values()]).toEqual([reportOf('a', 1), reportOf('b', 200)]);
    expect(told).toEqual(['changed']);
  });

  it('keeps the report before until all parts of the next one are there', async () => {
    const { reports, told } = collection();
    const before = await mapsOf('a', 200, 'r1');
    const next = await mapsOf('a', 300, 'r2');
    expect(before.length).toBeGreaterThan(2);
    await reports.update(before);
    await reports.update([...next.slice(0, 1), ...before.slice(1)]);
    expect(reports.reports.get('a')?.limiters).toHaveLength(200);
    await reports.update(next);
    expect(reports.reports.get('a')?.limiters).toHaveLength(300);
    expect(told).toEqual(['changed', 'changed']);
  });

  it('passes over parts that a longer report left', async () => {
    const { reports } = collection();
    const long = await mapsOf('a', 200, 'r1');
    await reports.update([...(await mapsOf('a', 1, 'r2')), ...long.slice(1)]);
    expect(reports.reports.get('a')?.limiters).toHaveLength(1);
  });

  it('tells nothing when nothing changed', async () => {
    const { reports, told } = collection();
    const maps = await mapsOf('a', 1, 'r1');
    await reports.update(maps);
    await reports.update(maps);
    expect(told).toEqual(['changed']);
  });

  it('forgets a report that is gone', async () => {
    const { reports, told } = collection();
    await reports.update(await mapsOf('a', 1, 'r1'));
    await reports.update([]);
    expect(reports.reports.size).toBe(0);
    expect(told).toEqual(['changed', 'changed']);
  });

  it('keeps the readable report before a damaged one, and tells of it once', async () => {
    const { reports, told } = collection();
    await reports.update(await mapsOf('a', 1, 'r1'));
    const damaged = {
      name: 'a',
      binaryData: {},
      data: { replica: 'a', revision: 'r2', part: '1/1', 'report.json': '{' },
    };
    await reports.update([damaged]);
    await reports.update([damaged]);
    expect(reports.reports.get('a')?.limiters).toHaveLength(1);
    expect(told).toEqual(['changed', 'damaged a']);
  });

  it('ends with the newest of what comes while it reads', async () => {
    const { reports } = collection();
    const versions = await Promise.all(
      ['r1', 'r2', 'r3'].map((revision, index) => mapsOf('a', index + 1, revision)),
    );
    await Promise.all(versions.map((maps) => reports.update(maps)));
    expect(reports.reports.get('a')?.limiters).toHaveLength(3);
  });
});
