import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { conditionOf, installPrerequisites, startReplica } from '../support/cluster.ts';
import { describeWithOwnApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { startWeirLikeClient } from '../support/xds-client.ts';

const patient = { timeoutMs: 30_000 };

describeWithOwnApiServer('a domain whose owner is deleted', (api) => {
  beforeAll(() => {
    installPrerequisites(api());
    for (const namespace of ['owner', 'squatter']) api().createNamespace(namespace);
  });

  it('is given away once the delay is over, also when the API server was away meanwhile', async () => {
    api().mustKubectl(['delete', 'rlc', '--all', '--all-namespaces']);
    api().delete('configmaps', { namespace: 'weir-system' });
    const replica = await startReplica(api(), 'a', { DOMAIN_RELEASE_DELAY: '10s' });
    onTestFinished(() => replica.stop());
    const limiter = await startWeirLikeClient({ port: replica.ports.xds, pod: 'lim-0' });
    onTestFinished(() => limiter.close());
    const apply = (namespace: string): void =>
      api().apply(rateLimitConfigText({ name: 'limits', namespace, domain: 'shop', requests: 1 }));
    const awaitAccepted = (namespace: string, status: string, timeoutMs = 30_000): Promise<void> =>
      eventually(() => expect(conditionOf(api(), 'limits', 'Accepted', namespace)).toBe(status), {
        timeoutMs,
      });
    const record = () => api().read('configmaps', { name: 'weir-domains', namespace: 'weir-system' });
    apply('owner');
    await eventually(() => expect(JSON.stringify(record()?.data)).toContain('owner'), patient);
    apply('squatter');
    await awaitAccepted('squatter', 'False DomainConflict');
    api().delete('ratelimitconfigs', { name: 'limits', namespace: 'owner' });
    await api().stopServer();
    await sleep(10_000);
    expect(limiter.last?.names).not.toContain('squatter/limits');
    await api().startServer();
    // Ten seconds after the control plane has reached the server again, whose start takes long beside others.
    await awaitAccepted('squatter', 'True Valid', 120_000);
  }, 300_000);
});
