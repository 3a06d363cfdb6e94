import { expect, it, onTestFinished } from 'vitest';
import { kinds, MemoryApi } from '../../test/simulation/memory-api.ts';
import { MemoryCluster } from '../../test/simulation/memory-cluster.ts';
import { plainCodec } from '../../test/simulation/simulated-replica.ts';
import { SimulatedProcess, VirtualTime } from '../../test/simulation/virtual-time.ts';
import { recordedTelemetry } from '../../test/support/control-plane-telemetry.ts';
import { LeaseApi } from './leases.ts';
import { managedLabels } from './own-objects.ts';
import { ReplicaReports } from './replica-reports.ts';

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
  other.publish({ replica: 'b', limiters: [] });
  const [{ metadata }] = await Promise.all([
    leases.apply(claimOf('weir-replica-b', 5_000), managedLabels('replica')),
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
