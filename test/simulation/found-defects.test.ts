/** What the simulation found, each as short as it can be. */
import { expect, it } from 'vitest';
import type { ApiRequest } from '../../control-plane/kubernetes/api.ts';
import { ResourceWatch } from '../../control-plane/kubernetes/watch.ts';
import { AcceptedSpecStore } from '../../control-plane/replicas/accepted-spec-store.ts';
import { DomainRecordStore } from '../../control-plane/replicas/domain-records.ts';
import { LeaseApi, ReplicaLease } from '../../control-plane/replicas/lease-api.ts';
import { recordedTelemetry } from '../support/control-plane-telemetry.ts';
import { type Fault, kinds, MemoryApi } from './memory-api.ts';
import { MemoryCluster } from './memory-cluster.ts';
import { plainCodec } from './simulated-replica.ts';
import { SimulatedProcess, VirtualTime } from './virtual-time.ts';

const configMaps = kinds.find(({ plural }) => plural === 'configmaps')!;

function world(fault: (request: ApiRequest) => Fault | undefined) {
  const time = new VirtualTime();
  const { clock, timers } = new SimulatedProcess(time);
  const cluster = new MemoryCluster(() => clock.nowMs());
  const client = new MemoryApi({ cluster, timers, userAgent: 'test', fault, delayMs: 2 });
  return { time, cluster, client, clock, timers, random: () => 0.5 };
}

it('a watch that stays open ends an outage, though nothing of its kind changes', async () => {
  let isAway = false;
  const { time, client, ...parts } = world(() => (isAway ? { unreached: true } : undefined));
  const reported: string[] = [];
  const watch = new ResourceWatch({
    ...parts,
    client,
    resource: { group: '', version: 'v1', plural: 'configmaps', namespace: 'team' },
    read: (object) => ({ item: object }),
    listener: {
      changed: () => {
        if (reported.length === 0) reported.push('listed');
      },
      unreachable: () => reported.push('unreachable'),
      reachable: () => reported.push('reachable'),
      skipped: () => {},
    },
  });
  watch.start();
  await time.advance(1_000);
  isAway = true;
  client.close();
  await time.advance(8_000);
  expect(reported).toEqual(['listed', 'unreachable']);
  isAway = false;
  // Opened and broken off, as by a server that is not well yet.
  while (client.watches === 0) await time.advance(1);
  client.close();
  const brokenMs = time.nowMs;
  while (reported.at(-1) !== 'reachable' && time.nowMs < brokenMs + 30_000) await time.advance(100);
  expect(time.nowMs - brokenMs).toBeLessThan(12_000);
});

it('a leader that lost the lead while it could not store domains, and leads again, stores them', async () => {
  let isFailing = true;
  let attempts = 0;
  const { time, cluster, ...parts } = world(({ method }) => {
    if (method !== 'PATCH') return undefined;
    attempts += 1;
    return isFailing ? { refused: { status: 500, reason: 'InternalError' } } : undefined;
  });
  const store = new DomainRecordStore({
    ...parts,
    ...recordedTelemetry(),
    codec: plainCodec,
    namespace: 'weir-system',
    releaseMs: 60_000,
    mayWrite: () => true,
    changed: () => {},
  });
  const decision = { holders: new Map([['default/shop', ['team']]]) };
  const stored = () => cluster.list({ kind: configMaps, namespace: undefined, labelSelector: '' });
  store.start();
  await time.advance(100);
  store.decided(decision);
  while (attempts === 0) await time.advance(10);
  await time.advance(10);
  store.stoppedLeading();
  // The attempt that waited is made, and has nothing to write.
  await time.advance(60_000);
  expect(stored()).toEqual([]);
  isFailing = false;
  store.decided(decision);
  await time.advance(60_000);
  expect(stored()).toHaveLength(1);
});

