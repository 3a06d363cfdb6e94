import { gunzipSync } from 'node:zlib';
import { Profile } from 'pprof-format';
import { describe, expect, it } from 'vitest';
import { type HeapNode, heapProfileToPprof } from './heap-profile.ts';

const node = (id: number, functionName: string, selfSize: number, children: HeapNode[] = []): HeapNode => ({
  id,
  callFrame: { functionName, url: 'node:internal/x', lineNumber: id, columnNumber: 0 },
  selfSize,
  children,
});

describe('heapProfileToPprof', () => {
  it('counts the samples and bytes of every allocating function, with its callers', async () => {
    const head = node(1, '(root)', 0, [node(2, 'outer', 0, [node(3, 'inner', 1024), node(4, 'other', 512)])]);
    const samples = [{ nodeId: 3 }, { nodeId: 4 }, { nodeId: 3 }];
    const bytes = await heapProfileToPprof(
      { head, samples },
      { sinceMs: 0, nowMs: 5_000, intervalBytes: 524_288 },
    );
    const profile = Profile.decode(gunzipSync(bytes));
    const text = (at: unknown): string => profile.stringTable.strings[Number(at)] ?? '';
    const names = profile.location.map(({ line }) =>
      text(profile.function[Number(line[0]?.functionId) - 1]?.name),
    );
    const stacks = profile.sample.map(({ locationId, value }) => [
      ...locationId.map((id) => names[Number(id) - 1]),
      ...value.map(Number),
    ]);
    expect(stacks.sort()).toEqual([
      ['inner (node:internal/x:4)', 'outer (node:internal/x:3)', 2, 1024],
      ['other (node:internal/x:5)', 'outer (node:internal/x:3)', 1, 512],
    ]);
    expect(profile.comment.map(text)).toEqual([
      'JavaScript objects alive and allocated since 1970-01-01T00:00:00.000Z on the main thread, ' +
        'one sample per 524288 bytes on average. Lines are where a function begins.',
    ]);
  });
});
