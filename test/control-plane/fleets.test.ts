import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, expect, it } from 'vitest';
import { readFleet } from '../../control-plane/fleets/fleet-readings.ts';
import type { ApiObject } from '../../control-plane/kubernetes/watch-protocol.ts';
import type { FleetObject, FleetStatus } from '../../control-plane/model/config-object.ts';
import { StatusWriter } from '../../control-plane/replicas/status-writer.ts';
import {
  conditionOf,
  createPods,
  writeEndpoints as endpoints,
  installPrerequisites,
  messageOf,
  startReplicaHere,
} from '../support/cluster.ts';
import type { RunningControlPlane } from '../support/control-plane-process.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { clientOf } from '../support/kubernetes-client.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { type ScriptedXdsClient, startWeirLikeClient } from '../support/xds-client.ts';

const namespace = 'weir-system';
const service = 'weir-limiter';

let replica: RunningControlPlane | undefined;
const clients: ScriptedXdsClient[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await replica?.stop();
});

describeWithApiServer('RateLimitFleets on the API server', (api) => {
  const uids = new Map<string, string>();

  beforeAll(() => {
    installPrerequisites(api());
    for (const [name, uid] of createPods(api(), ['lim-0', 'lim-1', 'lim-2'])) uids.set(name, uid);
  });

  const writeEndpoints = (ready: readonly string[], unready: readonly string[] = []): void =>
    endpoints(api(), { service, uids, ready, unready });

  async function start(name: string): Promise<number> {
    replica = await startReplicaHere(api(), name, {
      FLEET_SERVICES: `default=${namespace}/${service}`,
      XDS_CLIENT_FLEETS: `system:serviceaccount:${namespace}:limiter=default`,
      LEASE_DURATION: '4s',
      LEASE_RENEW_DEADLINE: '3s',
      LEASE_RETRY_PERIOD: '500ms',
    });
    await replica.program.printed(/Leading/);
    return replica.ports.xds;
  }

  async function limiter(port: number, pod: string): Promise<ScriptedXdsClient> {
    const token = api().accountToken('limiter', { namespace, audience: 'weir-control-plane', pod });
    const client = await startWeirLikeClient({ port, pod, authorization: () => `Bearer ${token}` });
    clients.push(client);
    return client;
  }

  const apply = (requests: number): void =>
    api().apply(rateLimitConfigText({ name: 'shop', domain: 'shop', requests }));
  /** `2 True AllLimiters`: the generation, and what is said of it. */
  const programmed = (): string => {
    const { status } = api().read('ratelimitconfigs', { name: 'shop', namespace: 'default' });
    return `${status?.observedGeneration} ${conditionOf(api(), 'shop', 'Programmed')}`;
  };
  const fleet = (): string[] => {
    const [, row = ''] = api().mustKubectl(['get', 'rlf', '-n', namespace]).trim().split('\n');
    return row.split(/\s+/).slice(0, -1);
  };

  it('are created for Services, and never changed', async () => {
    await start('creates');
    const spec = () => api().read('ratelimitfleets', { name: 'default', namespace })?.spec;
    await eventually(() =>
      expect(spec()).toEqual({
        service: { namespace, name: service },
        disconnectedGraceSeconds: 30,
        onDisconnected: 'Unknown',
      }),
    );
    await replica?.stop();
    const patch = '{"spec":{"service":{"name":"another"}}}';
    api().mustKubectl(['patch', 'rlf', 'default', '-n', namespace, '--type=merge', '-p', patch]);
    await start('leaves-alone');
    await eventually(() => expect(fleet()).toEqual(['default', '0/0', '0', 'False']));
    expect(spec()).toMatchObject({ service: { name: 'another' } });
    api().delete('ratelimitfleets', { name: 'default', namespace });
    await eventually(() => expect(spec()?.service).toEqual({ namespace, name: service }));
  }, 60_000);

  it('say that their endpoints may not be read, also if another one may not be created', async () => {
    const edit = (change: (verbs: string[]) => string[]): void => {
      const args = ['role', 'weir-control-plane', '-n', namespace];
      const role = JSON.parse(api().mustKubectl(['get', ...args, '-o', 'json']));
      for (const rule of role.rules)
        if (rule.resources.includes('ratelimitfleets')) rule.verbs = change(rule.verbs);
      const patch = JSON.stringify({ rules: role.rules });
      api().mustKubectl(['patch', ...args, '--type=merge', '-p', patch]);
    };
    api().delete('ratelimitfleets', { namespace });
    edit((verbs) => verbs.filter((verb) => verb !== 'create'));
    try {
      await start('may-not');
      const metadata = { name: 'edge', namespace };
      const spec = { service: { namespace: 'default', name: 'edge' } };
      const input = JSON.stringify({
        apiVersion: 'ratelimit.weir.dev/v1alpha1',
        kind: 'RateLimitFleet',
        metadata,
        spec,
      });
      api().apply(input);
      await eventually(() =>
        expect(
          api().read('ratelimitfleets', { name: 'edge', namespace }).status?.conditions?.[0],
        ).toMatchObject({
          status: 'False',
          reason: 'EndpointsUnknown',
          message: expect.stringMatching(
            /^spec.service: the control plane cannot watch the endpoints of default\/edge: .*forbidden.*; limiters that were connected within the grace are expected$/,
          ),
        }),
      );
      const rows = api().mustKubectl(['get', 'rlf', '-n', namespace, '-o', 'name']);
      expect(rows.trim()).toBe('ratelimitfleet.ratelimit.weir.dev/edge');
    } finally {
      edit((verbs) => [...verbs, 'create']);
      api().delete('ratelimitfleets', { namespace });
    }
  }, 60_000);

  it('get no status that follows from an object that somebody has written to since', async () => {
    const metadata = { name: 'a', namespace: 'default' };
    const input = JSON.stringify({
      ...{ apiVersion: 'ratelimit.weir.dev/v1alpha1', kind: 'RateLimitFleet', metadata, spec: {} },
    });
    api().mustKubectl(['create', '-f', '-'], { input });
    const shown = (): FleetObject => {
      const object = JSON.parse(api().mustKubectl(['get', 'rlf', 'a', '-n', 'default', '-o', 'json']));
      const reading = readFleet(object as ApiObject);
      if ('unreadable' in reading) throw new Error(reading.unreadable);
      return reading.item;
    };
    const status = (count: number): FleetStatus => ({
      ...{ observedGeneration: 1, limiters: `${count}/9`, expected: 9, connected: count },
      ...{ current: 0, joining: 0, refusing: [], conditions: [] },
    });
    const writer = new StatusWriter({ client: clientOf(api()) });
    const before = shown();
    const first = await writer.write({ object: before, status: status(1) });
    expect(first).toEqual({ is: 'written', version: shown().resourceVersion });
    // What a leader does that was paused since it knew `before`.
    expect(await writer.write({ object: before, status: status(2) })).toEqual({ is: 'outdated' });
    expect(await writer.write({ object: shown(), status: status(3) })).toMatchObject({ is: 'written' });
    expect(shown().status?.connected).toBe(3);
  });

  it('let an object be Programmed only on all limiters that are expected, not on those that are connected', async () => {
    writeEndpoints(['lim-0', 'lim-1'], ['lim-2']);
    const port = await start('expects');
    apply(1);
    const cutOff = await limiter(port, 'lim-0');
    await limiter(port, 'lim-1');
    await eventually(() => expect(programmed()).toBe('1 True AllLimiters'));
    await eventually(() => expect(fleet()).toEqual(['default', '2/2', '2', 'True']));
    const reason = 'jsonpath={.status.conditions[?(@.type=="Progressing")].message}';
    expect(api().mustKubectl(['get', 'rlf', 'default', '-n', namespace, '-o', reason])).toBe(
      'joining: lim-2',
    );

    cutOff.close();
    await eventually(() => expect(fleet()).toEqual(['default', '1/2', '1', 'True']));
    expect(programmed()).toBe('1 True AllLimiters');
    apply(2);
    await eventually(() => expect(programmed()).toBe('2 Unknown Disconnected'));
    expect(messageOf(api(), 'shop', 'Ready')).toMatch(/; no report from lim-0 since \d\d:\d\d:\d\dZ$/);
    await limiter(port, 'lim-0');
    await eventually(() => expect(programmed()).toBe('2 True AllLimiters'));
    await eventually(() => expect(fleet()).toEqual(['default', '2/2', '2', 'True']));

    // One that becomes ready and was never heard of runs nobody knows what.
    writeEndpoints(['lim-0', 'lim-1', 'lim-2']);
    await eventually(() => expect(programmed()).toBe('2 Unknown Disconnected'));
    const version = (): string =>
      api().read('ratelimitconfigs', { name: 'shop', namespace: 'default' }).metadata.resourceVersion;
    await limiter(port, 'lim-2');
    await eventually(() => expect(programmed()).toBe('2 True AllLimiters'));
    const before = version();
    writeEndpoints(['lim-0', 'lim-1']);
    clients.pop()?.close();
    await eventually(() => expect(fleet()).toEqual(['default', '2/2', '2', 'True']));
    await sleep(500);
    expect(version()).toBe(before);
  }, 120_000);
});