it('a spec that a leader replaced by an older one unread is stored again, but not for ever', async () => {
  let isBlind = false;
  const { time, cluster, client, ...parts } = world(() => undefined);
  const blind = ({ method = 'GET' }: ApiRequest) =>
    isBlind && method === 'GET' ? { unreached: true } : undefined;
  const ofLeader = new MemoryApi({
    cluster,
    timers: parts.timers,
    userAgent: 'test',
    delayMs: 2,
    fault: blind,
  });
  const open = (leads: boolean) =>
    new AcceptedSpecStore({
      ...parts,
      ...recordedTelemetry(),
      client: leads ? ofLeader : client,
      codec: plainCodec,
      namespace: 'weir-system',
      leads: () => leads,
      changed: () => {},
    });
  const [leader, other] = [open(true), open(false)];
  const known = (generation: number, text = '') =>
    new Map([['uid', { namespace: 'team', name: 'limits', generation, spec: { generation, text } }]]);
  const stored = () => other.stored.get('uid')?.generation;
  await Promise.all([leader.load(), other.load(), time.advance(100)]);
  leader.sync(known(1));
  await time.advance(500);
  isBlind = true;
  ofLeader.close();
  other.sync(known(2));
  await time.advance(2_000);
  expect(stored()).toBe(2);
  const found: (number | undefined)[] = [];
  for (const text of ['a', 'b', 'c', 'd']) {
    leader.sync(known(1, text));
    await time.advance(500);
    found.push(stored());
    await time.advance(2_000);
    found.push(stored());
  }
  expect(found).toEqual([1, 2, 1, 2, 1, 2, 1, 1]);
});

it('a replica confirms what it knows by a renewal that begins afterward, unless nothing answers', async () => {
  let fault: Fault | undefined;
  const { time, client, ...parts } = world(() => fault);
  const api = new LeaseApi({ ...parts, client, namespace: 'weir-system', timeoutMs: 2_500 });
  const results: string[] = [];
  const lease = new ReplicaLease({
    ...parts,
    replica: 'a',
    durationMs: 5_000,
    api,
    annotations: () => ({}),
    renewed: () => results.push('renewed'),
    failed: () => results.push('failed'),
  });
  const confirm = () => lease.confirm(() => results.push('confirmed'));
  lease.start();
  await time.advance(1);
  confirm();
  await time.advance(10);
  expect(results.splice(0)).toEqual(['renewed']);
  await time.advance(200);
  expect(results.splice(0)).toEqual(['renewed', 'confirmed']);
  await time.advance(500);
  confirm();
  confirm();
  await time.advance(10);
  expect(results.splice(0)).toEqual(['renewed', 'confirmed', 'confirmed']);
  fault = { unreached: true };
  confirm();
  await time.advance(2_000);
  expect(new Set(results.splice(0))).toEqual(new Set(['failed']));
  fault = { refused: { status: 403, reason: 'Forbidden' } };
  await time.advance(1_000);
  expect(results.splice(0, 2)).toEqual(['failed', 'confirmed']);
  fault = undefined;
  const closing = lease.close();
  results.length = 0;
  confirm();
  await time.advance(5_000);
  await closing;
  expect(results).toEqual([]);
});

it('what another replica accepted after the generation that the leader knows is stored, once, and not deleted unread', async () => {
  const { time, cluster, ...parts } = world(() => undefined);
  const reported: number[] = [];
  const open = (leads: boolean) =>
    new AcceptedSpecStore({
      ...parts,
      ...recordedTelemetry(),
      codec: plainCodec,
      namespace: 'weir-system',
      leads: () => leads,
      changed: (stored) => {
        const generation = stored.get('uid')?.generation;
        if (leads && generation !== undefined) reported.push(generation);
      },
    });
  const [leader, other] = [open(true), open(false)];
  const known = (generation: number) =>
    new Map([['uid', { namespace: 'team', name: 'limits', generation, spec: { generation } }]]);
  const stored = () => leader.stored.get('uid')?.generation;
  await Promise.all([leader.load(), other.load(), time.advance(100)]);
  leader.sync(known(1));
  other.sync(known(2));
  await time.advance(500);
  expect(stored()).toBe(1);
  await time.advance(2_000);
  // The leader has not decided anew: what it wanted before is not written over what it was sent of.
  expect([stored(), reported]).toEqual([2, [1, 2]]);
  leader.sync(new Map());
  await time.advance(10_000);
  expect([stored(), cluster.list({ kind: configMaps, namespace: undefined, labelSelector: '' })]).toEqual([
    undefined,
    [],
  ]);
  leader.sync(known(1));
  other.sync(known(1));
  await time.advance(10_000);
  expect(stored()).toBe(1);
});
