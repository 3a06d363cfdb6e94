import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, expect, it, onTestFinished } from 'vitest';
import {
  applyFleet,
  conditionOf,
  installPrerequisites,
  messageOf,
  startReplica,
} from '../support/cluster.ts';
import type { ControlPlaneProcess } from '../support/control-plane-process.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { ScriptedXdsClient, startWeirLikeClient } from '../support/xds-client.ts';

/** Shorter than the default, so that the next leader leads soon. */
const leases = { LEASE_DURATION: '4s', LEASE_RENEW_DEADLINE: '3s', LEASE_RETRY_PERIOD: '500ms' };

const running: ControlPlaneProcess[] = [];
const clients: ScriptedXdsClient[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await Promise.all(running.splice(0).map((replica) => replica.stop()));
});

describeWithApiServer('Programmed', (api) => {
  beforeAll(() => {
    installPrerequisites(api());
    applyFleet(api(), { onDisconnected: 'Ignore' });
  });

  const startLeader = async (name: string, env: Record<string, string> = {}): Promise<number> => {
    const replica = await startReplica(api(), name, { ...leases, ...env });
    running.push(replica);
    await replica.program.printed(/Leading/);
    return replica.ports.xds;
  };
  const limiter = async (port: number, pod: string): Promise<ScriptedXdsClient> => {
    const client = await startWeirLikeClient({ port, pod, reconnects: false });
    clients.push(client);
    return client;
  };
  const apply = (requests: number, name = 'shop'): string =>
    api().mustKubectl(['apply', '-f', '-'], {
      input: rateLimitConfigText({ name, domain: name, requests }),
    });
  const programmed = (): string => conditionOf(api(), 'shop', 'Programmed');
  const generation = (): string =>
    api().mustKubectl(['get', 'rlc', 'shop', '-o', 'jsonpath={.status.observedGeneration}']);

  /** A leader behind a proxy, which notices soon that the API server does not answer. */
  const startBehindProxy = async (name: string): Promise<{ proxy: TcpProxy; port: number }> => {
    const proxy = await TcpProxy.to(Number(new URL(api().url).port));
    onTestFinished(() => proxy.close());
    const kubeconfig = api().kubeconfigOver(proxy.port, 'control-plane');
    const port = await startLeader(name, { KUBECONFIG: kubeconfig, REPLICA_LEASE_DURATION: '1s' });
    return { proxy, port };
  };

  it('rests on rules that no replica replaces by older ones when the API server falls silent', async () => {
    apply(11, 'mail');
    const { proxy, port } = await startBehindProxy('silent');
    expect((await limiter(port, 'lim-0')).last?.limits.get('mail')).toBe(11);
    proxy.swallow();
    apply(12, 'mail');
    await running[0]?.program.printed(/A Lease could not be read or written/);
    // The other Lease has a longer patience.
    await sleep(1_000);
    const moved = new ScriptedXdsClient({ port, userAgentName: 'weir', claims: 'feedfacefeedface' });
    clients.push(moved);
    await sleep(1_500);
    expect(moved.received).toEqual([]);
    await proxy.heal();
    await eventually(() => expect(moved.last?.limits.get('mail')).toBe(12), { timeoutMs: 20_000 });
  }, 60_000);

  it('follows within seconds when the connections of a watch are dead and others are not', async () => {
    apply(21, 'mail');
    const { proxy, port } = await startBehindProxy('forgotten');
    const client = await limiter(port, 'lim-0');
    proxy.forget();
    apply(22, 'mail');
    await eventually(() => expect(client.last?.limits.get('mail')).toBe(22), { timeoutMs: 20_000 });
  }, 60_000);

  it('is False when a limiter comes back with rules of before a restart and refuses the new ones', async () => {
    const port = await startLeader('first');
    const stays = await limiter(port, 'lim-0');
    const leaves = await limiter(port, 'lim-1');
    apply(1);
    await eventually(() => expect(programmed()).toBe('True AllLimiters'));
    await eventually(() => expect(leaves.acceptedVersion).toBe(stays.acceptedVersion));
    const old = leaves.acceptedVersion;
    leaves.close();
    apply(2);
    await eventually(() => expect(`${generation()} ${programmed()}`).toBe('2 True AllLimiters'));

    process.kill((running[0] as ControlPlaneProcess).pid, 'SIGKILL');
    const nextPort = await startLeader('second');
    await limiter(nextPort, 'lim-0');
    const back = await startWeirLikeClient({
      port: nextPort,
      pod: 'lim-1',
      claims: old,
      refuses: 'I cannot load that',
      reconnects: false,
    });
    clients.push(back);
    await eventually(() => expect(programmed()).toBe('False Refused'));
    expect(messageOf(api(), 'shop', 'Programmed')).toMatch(
      /; refused by lim-1 since \d\d:\d\d:\d\dZ: I cannot load that$/,
    );
  }, 60_000);
});
