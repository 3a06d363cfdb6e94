/** The objects of a watch are those of the API server, whatever breaks between them. */
import fc from 'fast-check';
import { expect, it, onTestFinished } from 'vitest';
import { kinds, MemoryApi } from '../../test/simulation/memory-api.ts';
import { MemoryCluster } from '../../test/simulation/memory-cluster.ts';
import { SimulatedProcess, VirtualTime } from '../../test/simulation/virtual-time.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { ResourceWatch } from './watch.ts';

const configMaps = kinds.find(({ plural }) => plural === 'configmaps')!;

/** A watch of the texts in ConfigMaps, two in a page. A text that begins with `bad` cannot be read. */
function setUp() {
  const time = new VirtualTime();
  const { clock, timers } = new SimulatedProcess(time);
  const cluster = new MemoryCluster(() => clock.nowMs());
  const client = new MemoryApi({ cluster, timers, userAgent: 'test' });
  const skipped: string[] = [];
  const watch = new ResourceWatch<string>({
    ...{ client, clock, timers, random: () => 0.5, limits: { pageSize: 2 } },
    resource: { group: '', version: 'v1', plural: 'configmaps', namespace: 'ns' },
    read: (object) => {
      const { text = '' } = object['data'] as { text?: string };
      return text.startsWith('bad') ? { unreadable: text } : { item: text };
    },
    listener: {
      ...{ changed: () => {}, unreachable: () => {}, reachable: () => {} },
      skipped: (key, reason) => skipped.push(`${key}: ${reason}`),
    },
  });
  const target = (name: string) => ({ kind: configMaps, namespace: 'ns', name, isStatus: false });
  const put = (name: string, text: string) =>
    cluster.apply(
      target(name),
      { metadata: { name, namespace: 'ns' }, data: { text } },
      { manager: 'test', force: true },
    );
  const remove = (name: string) => {
    if (stored().has(`ns/${name}`)) cluster.delete(target(name), {});
  };
  const stored = () =>
    new Map(
      cluster
        .list({ kind: configMaps, namespace: 'ns', labelSelector: '' })
        .map((object) => [`ns/${object.metadata.name}`, (object['data'] as { text: string }).text]),
    );
  const close = async () => {
    await Promise.all([watch.close(), time.advance(60_000)]);
  };
  return { time, cluster, client, watch, skipped, put, remove, stored, close };
}

it('the last readable part of an object stays, in events and in lists', async () => {
  const { time, cluster, client, watch, skipped, put, close } = setUp();
  onTestFinished(close);
  put('a', '1');
  watch.start();
  await time.advance(1_000);
  put('a', 'bad 2');
  await time.advance(1_000);
  put('b', 'bad 3');
  cluster.compact();
  client.close();
  await time.advance(60_000);
  expect([...watch.items]).toEqual([['ns/a', '1']]);
  expect(new Set(skipped)).toEqual(new Set(['ns/a: bad 2', 'ns/b: bad 3']));
});

it('a watch has what the server has, whatever breaks in between', async () => {
  const name = fc.constantFrom('a', 'b', 'c', 'd', 'e');
  const actions = fc.array(
    fc.oneof(
      fc.record({ do: fc.constant('put' as const), name, text: fc.stringMatching(/^[x-z]{1,3}$/) }),
      fc.record({ do: fc.constant('remove' as const), name }),
      fc.record({ do: fc.constant('cut' as const) }),
      fc.record({ do: fc.constant('compact' as const) }),
      fc.record({ do: fc.constant('wait' as const), ms: fc.nat(3_000) }),
    ),
    { maxLength: 30 },
  );
  await fc.assert(
    fc.asyncProperty(actions, async (script) => {
      const { time, cluster, client, watch, put, remove, stored, close } = setUp();
      watch.start();
      for (const action of script) {
        if (action.do === 'put') put(action.name, action.text);
        else if (action.do === 'remove') remove(action.name);
        else if (action.do === 'compact') cluster.compact();
        else if (action.do === 'cut') client.close();
        else await time.advance(action.ms);
      }
      await time.advance(60_000);
      expect(watch.items).toEqual(stored());
      await close();
    }),
    { numRuns: caseCount(100) },
  );
});
