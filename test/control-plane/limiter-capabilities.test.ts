import { afterEach, beforeAll, expect, it } from 'vitest';
import { capabilities } from '../../rules/language/capabilities.ts';
import { conditionOf, installPrerequisites, messageOf, startReplicaHere } from '../support/cluster.ts';
import type { RunningControlPlane } from '../support/control-plane-process.ts';
import { DeltaClient } from '../support/delta-client.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { type ScriptedXdsClient, startGoLikeClient, startWeirLikeClient } from '../support/xds-client.ts';

const running: RunningControlPlane[] = [];
const clients: ScriptedXdsClient[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await Promise.all(running.splice(0).map((replica) => replica.stop()));
});

const soon = (check: Parameters<typeof eventually>[0]): Promise<void> =>
  eventually(check, { timeoutMs: 25_000 });

describeWithApiServer('limiters without capabilities', (api) => {
  beforeAll(() => installPrerequisites(api()));

  const start = async (name: string, merges: boolean): Promise<number> => {
    const replica = await startReplicaHere(api(), name, { MERGE_DOMAIN_CONFIG: String(merges) });
    running.push(replica);
    await replica.program.printed(/Leading/);
    return replica.ports.xds;
  };
  const limiters = async (port: number) => {
    const go = await startGoLikeClient({ port, reconnects: false });
    const weir = await startWeirLikeClient({ port, pod: 'lim-weir', capabilities, reconnects: false });
    clients.push(go, weir);
    return { go, weir };
  };

  it.each([false, true])(
    'keep what they had of an object that becomes plain, sliding and invalid, over restarts; MERGE_DOMAIN_CONFIG=%s',
    async (merges) => {
      const name = `generations-${merges}`;
      const resource = merges ? name : `default/${name}`;
      const apply = (requests: number, more: object = {}): void =>
        api().apply(rateLimitConfigText({ name, domain: name, requests, ...more }));
      const sliding = (requestsPerUnit: number) => ({
        rule: { rateLimit: { unit: 'day', requestsPerUnit, algorithm: 'SlidingWindow' } },
      });
      const programmed = () => conditionOf(api(), name, 'Programmed');
      const limitsOf = (...all: ScriptedXdsClient[]) => all.map(({ last }) => last?.limits.get(name));

      const first = await start('plane-1', merges);
      apply(31);
      if (merges) {
        const other = { name: `${name}-other`, domain: name, requests: 7, rule: { key: 'other' } };
        api().apply(rateLimitConfigText(other));
      }
      const before = await limiters(first);
      const delta = new DeltaClient(first, { pod: 'lim-delta' });
      delta.request();
      await soon(() => expect([...delta.world.keys()]).toContain(resource));
      await soon(() => expect(programmed()).toBe('True AllLimiters'));
      const plain = delta.world.get(resource);

      apply(32, sliding(32));
      await soon(() => expect(programmed()).toBe('False LimiterTooOld'));
      // Those that have answered are in it at once, the others within moments.
      await soon(() =>
        expect(messageOf(api(), name, 'Programmed')).toMatch(
          /limiters that do not support all of algorithms get generation 1: default \(.*, lim-delta/,
        ),
      );
      await soon(() => expect(limitsOf(before.go, before.weir)).toEqual([31, 32]));

      apply(33, { ...sliding(33), more: [{ key: 'key' }] });
      await soon(() => expect(conditionOf(api(), name, 'Accepted')).toBe('False Invalid'));
      expect(limitsOf(before.go, before.weir)).toEqual([31, 32]);
      await soon(() =>
        expect(api().names('configmaps', { namespace: 'weir-system' }).join()).toContain('weir-kept-'),
      );

      const again = await limiters(first);
      expect(limitsOf(again.go, again.weir)).toEqual([31, 32]);

      await running.shift()!.stop();
      const second = await start('plane-2', merges);
      const after = await limiters(second);
      expect(limitsOf(after.go, after.weir)).toEqual([31, 32]);
      const nextDelta = new DeltaClient(second, { pod: 'lim-delta' });
      nextDelta.request({ initialResourceVersions: { [resource]: plain! } });
      const { names, removed } = await nextDelta.responses(1);
      expect(names).not.toContain(resource);
      expect(removed).toEqual([]);
      for (const { go } of [before, again, after]) {
        const limits = go.received.map((response) => response.limits.get(name));
        expect(limits.slice(limits.indexOf(31))).not.toContain(undefined);
      }
      expect(delta.world.get(resource)).toBe(plain);

      apply(34);
      await soon(() => expect(limitsOf(after.go, after.weir)).toEqual([34, 34]));
      await soon(() => expect(programmed()).toBe('True AllLimiters'));
    },
    120_000,
  );
});
