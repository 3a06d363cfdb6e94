import { expect, it, onTestFinished } from 'vitest';
import { kinds, MemoryApi } from '../../test/simulation/memory-api.ts';
import { MemoryCluster } from '../../test/simulation/memory-cluster.ts';
import { plainCodec } from '../../test/simulation/simulated-replica.ts';
import { SimulatedProcess, VirtualTime } from '../../test/simulation/virtual-time.ts';
import { recordedTelemetry } from '../../test/support/control-plane-telemetry.ts';
import type { LimiterReport } from '../model/fleet-snapshot.ts';
import { LeaseApi } from './lease-api.ts';
import { managedLabels } from './own-objects.ts';
import { ReplicaReports } from './replica-reports.ts';

const limiter: LimiterReport = {
  ...{
    id: 'b/1',
    instance: 'one',
    name: 'limiter-0',
    fleet: 'default',
    isWeir: true,
    countsCompatibly: true,
  },
  ...{ capabilities: [], connectedMs: 0, acceptedVersion: 'v1', refusal: undefined },
};
const configMaps = kinds.find(({ plural }) => plural === 'configmaps')!;

it('a leader is dead once its sign of life expires, although its lead lasts longer', async () => {
  const time = new VirtualTime();
  const { clock, timers } = new SimulatedProcess(time);
  const cluster = new MemoryCluster(() => clock.nowMs());
  const client = new MemoryApi({ cluster, timers, userAgent: 'test' });
  const parts = { client, namespace: 'weir-system', clock, timers };
  const changed: string[] = [];
  const open = (replica: string) =>
    new ReplicaReports({
      ...parts,
      ...recordedTelemetry(),
      ...{ replica, random: () => 0.5, codec: plainCodec, listed: () => {}, changed: () => {} },
      leaseChanged: (name) => changed.push(name),
    });
  const leases = new LeaseApi({ ...parts, timeoutMs: 1_000 });
  const claimOf = (name: string, durationMs: number) => ({
    ...{ name, holder: 'b', durationMs, transitions: 0, acquireTime: undefined },
  });
  const [own, other] = [open('a'), open('b')];
  onTestFinished(async () => {
    await Promise.all([own.close(), other.close(), time.advance(10_000)]);
  });
  expect(own.living()).toEqual([{ replica: 'a', limiters: [] }]);
  own.start();
  other.start();
  other.publish([], {});
  const [{ metadata }] = await Promise.all([
    leases.apply(claimOf('weir-replica-b', 5_000), { labels: managedLabels('replica') }),
    time.advance(100),
  ]);
  // A report without an owner would outlive its replica.
  expect(cluster.list({ kind: configMaps, namespace: undefined, labelSelector: '' })).toEqual([]);
  other.ownedBy({
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    name: metadata.name,
    uid: metadata.uid,
  });
  await Promise.all([leases.claim(claimOf('weir-control-plane', 15_000), undefined), time.advance(100)]);
  const alive = () => own.living().map(({ replica }) => replica);
  await time.advance(4_500);
  expect([alive(), own.remains()]).toEqual([['a', 'b'], []]);
  await time.advance(500);
  expect(alive()).toEqual(['a']);
  const [remains] = own.remains();
  expect(remains?.leases.map(({ name }) => name)).toEqual(['weir-replica-b']);
  expect(new Set(changed)).toEqual(new Set(['weir-control-plane', 'weir-replica-b']));
});

it('a Lease object shows how far a replica has decided since its last report, unless that is another report', async () => {
  const time = new VirtualTime();
  const { clock, timers } = new SimulatedProcess(time);
  const cluster = new MemoryCluster(() => clock.nowMs());
  const client = new MemoryApi({ cluster, timers, userAgent: 'test' });
  const parts = { client, namespace: 'weir-system', clock, timers };
  let changes = 0;
  const open = (replica: string, random: number) =>
    new ReplicaReports({
      ...parts,
      ...recordedTelemetry(),
      ...{ replica, random: () => random, codec: plainCodec, listed: () => {}, leaseChanged: () => {} },
      changed: () => {
        changes += 1;
      },
    });
  const leases = new LeaseApi({ ...parts, timeoutMs: 1_000 });
  const claim = {
    name: 'weir-replica-b',
    holder: 'b',
    durationMs: 5_000,
    transitions: 0,
    acquireTime: undefined,
  };
  const own = open('a', 0.1);
  const before = open('b', 0.2);
  const other = open('b', 0.3);
  onTestFinished(async () => {
    await Promise.all([own.close(), before.close(), other.close(), time.advance(10_000)]);
  });
  const renew = async (annotations: Readonly<Record<string, string>>) => {
    const labels = managedLabels('replica');
    const [{ metadata }] = await Promise.all([
      leases.apply(claim, { labels, annotations }),
      time.advance(300),
    ]);
    return { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', name: metadata.name, uid: metadata.uid };
  };
  const reports = (): unknown[] =>
    own
      .living()
      .slice(1)
      .map(({ decided, limiters }) => [limiters.length, decided]);
  const maps = () => cluster.list({ kind: configMaps, namespace: undefined, labelSelector: '' });
  own.start();
  other.start();
  other.ownedBy(await renew({}));
  other.publish([limiter], { configs: '1' });
  await time.advance(300);
  expect([reports(), maps().length]).toEqual([[[1, { configs: '1' }]], 1]);
  const { metadata } = maps()[0]!;
  const changesBefore = changes;
  other.publish([{ ...limiter }], { configs: '2' });
  await time.advance(300);
  expect([reports(), maps()[0]!.metadata.resourceVersion, changes]).toEqual([
    [[1, { configs: '1' }]],
    metadata.resourceVersion,
    changesBefore,
  ]);
  await renew(other.progress);
  expect([reports(), changes]).toEqual([[[1, { configs: '2' }]], changesBefore + 1]);
  await renew(other.progress);
  expect(changes).toBe(changesBefore + 1);
  // A process of the same name has an equal number of reports.
  before.publish([], { configs: '9' });
  for (const progress of [before.progress, { 'ratelimit.weir.dev/report': '{' }]) {
    await renew(progress);
    expect(reports()).toEqual([[1, { configs: '1' }]]);
  }
  other.publish([], { configs: '3' });
  await time.advance(300);
  expect(reports()).toEqual([[0, { configs: '3' }]]);
});
