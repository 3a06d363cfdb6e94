/** Two candidates on an API server in memory: what they report, and what the Lease object says. */
import { expect, it } from 'vitest';
import { kinds, MemoryApi } from '../../test/simulation/memory-api.ts';
import { MemoryCluster } from '../../test/simulation/memory-cluster.ts';
import { SimulatedProcess, VirtualTime } from '../../test/simulation/virtual-time.ts';
import { recordedTelemetry } from '../../test/support/control-plane-telemetry.ts';
import { LeaseApi } from './lease-api.ts';
import { LeaseElection } from './lease-election.ts';

const leases = kinds.find(({ plural }) => plural === 'leases')!;

function setUp() {
  const time = new VirtualTime();
  const cluster = new MemoryCluster(() => new SimulatedProcess(time).clock.nowMs());
  const open = (identity: string) => {
    const { clock, timers } = new SimulatedProcess(time);
    const client = new MemoryApi({ cluster, timers, userAgent: identity });
    const reported: string[] = [];
    const election = new LeaseElection({
      ...recordedTelemetry((message, { leader }) => {
        reported.push(leader === undefined ? message : `${message}: ${leader}`);
      }),
      ...{ leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2_000 },
      ...{ identity, leaseName: 'weir', clock, timers },
      api: new LeaseApi({ client, namespace: 'weir-system', timeoutMs: 1_000, clock }),
      startedLeading: () => {},
      stoppedLeading: () => {},
      failed: (error) => reported.push(`failed: ${error}`),
    });
    election.start();
    return { election, reported };
  };
  return { time, cluster, open };
}

it('reports each change of the leader once', async () => {
  const { time, cluster, open } = setUp();
  const one = open('one');
  await time.advance(5_000);
  const two = open('two');
  await time.advance(60_000);
  expect([one.election.leads, two.election.leads, two.election.leader]).toEqual([true, false, 'one']);
  expect([one.reported, two.reported]).toEqual([['Leading'], ['Another replica leads: one']]);
  await Promise.all([one.election.close(), time.advance(1_000)]);
  await time.advance(60_000);
  expect([one.election.leads, two.election.leads]).toEqual([false, true]);
  expect(one.reported.filter((text) => text === 'No longer leading')).toHaveLength(1);
  expect(two.reported.filter((text) => text !== 'No replica leads')).toEqual([
    'Another replica leads: one',
    'Leading',
  ]);
  await Promise.all([two.election.close(), time.advance(1_000)]);
  const stored = cluster.list({ kind: leases, namespace: 'weir-system', labelSelector: '' });
  expect(stored.map(({ spec }) => (spec as { holderIdentity?: string }).holderIdentity)).toEqual(['']);
});
