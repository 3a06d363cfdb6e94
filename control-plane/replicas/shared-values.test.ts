import fc from 'fast-check';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { kinds, MemoryApi } from '../../test/simulation/memory-api.ts';
import { MemoryCluster } from '../../test/simulation/memory-cluster.ts';
import { plainCodec } from '../../test/simulation/simulated-replica.ts';
import { SimulatedProcess, VirtualTime } from '../../test/simulation/virtual-time.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { type ConfigMap, managedLabels, splitJson } from './own-objects.ts';
import { type SharedFormat, SharedValues, type SharedValuesOptions } from './shared-values.ts';

/** A long text of JSON, which is stored in parts. */
const longText = (letter: string): string => letter.repeat(9_000);

const format: SharedFormat<string> = {
  ...{ prefix: 'weir-text-', file: 'text.json', keepsLast: true },
  write: (text) => JSON.stringify(text),
  read: (json) => {
    if (typeof json !== 'string') throw new Error('not a text');
    return json;
  },
  isSame: (a, b) => a === b,
};

/** A reader of texts by key, and what it reports. */
async function collection(
  more: Partial<SharedFormat<string>> = {},
  options: Partial<SharedValuesOptions<string>> = {},
) {
  const time = new VirtualTime();
  const { clock, timers } = new SimulatedProcess(time);
  const cluster = new MemoryCluster(() => clock.nowMs());
  const client = new MemoryApi({ cluster, timers, userAgent: 'test' });
  const reported: string[] = [];
  const values = new SharedValues<string>({
    ...{ client, clock, timers, random: () => 0, codec: plainCodec, namespace: 'weir-system' },
    role: 'limiters',
    format: { ...format, ...more },
    mayWrite: () => false,
    read: (hasChanged) => {
      if (hasChanged) reported.push('changed');
    },
    lines: {
      ...{ unreachable: () => {}, reachable: () => {}, notStored: () => {} },
      skipped: (name, reason) => reported.push(`${name}: ${reason}`),
    },
    ...options,
  });
  onTestFinished(async () => {
    await Promise.all([values.close(), time.advance(10_000)]);
  });
  await Promise.all([values.load(), time.advance(100)]);
  reported.length = 0;
  const put = async (...maps: readonly ConfigMap[]): Promise<void> => {
    for (const { name, data, binaryData } of maps)
      cluster.apply(
        { kind: configMaps, namespace: 'weir-system', name, isStatus: false },
        { metadata: { name, namespace: 'weir-system', labels: managedLabels('limiters') }, data, binaryData },
        { manager: 'test', force: true },
      );
    await time.advance(100);
  };
  const drop = async (...names: readonly string[]): Promise<void> => {
    for (const name of names)
      cluster.delete({ kind: configMaps, namespace: 'weir-system', name, isStatus: false }, {});
    await time.advance(100);
  };
  return { values, reported, put, drop, time };
}

/** What a writer wants next, and which of its next requests that write fail. */
const anyWish = fc.record({
  texts: fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('x', 'y', longText('x'))),
  failures: fc.array(fc.boolean(), { maxLength: 4 }),
  afterMs: fc.constantFrom(0, 10, 500, 5_000),
});

const configMaps = kinds.find(({ plural }) => plural === 'configmaps')!;

/** In parts of 2,000 bytes, if the text is long. */
function mapsOf(key: string, text: string, revision: string): Promise<ConfigMap[]> {
  return splitJson({
    ...{ name: `weir-text-${key}`, file: 'text.json', revision, maxPartBytes: 2_000, codec: plainCodec },
    json: JSON.stringify(text),
  });
}

