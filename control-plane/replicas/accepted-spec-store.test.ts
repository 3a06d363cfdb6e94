import { expect, it, onTestFinished } from 'vitest';
import { kinds, MemoryApi } from '../../test/simulation/memory-api.ts';
import { MemoryCluster } from '../../test/simulation/memory-cluster.ts';
import { plainCodec } from '../../test/simulation/simulated-replica.ts';
import { SimulatedProcess, VirtualTime } from '../../test/simulation/virtual-time.ts';
import { recordedTelemetry } from '../../test/support/control-plane-telemetry.ts';
import { AcceptedSpecStore } from './accepted-spec-store.ts';

const configMaps = kinds.find(({ plural }) => plural === 'configmaps')!;

/** A leader that has loaded its specs, and what is stored. */
async function setUp() {
  const time = new VirtualTime();
  const { clock, timers } = new SimulatedProcess(time);
  const cluster = new MemoryCluster(() => clock.nowMs());
  const telemetry = recordedTelemetry();
  const client = new MemoryApi({ cluster, timers, userAgent: 'test' });
  const store = new AcceptedSpecStore({
    ...telemetry,
    ...{ clock, timers, client, random: () => 0, codec: plainCodec, namespace: 'weir-system' },
    leads: () => true,
    changed: () => {},
  });
  onTestFinished(async () => {
    await Promise.all([store.close(), time.advance(10_000)]);
  });
  await Promise.all([store.load(), time.advance(1_000)]);
  const stored = () => cluster.list({ kind: configMaps, namespace: undefined, labelSelector: '' });
  return { time, cluster, telemetry, store, stored };
}

const spec = (name: string, bytes: number) => ({
  ...{ namespace: 'team', name, generation: 3 },
  spec: { domain: 'x'.repeat(bytes) },
});

it('a spec that does not fit into one ConfigMap is in several', async () => {
  const { time, telemetry, store, stored } = await setUp();
  const specs = new Map(Object.entries({ u1: spec('large', 1_000_000), u2: spec('small', 900_000) }));
  store.sync(specs);
  await time.advance(5_000);
  expect(stored().map(({ metadata }) => metadata.name)).toEqual([
    'weir-kept-u1',
    'weir-kept-u1.2',
    'weir-kept-u2',
  ]);
  expect([store.stored, telemetry.events]).toEqual([specs, []]);
  store.sync(new Map());
  await time.advance(5_000);
  expect(stored()).toEqual([]);
});

it('a leader stores a spec again that somebody deleted', async () => {
  const { time, cluster, store, stored } = await setUp();
  store.sync(new Map(Object.entries({ u1: spec('limits', 1) })));
  await time.advance(5_000);
  const names = stored().map(({ metadata }) => metadata.name);
  expect(names).toHaveLength(1);
  cluster.delete({ kind: configMaps, namespace: 'weir-system', name: names[0]!, isStatus: false }, {});
  await time.advance(5_000);
  expect(stored().map(({ metadata }) => metadata.name)).toEqual(names);
});

it.each<[reason: string, data: Record<string, string | null>]>([
  ['JSON', { 'specs.json': 'none' }],
  ['namespace', { 'specs.json': '{"name":"limits","generation":1,"spec":{}}' }],
  ['name', { 'specs.json': '{"namespace":"team","generation":1,"spec":{}}' }],
  ['generation', { 'specs.json': '{"namespace":"team","name":"limits","spec":{}}' }],
  ['specs.json is missing', { revision: null, part: null, 'specs.json': null }],
])('a ConfigMap that is damaged (%s) is skipped, with a line in the log', async (reason, data) => {
  const { time, cluster, telemetry, store, stored } = await setUp();
  store.sync(new Map(Object.entries({ u1: spec('limits', 1) })));
  await time.advance(5_000);
  const [{ metadata }] = stored() as [ReturnType<typeof stored>[0]];
  const target = { kind: configMaps, namespace: 'weir-system', name: metadata.name, isStatus: false };
  cluster.merge(target, { data }, 'user');
  await time.advance(100);
  const skipped = telemetry.events.filter(([message]) => message === 'Cannot read a stored spec');
  expect(skipped).toEqual([
    [expect.anything(), { name: metadata.name, reason: expect.stringContaining(reason) }],
  ]);
});
