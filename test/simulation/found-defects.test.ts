/** What the simulation found, each as short as it can be. */
import { expect, it } from 'vitest';
import type { ApiRequest } from '../../control-plane/kubernetes/api.ts';
import { ResourceWatch } from '../../control-plane/kubernetes/watch.ts';
import { type Fault, MemoryApi } from './memory-api.ts';
import { MemoryCluster } from './memory-cluster.ts';
import { SimulatedProcess, VirtualTime } from './virtual-time.ts';

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
  const told: string[] = [];
  const watch = new ResourceWatch({
    ...parts,
    client,
    resource: { group: '', version: 'v1', plural: 'configmaps', namespace: 'team' },
    read: (object) => ({ item: object }),
    listener: {
      listed: () => told.push('listed'),
      changed: () => {},
      unreachable: () => told.push('unreachable'),
      reachable: () => told.push('reachable'),
      skipped: () => {},
    },
  });
  watch.start();
  await time.advance(1_000);
  isAway = true;
  client.close();
  await time.advance(8_000);
  expect(told).toEqual(['listed', 'unreachable']);
  isAway = false;
  // Opened and broken off, as by a server that is not well yet.
  while (client.watches === 0) await time.advance(1);
  client.close();
  const brokenMs = time.nowMs;
  while (told.at(-1) !== 'reachable' && time.nowMs < brokenMs + 30_000) await time.advance(100);
  expect(time.nowMs - brokenMs).toBeLessThan(12_000);
});
