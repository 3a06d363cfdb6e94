/** What the settings that only a cluster shows do to a whole control plane; main.test.ts has the others. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, expect, it } from 'vitest';

import type { ApiServer } from '../support/api-server.ts';
import { allowLeases, installPrerequisites } from '../support/cluster.ts';
import { describeWithDistantApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { InProcessControlPlane } from '../support/in-process-control-plane.ts';
import { rateLimitConfig } from '../support/rate-limit-config.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import { ScriptedXdsClient } from '../support/xds-client.ts';

interface Row {
  setting: string;
  /** By the value of the setting; `unset` is none. */
  seen: Record<string, unknown>;
  /** What it takes to see something. */
  env?: Record<string, string>;
  observe(controlPlane: InProcessControlPlane, api: ApiServer, network: TcpProxy): unknown;
}

const namespace = 'weir-system';
const common = { POD_NAME: 'replica', POD_NAMESPACE: namespace };

/** Names of the objects that are served, once something is decided. */
async function served(controlPlane: InProcessControlPlane): Promise<string[]> {
  await eventually(async () => expect((await controlPlane.get('/readyz')).status).toBe(200));
  const { fleets } = await controlPlane.snapshot();
  return fleets
    .flatMap(({ objects }: { objects: { name: string }[] }) => objects.map(({ name }) => name))
    .sort();
}

interface Lease {
  metadata: { name: string };
  spec: { leaseDurationSeconds: number; renewTime: string };
}

function leases(api: ApiServer, inNamespace = namespace): Lease[] {
  return api.read('leases', { namespace: inNamespace }).items;
}

/** Once the replica leads. */
async function leaseNamed(name: string, controlPlane: InProcessControlPlane, api: ApiServer): Promise<Lease> {
  await eventually(() => expect(controlPlane.lines.join()).toContain('msg="Leading"'));
  return leases(api).find(({ metadata }) => metadata.name === name) as Lease;
}

const inUse = 'weir-control-plane';

const limiter = 'system:serviceaccount:default:limiter';

/** As the kubelet puts it into a pod; another one each time. */
function createToken(api: ApiServer, audience: string): string {
  api.createServiceAccount('limiter', 'default');
  return api.accountToken('limiter', { namespace: 'default', audience });
}

/** What becomes of a limiter with this token. */
async function rulesFor({ ports }: InProcessControlPlane, token: string): Promise<string> {
  const client = new ScriptedXdsClient({
    port: ports.xds,
    authorization: () => `Bearer ${token}`,
    reconnects: false,
  });
  try {
    await eventually(() => expect(client.last ?? client.ends[0]).toBeDefined());
    return client.last === undefined ? (client.ends[0] as string).replace(/:.*/s, '') : 'served';
  } finally {
    client.close();
  }
}

