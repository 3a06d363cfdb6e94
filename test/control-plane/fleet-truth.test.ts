import { afterEach, beforeAll, expect, it } from 'vitest';
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
import { type ScriptedXdsClient, startWeirLikeClient } from '../support/xds-client.ts';

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

  const startLeader = async (name: string): Promise<number> => {
    const replica = await startReplica(api(), name, leases);
    running.push(replica);
    await replica.program.printed(/Leading/);
    return replica.ports.xds;
  };
  const limiter = async (port: number, pod: string): Promise<ScriptedXdsClient> => {
    const client = await startWeirLikeClient({ port, pod, reconnects: false });
    clients.push(client);
    return client;
  };
  const apply = (requests: number): string =>
    api().mustKubectl(['apply', '-f', '-'], {
      input: rateLimitConfigText({ name: 'shop', domain: 'shop', requests }),
    });
  const programmed = (): string => conditionOf(api(), 'shop', 'Programmed');
  const generation = (): string =>
    api().mustKubectl(['get', 'rlc', 'shop', '-o', 'jsonpath={.status.observedGeneration}']);

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
