import fc from 'fast-check';
import { expect, it } from 'vitest';
import { caseCount } from '../../test/support/property-cases.ts';
import { SeenLimiters } from '../../test/support/seen-limiters.ts';
import type { Endpoint } from '../model/config-object.ts';
import type { LimiterReport } from '../model/fleet-snapshot.ts';
import { VersionLedger } from './fleet-rollout.ts';

const names = ['a', 'b', 'c'];
const versions = ['v1', 'v2', 'v3'];

/** What one pod is at a moment: its endpoint, whether its limiter is connected, and what that has accepted. */
const anyPod = fc.record({
  endpoint: fc.constantFrom('none', 'unready', 'ready', 'terminating'),
  isConnected: fc.boolean(),
  accepted: fc.integer({ min: 0, max: versions.length }),
});
type Pod = typeof anyPod extends fc.Arbitrary<infer T> ? T : never;
const anyHistory = fc.array(
  fc.record({
    afterMs: fc.constantFrom(10, 500, 1_000, 20_000, 40_000),
    pods: fc.tuple(anyPod, anyPod, anyPod),
  }),
  { minLength: 1, maxLength: 12 },
);

function endpointOf(name: string, { endpoint }: Pod): Endpoint[] {
  if (endpoint === 'none') return [];
  const conditions = { isReady: endpoint === 'ready', isTerminating: endpoint === 'terminating' };
  return [{ key: name, name, podUid: name, addresses: [], ...conditions }];
}

function reportOf(name: string, { isConnected, accepted }: Pod): LimiterReport[] {
  if (!isConnected) return [];
  const traits = {
    isWeir: true,
    countsCompatibly: false,
    capabilities: [],
    connectedMs: 0,
    refusal: undefined,
  };
  const acceptedVersion = versions[accepted - 1];
  return [{ id: name, instance: name, podUid: name, name, fleet: 'default', acceptedVersion, ...traits }];
}

it('never says of rules that all have them while a ready pod was last heard of without them', () => {
  fc.assert(
    fc.property(anyHistory, (history) => {
      let ledger = VersionLedger.empty();
      for (const version of versions) {
        const snapshot = { fleet: 'default', version, resources: [] };
        const fleets = new Map([['default', snapshot]]);
        ledger = ledger.with({ fleets, outcomes: new Map(), holders: new Map() }, 0);
      }
      const view = new SeenLimiters(ledger);
      let nowMs = 0;
      /** What each was last heard to have; 0: nothing. */
      const lastReported = new Map<string, number>();
      const readySince = new Map<string, number>();
      for (const { afterMs, pods } of history) {
        nowMs += afterMs;
        const endpoints = pods.flatMap((pod, index) => endpointOf(names[index]!, pod));
        const limiters = pods.flatMap((pod, index) => reportOf(names[index]!, pod));
        const expectation = { count: undefined, endpoints, graceMs: 30_000, ignoresDisconnected: false };
        view.update([{ replica: 'r', limiters }], nowMs, new Map([['default', expectation]]));
        for (const [index, pod] of pods.entries()) {
          const name = names[index]!;
          // Who says nothing over a new stream still has what it had; whose pod is gone is another one later.
          if (pod.isConnected && pod.accepted > 0) lastReported.set(name, pod.accepted);
          else if (!pod.isConnected && pod.endpoint === 'none') lastReported.delete(name);
          if (pod.endpoint !== 'ready') readySince.delete(name);
          else if (!readySince.has(name)) readySince.set(name, nowMs);
        }
        for (const number of [1, 2, 3]) {
          const { connected, total, inForce } = view.fleet('default').of({ number, ms: 0, needs: [] });
          if (connected === 0 || inForce < total) continue;
          for (const [index, pod] of pods.entries()) {
            const name = names[index]!;
            const has = lastReported.get(name) ?? 0;
            if (pod.isConnected && has > 0) expect([name, has >= number]).toEqual([name, true]);
            const isLong = nowMs - (readySince.get(name) ?? nowMs) > 1_000;
            if (pod.isConnected || pod.endpoint !== 'ready' || !isLong) continue;
            expect([name, has >= number]).toEqual([name, true]);
          }
        }
      }
    }),
    { numRuns: caseCount(500) },
  );
});
