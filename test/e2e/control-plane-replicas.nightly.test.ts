import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';

import {
  conditionOf,
  installPrerequisites,
  messageOf,
  startReplica,
  startXdsLimiter,
} from '../support/cluster.ts';
import type { ControlPlaneProcess } from '../support/control-plane-process.ts';
import { describeWithOwnApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import type { LimiterProcess } from '../support/limiter-process.ts';
import { type ManifestOptions, rateLimitConfigText } from '../support/rate-limit-config.ts';
import { ScriptedXdsClient } from '../support/xds-client.ts';

/** Shorter than the defaults, so that a death is over soon; what is asserted follows from them. */
const leaseMs = 4_000;
const leases = {
  LEASE_DURATION: `${leaseMs}ms`,
  LEASE_RENEW_DEADLINE: '3s',
  LEASE_RETRY_PERIOD: '500ms',
  REPLICA_LEASE_DURATION: '3s',
};

const eventFields =
  'jsonpath={range .items[*]}{.type} {.regarding.name}{.involvedObject.name} {.note}{.message}{"\\n"}{end}';

describeWithOwnApiServer('two replicas and three limiters', (api) => {
  const replicas: ControlPlaneProcess[] = [];
  const limiters: LimiterProcess[] = [];
  let foreign: ScriptedXdsClient;

  beforeAll(async () => {
    installPrerequisites(api());
    // The first one is the leader: it is there before the other.
    replicas.push(await startReplica(api(), 'control-plane-0', leases));
    await replicas[0]?.program.printed(/Leading/);
    replicas.push(await startReplica(api(), 'control-plane-1', leases));
    limiters.push(await startXdsLimiter(port(0), 'limiter-0'), await startXdsLimiter(port(1), 'limiter-1'));
    foreign = new ScriptedXdsClient({ port: port(1), nodeId: 'default' });
  });

  afterAll(async () => {
    foreign?.close();
    await Promise.all([...limiters, ...replicas].map((process) => process.stop()));
  });

  const port = (index: number): number => (replicas[index] as ControlPlaneProcess).ports.xds;
  const apply = (options: ManifestOptions): void => api().apply(rateLimitConfigText(options));
  const programmed = (name: string): string => conditionOf(api(), name, 'Programmed');
  /** Limiters that all replicas know of together, those with the newest rules first. */
  const limitersAt = async (index: number): Promise<{ current: number; known: number }> => {
    const url = `http://127.0.0.1:${(replicas[index] as ControlPlaneProcess).ports.http}/snapshot?format=json`;
    const { fleets } = (await (await fetch(url)).json()) as {
      fleets: { limiters: { isCurrent: boolean }[] }[];
    };
    const all = fleets[0]?.limiters ?? [];
    return { current: all.filter(({ isCurrent }) => isCurrent).length, known: all.length };
  };
  const expectLimiters = (index: number, current: number, timeoutMs?: number): Promise<void> =>
    eventually(
      async () => expect(await limitersAt(index)).toEqual({ current, known: current }),
      timeoutMs === undefined ? {} : { timeoutMs },
    );

  it('count every limiter of every replica', async () => {
    apply({ name: 'shop', domain: 'shop', requests: 5 });
    await eventually(() => expect(programmed('shop')).toBe('True AllLimiters'));
    await expectLimiters(0, 3);
  });

  it('report once, on the younger object, of counters that could meet', async () => {
    apply({ name: 'shop-key', domain: 'shop_key', requests: 5 });
    const events = (): string[] =>
      api()
        .mustKubectl(['get', 'events', '--field-selector', 'reason=CountersCanMeet', '-o', eventFields])
        .split('\n');
    // The leader looks again 30 s after it looked last, at most.
    await eventually(() => expect(events()).toHaveLength(2), { timeoutMs: 45_000, intervalMs: 500 });
    expect(events()[0]).toMatch(
      /^Warning shop-key The rule shop_key_\S+ and shop_\S+ of default\/shop could count/,
    );
    api().delete('ratelimitconfigs', { name: 'shop-key', namespace: 'default' });
  }, 60_000);

  it('say which limiter rejects a change, and in its words', async () => {
    foreign.rejectWith('cannot load that');
    apply({ name: 'shop', domain: 'shop', requests: 6 });
    apply({ name: 'mail', domain: 'mail', requests: 1 });
    await eventually(() => expect(conditionOf(api(), 'mail', 'Programmed')).toBe('False Refused'));
    // The others have it a moment later.
    await eventually(() =>
      expect(messageOf(api(), 'mail', 'Programmed')).toMatch(
        /^not in force on every limiter of fleet 'default'; rejected by \S.* since \d\d:\d\d:\d\dZ: cannot load that$/,
      ),
    );
    foreign.acceptAgain();
    apply({ name: 'shop', domain: 'shop', requests: 7 });
    await eventually(() => expect(programmed('mail')).toBe('True AllLimiters'));
    await eventually(() => expect(programmed('shop')).toBe('True AllLimiters'));
  });

  it('are true again within 2 s after a limiter moved', async () => {
    foreign.close();
    await expectLimiters(0, 2, 2_000);
    foreign = new ScriptedXdsClient({ port: port(0), nodeId: 'default' });
    await expectLimiters(0, 3, 2_000);
    await eventually(() => expect(programmed('shop')).toBe('True AllLimiters'), { timeoutMs: 2_000 });
  });

  it('are true again within 2 s after a limiter died', async () => {
    process.kill((limiters[1] as LimiterProcess).pid, 'SIGKILL');
    await expectLimiters(0, 2, 2_000);
    limiters[1] = await startXdsLimiter(port(1), 'limiter-1');
    await expectLimiters(0, 3, 2_000);
    await eventually(() => expect(programmed('shop')).toBe('True AllLimiters'), { timeoutMs: 2_000 });
  });

  it('do not take limiters that a dead replica served for ones that have the new rule', async () => {
    process.kill((replicas[0] as ControlPlaneProcess).pid, 'SIGKILL');
    apply({ name: 'late', domain: 'late', requests: 3 });
    // Its two limiters are cut off, and still answer by the old rules: the third one alone has the new ones.
    await eventually(() => expect(programmed('late')).toBe('Unknown Disconnected'), {
      timeoutMs: leaseMs + 2_000,
    });
    await eventually(() => expect(programmed('shop')).toBe('True AllLimiters'), { timeoutMs: 2_000 });
    replicas[0] = await startReplica(api(), 'control-plane-2', { ...leases, XDS_PORT: String(port(0)) });
    await expectLimiters(1, 3, 15_000);
    await eventually(() => expect(programmed('late')).toBe('True AllLimiters'));
  });

  it('serve old and new limiters while the API server is away', async () => {
    await api().stopServer();
    const late = await startXdsLimiter(port(0), 'limiter-late');
    const client = new LimiterClient(late.ports.grpc);
    try {
      // Longer than three leases, and than any wait of a limiter that looks for its control plane.
      for (let second = 0; second < 15; second++) {
        for (const limiter of [limiters[0] as LimiterProcess, late]) {
          const asker = limiter === late ? client : new LimiterClient(limiter.ports.grpc);
          const entries = [{ key: 'key', value: `v${second}` }];
          const answer = await asker.ask({ domain: 'shop', descriptors: [{ entries }] });
          expect(answer.statuses[0]?.currentLimit?.requestsPerUnit).toBe(7);
          if (asker !== client) asker.close();
        }
        await sleep(1_000);
      }
      await api().startServer();
      await expectLimiters(0, 4, 30_000);
      apply({ name: 'shop', domain: 'shop', requests: 8 });
      await eventually(() => expect(conditionOf(api(), 'shop', 'Programmed')).toBe('True AllLimiters'));
    } finally {
      client.close();
      await late.stop();
    }
  }, 150_000);
});