describe('stored values', () => {
  it('are one for each key, in one or several ConfigMaps', async () => {
    const { values, reported, put } = await collection();
    await put(...(await mapsOf('a', 'short', 'r1')), ...(await mapsOf('b', longText('x'), 'r1')));
    expect(values.stored).toEqual(
      new Map([
        ['a', 'short'],
        ['b', longText('x')],
      ]),
    );
    expect([...values.maps].map(([key, maps]) => [key, maps.length])).toEqual([
      ['a', 1],
      ['b', 5],
    ]);
    expect(new Set(reported)).toEqual(new Set(['changed']));
  });

  it('stay until all parts of the next value are there', async () => {
    const { values, reported, put } = await collection();
    const [before, next] = [await mapsOf('a', longText('x'), 'r1'), await mapsOf('a', longText('y'), 'r2')];
    await put(...before);
    await put(...next.slice(0, 1));
    expect(values.stored.get('a')).toBe(longText('x'));
    await put(...next.slice(1));
    expect(values.stored.get('a')).toBe(longText('y'));
    expect(reported).toEqual(['changed', 'changed']);
  });

  it('have nothing of parts that a longer value left', async () => {
    const { values, put } = await collection();
    await put(...(await mapsOf('a', longText('x'), 'r1')));
    await put(...(await mapsOf('a', 'short', 'r2')));
    expect(values.stored.get('a')).toBe('short');
  });

  it('are read once, and not when nothing of them changed', async () => {
    const { reported, put } = await collection({ read: () => 'constant' });
    await put(...(await mapsOf('a', 'x', 'r1')));
    await put(...(await mapsOf('b', 'y', 'r1')));
    await put(...(await mapsOf('a', 'z', 'r2')));
    expect(reported).toEqual(['changed', 'changed']);
  });

  it.each([
    ['again if the key is its own: nobody else wrote the other value', 'mine', () => true],
    ['no more once another process has written the key', 'other', undefined],
  ])('are written %s', async (_, stored, owns) => {
    const { values, put, time } = await collection({}, { mayWrite: () => true, ...(owns && { owns }) });
    values.sync(new Map([['a', 'mine']]));
    await time.advance(1_000);
    expect(values.stored.get('a')).toBe('mine');
    await put(...(await mapsOf('a', 'other', 'r2')));
    await time.advance(60_000);
    expect(values.stored.get('a')).toBe(stored);
  });

  it('are forgotten once their ConfigMaps are gone', async () => {
    const { values, reported, put, drop } = await collection();
    await put(...(await mapsOf('a', 'x', 'r1')));
    await drop('weir-text-a');
    expect([...values.stored]).toEqual([]);
    expect(reported).toEqual(['changed', 'changed']);
  });

  it.each<[isKept: string, keepsLast: boolean, stored: string | undefined, data: Record<string, string>]>([
    ['stay', true, 'x', { revision: 'r2', part: '1/1', 'text.json': '{' }],
    ['stay', true, 'x', {}],
    ['go', false, undefined, { revision: 'r2', part: '1/1', 'text.json': '1' }],
  ])('%s if the next value is damaged, which is reported once', async (_, keepsLast, kept, data) => {
    const { values, reported, put } = await collection({ keepsLast });
    await put(...(await mapsOf('a', 'x', 'r1')));
    const damaged = { name: 'weir-text-a', data, binaryData: {} };
    await put(damaged);
    await put(...(await mapsOf('b', 'y', 'r1')));
    expect(values.stored.get('a')).toBe(kept);
    expect(reported.filter((line) => line.startsWith('weir-text-a: '))).toHaveLength(1);
  });

  it('are found by key without looking at all ConfigMaps for each of them', async () => {
    const { values, time } = await collection({}, { mayWrite: () => true });
    const wanted = new Map(Array.from({ length: 50 }, (_, index) => [`k${index}`, 'x']));
    values.sync(wanted);
    await time.advance(10_000);
    const groupings = vi.spyOn(Map, 'groupBy');
    onTestFinished(() => groupings.mockRestore());
    values.sync(new Map(wanted).set('k7', 'y'));
    await time.advance(10_000);
    expect(values.stored.get('k7')).toBe('y');
    expect(groupings.mock.calls.length).toBeLessThan(5);
  });

  it('are what was wanted last, whatever requests failed, and are not written again', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyWish, { minLength: 1, maxLength: 6 }), async (wishes) => {
        const time = new VirtualTime();
        const { clock, timers } = new SimulatedProcess(time);
        const cluster = new MemoryCluster(() => clock.nowMs());
        let failures: boolean[] = [];
        let writes = 0;
        const client = new MemoryApi({
          ...{ cluster, timers, userAgent: 'test' },
          fault: ({ method = 'GET' }) => {
            if (method === 'GET') return undefined;
            writes += 1;
            return failures.shift() === true
              ? { refused: { status: 500, reason: 'InternalError' } }
              : undefined;
          },
        });
        const open = (): SharedValues<string> =>
          new SharedValues<string>({
            ...{ client, clock, timers, random: () => 0, codec: plainCodec, namespace: 'weir-system' },
            ...{ role: 'limiters', format, mayWrite: () => true, read: () => {}, maxPartBytes: 2_000 },
            lines: { unreachable: () => {}, reachable: () => {}, skipped: () => {}, notStored: () => {} },
          });
        const writer = open();
        await Promise.all([writer.load(), time.advance(100)]);
        for (const { texts, failures: next, afterMs } of wishes) {
          failures = next;
          writer.sync(new Map(Object.entries(texts)));
          await time.advance(afterMs);
        }
        failures = [];
        await time.advance(120_000);
        const before = writes;
        await time.advance(120_000);
        expect(writes).toBe(before);
        const reader = open();
        const [stored] = await Promise.all([reader.load(), time.advance(100)]);
        expect(Object.fromEntries(stored)).toEqual(wishes.at(-1)!.texts);
        await Promise.all([writer.close(), reader.close(), time.advance(10_000)]);
      }),
      { numRuns: caseCount(60) },
    );
  });
});
