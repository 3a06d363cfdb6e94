import type { Profiler } from 'node:inspector';
import { gunzipSync } from 'node:zlib';
import { Profile } from 'pprof-format';
import { describe, expect, it } from 'vitest';
import { cpuProfileToPprof } from './cpu-profile.ts';

const frame = (functionName: string, lineNumber: number, url = 'file:///app/limiter/a.ts') => ({
  functionName,
  scriptId: '1',
  url,
  lineNumber,
  columnNumber: 0,
});

/** (root) > main > work, and (root) > (idle), sampled: work, work, main, idle, work. */
const recorded: Profiler.Profile = {
  startTime: 1_000,
  endTime: 7_000,
  nodes: [
    { id: 1, callFrame: frame('(root)', -1, ''), hitCount: 0, children: [2, 4] },
    {
      id: 2,
      callFrame: frame('main', 9),
      hitCount: 1,
      children: [3],
      positionTicks: [{ line: 12, ticks: 1 }],
    },
    {
      id: 3,
      callFrame: frame('', 19),
      hitCount: 3,
      positionTicks: [
        { line: 21, ticks: 2 },
        { line: 23, ticks: 1 },
      ],
    },
    { id: 4, callFrame: frame('(idle)', -1, ''), hitCount: 1 },
  ],
  samples: [3, 3, 2, 4, 3],
  timeDeltas: [500, 1_000, 1_000, 2_000, 500],
};

async function decoded(profile: Profiler.Profile): Promise<Profile> {
  const bytes = await cpuProfileToPprof(profile, { startedAtMs: 1_700_000_000_000, intervalMicros: 1000 });
  return Profile.decode(gunzipSync(bytes));
}

/** `place < caller < ...: values` for every sample. */
function stacks(profile: Profile): string[] {
  const text = (at: unknown): string => profile.stringTable.strings[Number(at)] ?? '';
  const place = (id: unknown): string => {
    const line = profile.location.find((location) => Number(location.id) === Number(id))?.line[0];
    const named = profile.function.find((one) => Number(one.id) === Number(line?.functionId));
    return `${text(named?.name)} ${text(named?.filename)}:${line?.line}`;
  };
  return profile.sample.map(
    ({ locationId, value }) => `${locationId.map(place).join(' < ')}: ${value.join(' ')}`,
  );
}

describe('cpuProfileToPprof', () => {
  it('gives each line its share of the time until the next sample, and leaves idling out', async () => {
    const main = 'main (limiter/a.ts:10) /app/limiter/a.ts';
    const work = 'anonymous (limiter/a.ts:20) /app/limiter/a.ts';
    expect(stacks(await decoded(recorded))).toEqual([
      `${main}:12: 1 2000000`,
      `${work}:21 < ${main}:10: 2 2000000`,
      `${work}:23 < ${main}:10: 1 1000000`,
    ]);
  });

  it('says when, how long and how often it looked', async () => {
    const profile = await decoded(recorded);
    expect([profile.timeNanos, profile.durationNanos, profile.period].map(String)).toEqual([
      '1700000000000000000',
      '6000000',
      '1000000',
    ]);
  });

  it('survives a profile without samples', async () => {
    const nothing = { startTime: 0, endTime: 1, nodes: recorded.nodes.slice(0, 1) };
    expect(stacks(await decoded(nothing))).toEqual([]);
  });
});
