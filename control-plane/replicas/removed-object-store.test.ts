import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { kinds, MemoryApi } from '../../test/simulation/memory-api.ts';
import { MemoryCluster } from '../../test/simulation/memory-cluster.ts';
import { plainCodec } from '../../test/simulation/simulated-replica.ts';
import { SimulatedProcess, VirtualTime } from '../../test/simulation/virtual-time.ts';
import { recordedTelemetry } from '../../test/support/control-plane-telemetry.ts';
import type { ApiRequest } from '../kubernetes/api.ts';
import type { RemovedObject } from '../model/decision.ts';
import { RemovedObjectStore } from './removed-object-store.ts';

const configMaps = kinds.find(({ plural }) => plural === 'configmaps')!;

function setUp() {
  const time = new VirtualTime();
  const { clock, timers } = new SimulatedProcess(time);
  const cluster = new MemoryCluster(() => clock.nowMs());
  const telemetry = recordedTelemetry();
  /** What each replica was reported last. */
  const read = new Map<string, readonly RemovedObject[]>();
  const writes: string[] = [];
  const open = (replica: string, leads: boolean): RemovedObjectStore => {
    const fault = ({ method }: ApiRequest) => {
      if (method !== undefined && method !== 'GET') writes.push(`${replica} ${method}`);
      return undefined;
    };
    const client = new MemoryApi({ cluster, timers, userAgent: replica, fault });
    const parts = { ...telemetry, clock, timers, client, codec: plainCodec, random: () => 0 };
    const store = new RemovedObjectStore({
      ...parts,
      namespace: 'weir-system',
      mayWrite: () => leads,
      changed: (objects) => read.set(replica, objects),
    });
    store.start();
    return store;
  };
  const stored = () => cluster.list({ kind: configMaps, namespace: undefined, labelSelector: '' });
  return { time, open, read, stored, telemetry, writes };
}

const removed = (name: string, bytes = 1): RemovedObject => ({
  ...{ namespace: 'team', name, uid: randomBytes(bytes).toString('hex'), generation: 2, removedMs: 7 },
  served: { fleet: 'default', domain: 'shop', resource: `team/${name}` },
});

it('a leader stores deleted objects for all replicas, until there are none', async () => {
  const { time, open, read, stored } = setUp();
  const leader = open('leader', true);
  open('follower', false);
  await time.advance(1_000);
  expect([...read]).toEqual([
    ['leader', []],
    ['follower', []],
  ]);
  const objects: RemovedObject[] = [removed('a'), { ...removed('b'), served: null }];
  leader.sync(objects);
  await time.advance(1_000);
  expect(read.get('follower')).toEqual(objects);
  leader.sync([]);
  await time.advance(1_000);
  expect([stored(), read.get('follower')]).toEqual([[], []]);
});

it('only the leader writes', async () => {
  const { time, open, stored } = setUp();
  const follower = open('follower', false);
  await time.advance(1_000);
  follower.sync([removed('a')]);
  await time.advance(10_000);
  expect(stored()).toEqual([]);
});

it('nothing is written after the store is closed', async () => {
  const { time, open, writes } = setUp();
  const leader = open('leader', true);
  await time.advance(1_000);
  await leader.close();
  leader.sync([removed('a')]);
  await time.advance(10_000);
  expect(writes).toEqual([]);
});

it('all deleted objects are stored, in several ConfigMaps if necessary', async () => {
  const { time, open, read, stored, telemetry } = setUp();
  const leader = open('leader', true);
  open('follower', false);
  await time.advance(1_000);
  // Ten times 150 kB, in ConfigMaps of at most 1 MB.
  const objects = Array.from({ length: 10 }, (_, index) => removed(`o${index}`, 75_000));
  leader.sync(objects);
  await time.advance(1_000);
  expect(read.get('follower')).toEqual(objects);
  expect(stored().map(({ metadata }) => metadata.name)).toEqual(['weir-removed', 'weir-removed.2']);
  expect(telemetry.events).toEqual([]);
});

it('nothing is written that is stored already, not even by the next leader', async () => {
  const { time, open, writes } = setUp();
  const leader = open('leader', true);
  await time.advance(1_000);
  const objects = [removed('a')];
  for (let turn = 0; turn < 3; turn++) {
    leader.sync(structuredClone(objects));
    await time.advance(10_000);
  }
  expect(writes).toEqual(['leader PATCH']);
  await leader.close();
  const next = open('next', true);
  await time.advance(1_000);
  next.sync(structuredClone(objects));
  await time.advance(60_000);
  expect(writes).toHaveLength(1);
  next.sync([...objects, removed('b')]);
  await time.advance(1_000);
  expect(writes).toEqual(['leader PATCH', 'next PATCH']);
});