const rows: Row[] = [
  {
    setting: 'KUBECONFIG',
    seen: {
      unset: 'cannot find the Kubernetes API',
      '/nowhere/config': 'KUBECONFIG=/nowhere/config: no such file',
      GOOD: ['default/one', 'other/two'],
    },
    observe: (controlPlane) =>
      /cannot find the Kubernetes API|KUBECONFIG=[^"]*/.exec(controlPlane.lines.join())?.[0] ??
      served(controlPlane),
  },
  {
    setting: 'WATCH_NAMESPACES',
    seen: {
      unset: ['default/one', 'other/two'],
      other: ['other/two'],
      'default,other': ['default/one', 'other/two'],
    },
    observe: served,
  },
  {
    setting: 'LABEL_SELECTOR',
    seen: { unset: ['default/one', 'other/two'], 'team=blue': ['other/two'] },
    observe: served,
  },
  {
    setting: 'POD_NAMESPACE',
    seen: { [namespace]: [inUse, 'weir-replica-replica'], elsewhere: [] },
    observe: async (controlPlane, api) => {
      await eventually(() =>
        expect(controlPlane.lines.join()).toMatch(/msg="Leading"|Could not read or write a Lease object/),
      );
      await eventually(() => expect([0, 2]).toContain(leases(api).length));
      return leases(api)
        .map(({ metadata }) => metadata.name)
        .sort();
    },
  },
  {
    setting: 'XDS_TOKEN_AUDIENCE',
    env: { XDS_CLIENT_FLEETS: `${limiter}=default` },
    seen: { unset: ['served', '16 UNAUTHENTICATED'], other: ['16 UNAUTHENTICATED', 'served'] },
    observe: (controlPlane, api) =>
      Promise.all(
        ['weir-control-plane', 'other'].map((audience) => rulesFor(controlPlane, createToken(api, audience))),
      ),
  },
  {
    setting: 'XDS_TOKEN_REVIEWS_PER_SECOND',
    env: { XDS_CLIENT_FLEETS: `${limiter}=default` },
    seen: { unset: 'at once', 1: 'one after the other' },
    observe: async (controlPlane, api) => {
      const tokens = [1, 2, 3].map(() => createToken(api, 'weir-control-plane'));
      const servedMs: number[] = [];
      await Promise.all(
        tokens.map(async (token) => {
          expect(await rulesFor(controlPlane, token)).toBe('served');
          servedMs.push(performance.now());
        }),
      );
      const gapsMs = servedMs.slice(1).map((atMs, index) => atMs - servedMs[index]!);
      return gapsMs.every((ms) => ms > 500) ? 'one after the other' : 'at once';
    },
  },
  {
    setting: 'LEASE_NAME',
    seen: { unset: [inUse], 'another-lease': ['another-lease'] },
    observe: async (controlPlane, api) => {
      allowLeases(api, 'another-lease');
      await leaseNamed('', controlPlane, api);
      return leases(api)
        .map(({ metadata }) => metadata.name)
        .filter((name) => !name.startsWith('weir-replica-'));
    },
  },
  {
    setting: 'LEASE_DURATION',
    seen: { unset: 15, '40s': 40 },
    observe: async (controlPlane, api) =>
      (await leaseNamed(inUse, controlPlane, api)).spec.leaseDurationSeconds,
  },
  {
    setting: 'REPLICA_LEASE_DURATION',
    seen: { unset: 5, '9s': 9 },
    observe: async (controlPlane, api) =>
      (await leaseNamed('weir-replica-replica', controlPlane, api)).spec.leaseDurationSeconds,
  },
  {
    setting: 'FLEET_SERVICES',
    seen: { unset: 'no fleet', 'edge=weir-system/weir-limiter': 'weir-limiter' },
    observe: async (controlPlane, api) => {
      await leaseNamed(inUse, controlPlane, api);
      await sleep(2_000);
      const name = 'jsonpath={.items[*].spec.service.name}';
      return api.mustKubectl(['get', 'rlf', '-n', namespace, '-o', name]) || 'no fleet';
    },
  },
  {
    setting: 'LEASE_RETRY_PERIOD',
    seen: { unset: 'once', '200ms': 'often' },
    observe: async (controlPlane, api) => {
      const first = await leaseNamed(inUse, controlPlane, api);
      await sleep(1_000);
      const second = await leaseNamed(inUse, controlPlane, api);
      return first.spec.renewTime === second.spec.renewTime ? 'once' : 'often';
    },
  },
  {
    setting: 'LEASE_RENEW_DEADLINE',
    env: { LEASE_RETRY_PERIOD: '200ms' },
    seen: { unset: 'leads on', '1s': 'leads no longer' },
    observe: async (controlPlane, api, network) => {
      await leaseNamed(inUse, controlPlane, api);
      await network.refuse();
      await sleep(2_500);
      const leads = !controlPlane.lines.join().includes('No longer leading');
      await network.heal();
      return leads ? 'leads on' : 'leads no longer';
    },
  },
];

describeWithDistantApiServer('what a setting does in a cluster', (api, network) => {
  let running: InProcessControlPlane | undefined;

  beforeAll(() => {
    installPrerequisites(api());
    api().createNamespace('other');
    const two = rateLimitConfig({ name: 'two', namespace: 'other', domain: 'two', requests: 2 });
    const labeled = { ...two, metadata: { name: 'two', namespace: 'other', labels: { team: 'blue' } } };
    for (const object of [rateLimitConfig({ name: 'one', domain: 'one', requests: 1 }), labeled]) {
      api().apply(JSON.stringify(object));
    }
  });
  afterEach(async () => {
    await running?.stop();
    api().delete('leases', { namespace });
  });

  it.each(
    rows.flatMap((row) =>
      Object.entries(row.seen).map(([value, seen]) => ({
        name: `${row.setting} ${value}`,
        row,
        value,
        seen,
      })),
    ),
  )('$name', async ({ row, value, seen }) => {
    const kubeconfig = api().kubeconfig('control-plane');
    const ordinary: Record<string, string> = row.setting === 'KUBECONFIG' ? {} : { KUBECONFIG: kubeconfig };
    const set = value === 'unset' ? {} : { [row.setting]: value.replace('GOOD', kubeconfig) };
    running = await InProcessControlPlane.start({ env: { ...common, ...ordinary, ...row.env, ...set } });
    expect(await row.observe(running, api(), network())).toEqual(seen);
  });

  it('sees each setting make a difference', () => {
    for (const { setting, seen } of rows) {
      const different = new Set(Object.values(seen).map((one) => JSON.stringify(one)));
      expect([setting, different.size > 1]).toEqual([setting, true]);
    }
  });
});
